package autoscalinglistener

import (
	"cmp"
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// rephrasePeriod is the shortest time between two texts of a failure. The text of an error can differ in each pass, and a write of
// the status brings the next pass at once.
const rephrasePeriod = 10 * time.Second

// report writes the status if it changed, and publishes the metric.
func (c *Controller) report(ctx context.Context, p *pass) error {
	publishRunning(p)
	if p.released {
		return nil
	}
	after := p.listener.DeepCopy()
	after.Status.ObservedGeneration = p.listener.Generation
	conditions := conditionsOf(p)
	if p.failure != nil && !p.memory.mayRephrase(p.now) {
		keepTexts(conditions, p.listener.Status.Conditions)
	}
	report.SetConditions(&after.Status.Conditions, p.listener.Generation, p.now, conditions...)
	_, err := kube.PatchStatus(ctx, c.options.Client, after, p.listener)
	return client.IgnoreNotFound(err)
}

// keepTexts keeps the messages of failures that the status already reports.
func keepTexts(conditions, reported []metav1.Condition) {
	for i := range conditions {
		before, now := meta.FindStatusCondition(reported, conditions[i].Type), &conditions[i]
		if before != nil && before.Status == now.Status && before.Reason == now.Reason && now.Reason == v1alpha1.ReasonReconcileFailed {
			now.Message = before.Message
		}
	}
}

// conditionsOf returns the conditions that kstatus evaluates, and CredentialsValid. Ready is about the pod, which may keep running
// while something else fails; Progressing and Stalled then say what.
func conditionsOf(p *pass) []metav1.Condition {
	reason, message := cmp.Or(p.state.reason, reasonStarting), p.state.message // no reason: the pass didn't come as far as the pod
	trouble, why, stalled := p.trouble()
	if p.obstacle != nil {
		reason, message = trouble, why
	}
	ready := metav1.Condition{Type: v1alpha1.ConditionReady, Status: status(p.state.ready), Reason: reason, Message: message}
	cause := cmp.Or(trouble, reason)
	progressing := metav1.Condition{Type: v1alpha1.ConditionProgressing, Status: status(!p.state.ready && !stalled), Reason: cause}
	stuck := metav1.Condition{Type: v1alpha1.ConditionStalled, Status: status(stalled), Reason: cause}
	if stalled {
		stuck.Message = why
	} else {
		progressing.Message = why
	}
	conditions := []metav1.Condition{ready, progressing, stuck}
	switch {
	case p.blocked != "":
		conditions = append(conditions, report.True(v1alpha1.ConditionDeletionBlocked, v1alpha1.ReasonForeignFinalizers, p.blocked))
	case p.state.reason == v1alpha1.ReasonPodTerminating:
		conditions = append(conditions, report.True(v1alpha1.ConditionDeletionBlocked, p.state.reason, p.state.message))
	case !p.undecided && meta.FindStatusCondition(p.listener.Status.Conditions, v1alpha1.ConditionDeletionBlocked) != nil:
		conditions = append(conditions, report.False(v1alpha1.ConditionDeletionBlocked, "NothingKept", "no object of the listener is kept by finalizers of others"))
	}
	switch {
	case p.resolved != nil:
		conditions = append(conditions, report.True(v1alpha1.ConditionCredentialsValid, "Complete", ""))
	case p.obstacle != nil:
		conditions = append(conditions, report.False(v1alpha1.ConditionCredentialsValid, reason, message))
	}
	return conditions
}

// trouble returns why the pass could not do everything that the spec asks for, and whether that is so until somebody changes
// something. The reason is empty if the pass could.
func (p *pass) trouble() (reason, message string, stalled bool) {
	if p.taken != nil {
		return v1alpha1.ReasonListenerNameTaken, p.taken.Error(), true
	}
	if p.obstacle != nil {
		return cmp.Or(credentials.Reason(p.obstacle), v1alpha1.ReasonInvalidConfiguration), p.obstacle.Error(), true
	}
	if refusal := p.refusal(); refusal != "" {
		return v1alpha1.ReasonReconcileFailed, refusal, true
	}
	if p.state.reason == v1alpha1.ReasonPodTerminating {
		return p.state.reason, p.state.message, true
	}
	if p.failure != nil {
		return v1alpha1.ReasonReconcileFailed, report.WithAdvice(p.failure), false
	}
	return "", "", false
}

// refusal returns what the API server refuses for good; see report.Refusal. The condition Stalled reports it, and has no message
// while it is False.
func (p *pass) refusal() string {
	return report.Refusal(p.failure, p.cutShort, meta.FindStatusCondition(p.listener.Status.Conditions, v1alpha1.ConditionStalled))
}

// status converts a bool to the status of a condition.
func status(holds bool) metav1.ConditionStatus {
	if holds {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}
