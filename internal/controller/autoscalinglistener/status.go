package autoscalinglistener

import (
	"cmp"
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/autoscalinglistener/listenerpod"
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
	if p.failure != nil {
		if since := p.now.Sub(p.memory.phrasedAt); since >= 0 && since < rephrasePeriod {
			keepTexts(conditions, p.listener.Status.Conditions)
		} else {
			p.memory.phrasedAt = p.now
		}
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
	reason, message := cmp.Or(p.state.Reason, listenerpod.ReasonStarting), p.state.Message // no reason: the pass didn't come as far as the pod
	trouble, why, stalled := p.trouble()
	if p.obstacle != nil {
		reason, message = trouble, why
	}
	ready := metav1.Condition{Type: v1alpha1.ConditionReady, Status: status(p.state.Ready), Reason: reason, Message: message}
	cause := cmp.Or(trouble, reason)
	progressing := metav1.Condition{Type: v1alpha1.ConditionProgressing, Status: status(!p.state.Ready && !stalled), Reason: cause}
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
	case p.state.Reason == v1alpha1.ReasonPodTerminating:
		conditions = append(conditions, report.True(v1alpha1.ConditionDeletionBlocked, p.state.Reason, p.state.Message))
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
	if p.state.Reason == v1alpha1.ReasonPodTerminating {
		return p.state.Reason, p.state.Message, true
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

// running has one series per listener, until the listener is being deleted and its container has ended. The deletion may then wait
// for hours, for running jobs and for GitHub, and nobody should be alerted.
var running = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "gha_controller_running_listeners",
	Help: "1 while the listener's container is running, 0 otherwise; name and namespace are the AutoscalingListener's.",
}, []string{"name", "namespace", "repository", "organization", "enterprise"})

func init() { metrics.Registry.MustRegister(running) }

// publishRunning sets the listener's series, and deletes the series of an earlier address, which would keep its last value. The
// series is not deleted if the address is the same, because a scrape may come at any moment.
func publishRunning(p *pass) {
	runs := containerRuns(p.pod)
	if p.listener.DeletionTimestamp != nil && !runs {
		unpublish(p.key)
		return
	}
	if address := p.listener.Spec.GitHubConfigUrl; address != p.memory.publishedAddress {
		unpublish(p.key)
		p.memory.publishedAddress = address
	}
	labels := prometheus.Labels{"name": p.key.Name, "namespace": p.key.Namespace, "repository": "", "organization": "", "enterprise": ""}
	if url, err := actions.ParseConfigURL(p.listener.Spec.GitHubConfigUrl); err == nil {
		labels["repository"], labels["organization"], labels["enterprise"] = url.Repository, url.Organization, url.Enterprise
	}
	value := 0.0
	if runs {
		value = 1
	}
	running.With(labels).Set(value)
}

// containerRuns reports whether the listener's own container is running, whatever its sidecars do.
func containerRuns(pod *corev1.Pod) bool {
	if pod == nil {
		return false
	}
	status := kube.ContainerStatus(pod, v1alpha1.ListenerContainerName)
	return status != nil && status.State.Running != nil
}

// unpublish deletes the listener's series by name and namespace alone, because the other labels follow the spec.
func unpublish(listener types.NamespacedName) {
	running.DeletePartialMatch(prometheus.Labels{"name": listener.Name, "namespace": listener.Namespace})
}
