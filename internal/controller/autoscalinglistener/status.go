package autoscalinglistener

import (
	"cmp"
	"context"
	"errors"
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
	"github.com/harrier-ci/harrier/internal/causes"
	"github.com/harrier-ci/harrier/internal/controller/autoscalinglistener/listenerpod"
	"github.com/harrier-ci/harrier/internal/controller/autoscalinglistener/ownership"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// The text of a failure changes in the status every rephraseInterval at most. The text of an error can differ in each
// pass, and a write of the status brings the next pass immediately.
const rephraseInterval = 10 * time.Second

// A name that somebody else's object has is tried again every takenRetryInterval. No watch shows such an object.
const takenRetryInterval = time.Minute

// report writes the status if it changed, and publishes the metric. It returns the error of the pass, and that of the
// write.
func (c *Controller) report(ctx context.Context, w *world, failure error) error {
	failure = c.describeFailure(ctx, w, failure)
	publishRunning(w)
	if w.released {
		return failure
	}
	after := w.Object.DeepCopy()
	after.Status.ObservedGeneration = w.Object.Generation
	conditions := conditionsOf(w)
	if w.failure != nil {
		if since := w.Now.Sub(w.Memory.phrasedAt); since >= 0 && since < rephraseInterval {
			keepTexts(conditions, w.Object.Status.Conditions)
		} else {
			w.Memory.phrasedAt = w.Now
		}
	}
	report.SetConditions(&after.Status.Conditions, w.Object.Generation, w.Now, conditions...)
	_, err := kube.PatchStatus(ctx, c.options.Client, after, w.Object)
	return errors.Join(failure, client.IgnoreNotFound(err))
}

// describeFailure sets the state after a step that failed: that of the pod if there is one to keep, else the error. A
// cache that is behind doesn't count as a failure. The error is returned, unless it is a name that is taken: an Event
// tells that a single time.
func (c *Controller) describeFailure(ctx context.Context, w *world, err error) error {
	if err == nil {
		return nil
	}
	w.cutShort = true
	if taken, ok := errors.AsType[*ownership.TakenError](err); ok {
		w.taken = taken
		w.state = listenerpod.State{Reason: v1alpha1.ReasonListenerNameTaken, Message: taken.Error()}
		w.Requeue.After(takenRetryInterval)
		if before := meta.FindStatusCondition(w.Object.Status.Conditions, v1alpha1.ConditionReady); before == nil ||
			before.Reason != w.state.Reason {
			report.RecordEvent(ctx, c.options.Recorder, w.Object, nil,
				report.Warning(w.state.Reason, "Create"+taken.Kind, taken.Error()))
		}
		return nil
	}
	if w.pod != nil {
		w.state = w.assessAsIs(w.pod)
	}
	if kube.IsBehind(err) {
		return err
	}
	w.failure = err
	if w.pod == nil || w.state.Action != listenerpod.Keep {
		w.state = listenerpod.State{Reason: v1alpha1.ReasonReconcileFailed, Message: report.WithAdvice(err)}
	}
	return err
}

// keepTexts keeps the messages of failures that the status already reports.
func keepTexts(conditions, reported []metav1.Condition) {
	for i := range conditions {
		before, now := meta.FindStatusCondition(reported, conditions[i].Type), &conditions[i]
		if before != nil && before.Status == now.Status && before.Reason == now.Reason &&
			now.Reason == v1alpha1.ReasonReconcileFailed {
			now.Message = before.Message
		}
	}
}

// conditionsOf returns the conditions that kstatus evaluates, and CredentialsValid. Ready is about the pod, which may
// keep running while something else fails; Progressing and Stalled then say what.
func conditionsOf(w *world) []metav1.Condition {
	// no reason: the pass didn't come as far as the pod
	reason, message := cmp.Or(w.state.Reason, listenerpod.ReasonStarting), w.state.Message
	unmet, why, stalled := w.unmet()
	if w.cause != nil {
		reason, message = unmet, why
	}
	ready := metav1.Condition{
		Type:    v1alpha1.ConditionReady,
		Status:  status(w.state.Ready),
		Reason:  reason,
		Message: message,
	}
	cause := cmp.Or(unmet, reason)
	progressing := metav1.Condition{
		Type:   v1alpha1.ConditionProgressing,
		Status: status(!w.state.Ready && !stalled),
		Reason: cause,
	}
	stuck := metav1.Condition{Type: v1alpha1.ConditionStalled, Status: status(stalled), Reason: cause}
	if stalled {
		stuck.Message = why
	} else {
		progressing.Message = why
	}
	conditions := []metav1.Condition{ready, progressing, stuck}
	switch {
	case w.blocked != "":
		conditions = append(conditions, report.True(v1alpha1.ConditionDeletionBlocked, v1alpha1.ReasonForeignFinalizers,
			w.blocked))
	case w.state.Reason == v1alpha1.ReasonPodTerminating:
		conditions = append(conditions, report.True(v1alpha1.ConditionDeletionBlocked, w.state.Reason, w.state.Message))
	case !w.undecided && meta.FindStatusCondition(w.Object.Status.Conditions, v1alpha1.ConditionDeletionBlocked) != nil:
		conditions = append(conditions, report.False(v1alpha1.ConditionDeletionBlocked, "NothingKept",
			"no object of the listener is kept by finalizers of others"))
	}
	switch {
	case w.resolved != nil:
		conditions = append(conditions, report.True(v1alpha1.ConditionCredentialsValid, "Complete", ""))
	case w.cause != nil:
		conditions = append(conditions, report.False(v1alpha1.ConditionCredentialsValid, reason, message))
	}
	return conditions
}

// unmet returns the reason why the pass could not do everything that the spec asks for, and whether that is so until
// somebody changes something. The reason is empty if the pass could.
func (w *world) unmet() (reason, message string, stalled bool) {
	if w.taken != nil {
		return v1alpha1.ReasonListenerNameTaken, w.taken.Error(), true
	}
	if w.cause != nil {
		return causes.Of(w.cause).Reason, w.cause.Error(), true
	}
	// The condition Stalled reports refusals of the API server that last, and has no message while it is False.
	stalledBefore := meta.FindStatusCondition(w.Object.Status.Conditions, v1alpha1.ConditionStalled)
	if refusal := report.Refusal(w.failure, w.cutShort, stalledBefore); refusal != "" {
		return v1alpha1.ReasonReconcileFailed, refusal, true
	}
	if w.state.Reason == v1alpha1.ReasonPodTerminating {
		return w.state.Reason, w.state.Message, true
	}
	if w.failure != nil {
		return v1alpha1.ReasonReconcileFailed, report.WithAdvice(w.failure), false
	}
	return "", "", false
}

// status converts a bool to the status of a condition.
func status(holds bool) metav1.ConditionStatus {
	if holds {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}

// running has one series per listener, until the listener is being deleted and its container has ended. The deletion
// may then wait for hours, for running jobs and for GitHub, and nobody should be alerted.
var running = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "gha_controller_running_listeners",
	Help: "1 while the listener's container is running, 0 otherwise; name and namespace are the AutoscalingListener's.",
}, []string{"name", "namespace", "repository", "organization", "enterprise"})

func init() { metrics.Registry.MustRegister(running) }

// publishRunning sets the listener's series, and deletes the series of an earlier address, which would keep its last
// value. The series is not deleted if the address is the same, because a scrape may come at any moment.
func publishRunning(w *world) {
	runs := containerRuns(w.pod)
	if w.Object.DeletionTimestamp != nil && !runs {
		unpublish(w.Key)
		return
	}
	if address := w.Object.Spec.GitHubConfigUrl; address != w.Memory.publishedAddress {
		unpublish(w.Key)
		w.Memory.publishedAddress = address
	}
	labels := prometheus.Labels{
		"name":         w.Key.Name,
		"namespace":    w.Key.Namespace,
		"repository":   "",
		"organization": "",
		"enterprise":   "",
	}
	if url, err := actions.ParseConfigURL(w.Object.Spec.GitHubConfigUrl); err == nil {
		labels["repository"], labels["organization"], labels["enterprise"] = url.Repository, url.Organization,
			url.Enterprise
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
