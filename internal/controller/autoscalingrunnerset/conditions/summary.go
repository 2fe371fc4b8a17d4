package conditions

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/capacity/limits"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/podtemplate"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/scaleset"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/meaning"
)

// summarize returns the conditions that kstatus evaluates, Ready, Progressing and Stalled: the set is ready, on its way
// there, or stuck until somebody changes something. The reason comes from the first step that isn't done, in the order
// in which a set is set up.
func (f *Findings) summarize(status *v1alpha1.AutoscalingRunnerSetStatus) []metav1.Condition {
	if f.Blocked != "" && (f.Deleting() || !f.HasRunnerSet()) {
		return report.Unready(v1alpha1.ReasonForeignFinalizers, f.Blocked, true)
	}
	if f.Deleting() {
		reason, message := f.deletionStage()
		return f.progressingSummary(reason, message)
	}
	if c := unregistered(status.Conditions); c != nil {
		return report.Unready(c.Reason, c.Message, needsUser(c.Reason))
	}
	if !f.RegisteredHere() || !f.HasRunnerSet() {
		return f.progressingSummary(reasonWaitingForRunnerSets, f.awaitedRunnerSet())
	}
	return f.runningSummary(status)
}

// deletionStage says what a deletion waits for.
func (f *Findings) deletionStage() (reason, message string) {
	stopping, cause := !f.IsStopped(), f.listenerCause()
	switch {
	case stopping && cause != nil:
		return cause.Reason, cause.Message
	case stopping:
		return "StoppingListener", "the listener is closing its session"
	case len(f.RunnerSets) > 0:
		return "DrainingRunners", cmp.Or(f.Awaited, drainingMessage(currentRunners(f.RunnerSets)))
	case f.Creating:
		return "Deregistering", "waiting for GitHub to answer a request that may have created the scale set; it is " +
			"deleted after that"
	case f.Searching:
		return "Deregistering", fmt.Sprintf("asking GitHub, for at most %s, whether it has a scale set that was "+
			"never recorded", scaleset.DeregisterTimeout.Round(time.Second))
	case f.Registration != nil:
		message := fmt.Sprintf("deleting scale set %d on GitHub, for at most %s", f.Registration.ID,
			scaleset.DeregisterTimeout.Round(time.Second))
		if f.Unanswered != nil {
			message += "; the last attempt failed: " + report.Abridged(f.Unanswered.Error())
		}
		return "Deregistering", message
	}
	return "Releasing", cmp.Or(f.Awaited, "removing the last objects")
}

// drainingMessage says what the deletion of runners waits for. left counts those that have not ended.
func drainingMessage(left int) string {
	if left == 0 {
		return "runners that have ended are waiting for their pods to be removed; if one stays, kubectl get " +
			"ephemeralrunners shows the reason"
	}
	return fmt.Sprintf("%d runners are left: idle ones are being removed, busy ones finish their jobs first; see the "+
		"Events of a runner for why it stays", left)
}

// awaitedRunnerSet says what the next EphemeralRunnerSet waits for, which may be a job that takes hours.
func (f *Findings) awaitedRunnerSet() string {
	deleted := f.RunnerSet()
	if !f.RegisteredHere() || deleted == nil {
		return "the EphemeralRunnerSet is being created"
	}
	if deleted.Status.CurrentReplicas == 0 {
		return fmt.Sprintf("EphemeralRunnerSet %s was deleted; no runner is created until it is gone: %s", deleted.Name,
			drainingMessage(0))
	}
	return fmt.Sprintf("EphemeralRunnerSet %s was deleted; no runner is created until its %d busy runners have "+
		"finished their jobs (%d runners are left)",
		deleted.Name, deleted.Status.BusyRunners, deleted.Status.CurrentReplicas)
}

// unregistered returns the condition that keeps the set from being registered, nil if none does. A condition that is
// False comes before one that is Unknown.
func unregistered(conditions []metav1.Condition) *metav1.Condition {
	for _, status := range []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionUnknown} {
		for _, conditionType := range []string{v1alpha1.ConditionCredentialsValid,
			v1alpha1.ConditionScaleSetRegistered} {
			if c := withStatus(conditions, conditionType, status); c != nil {
				return c
			}
		}
	}
	return nil
}

// runningSummary returns the summary of a set whose objects all exist.
func (f *Findings) runningSummary(status *v1alpha1.AutoscalingRunnerSetStatus) []metav1.Condition {
	conditions := status.Conditions
	ready := meta.FindStatusCondition(f.Set.Status.Conditions, v1alpha1.ConditionReady)
	if message := report.Refusal(f.Failure, f.CutShort, ready); message != "" { // the API server's refusal lasts
		return report.Unready(v1alpha1.ReasonReconcileFailed, message, false)
	}
	cause := f.listenerCause()
	if cause != nil && cause.Type == v1alpha1.ConditionStalled {
		return report.Unready(cause.Reason, cause.Message, needsUser(cause.Reason))
	}
	if f.Template.Awaited || f.untried() {
		return f.progressingSummary(podtemplate.ReasonChecking,
			"the API server has not said yet whether it would admit the runners' pods")
	}
	if summary := f.refusedPods(conditions); summary != nil {
		return summary
	}
	for _, conditionType := range []string{v1alpha1.ConditionRunnerOutdated, v1alpha1.ConditionDegraded} {
		if c := withStatus(conditions, conditionType, metav1.ConditionTrue); c != nil {
			// An outdated runner needs a new image; a degraded set may recover by itself.
			return report.Unready(c.Reason, c.Message, conditionType == v1alpha1.ConditionRunnerOutdated)
		}
	}
	if c := meta.FindStatusCondition(conditions, v1alpha1.ConditionListenerReady); c != nil &&
		c.Status != metav1.ConditionTrue {
		if cause != nil {
			c = cause // the listener may lack an object that could not be written
		}
		return f.progressingSummary(c.Reason, c.Message)
	}
	return report.Ready(f.readyReason(status))
}

// refusedPods returns the summary of a set whose pods the API server refuses, nil if it takes what jobs can't do without.
func (f *Findings) refusedPods(conditions []metav1.Condition) []metav1.Condition {
	if c := withStatus(conditions, v1alpha1.ConditionPodTemplateRefused, metav1.ConditionTrue); c != nil {
		lasting := f.Template.Lasting || (f.Template.Condition == nil && podtemplate.IsStalled(f.Set, c.Reason))
		return report.Unready(c.Reason, c.Message, lasting)
	}
	c := withStatus(conditions, v1alpha1.ConditionJobPodRefused, metav1.ConditionTrue)
	if c == nil || c.Reason == v1alpha1.ReasonJobImageRefused || f.Template.JobPodOptional {
		return nil
	}
	return report.Unready(c.Reason, c.Message, podtemplate.Lasts(c, f.ObservedAt))
}

// listenerCause returns the listener's condition about what its controller could not do, nil if it could do everything.
// The condition is Stalled if that stays so until somebody changes something. The listener may keep running, but not as
// the spec asks for.
func (f *Findings) listenerCause() *metav1.Condition {
	listener := f.Listener()
	if listener == nil {
		return nil
	}
	if c := withStatus(listener.Status.Conditions, v1alpha1.ConditionStalled, metav1.ConditionTrue); c != nil {
		return c
	}
	if c := meta.FindStatusCondition(listener.Status.Conditions, v1alpha1.ConditionProgressing); c != nil &&
		c.Reason == v1alpha1.ReasonReconcileFailed {
		return c
	}
	return nil
}

// intended are the limits that say nothing of what goes wrong: doubts about GitHub's figures count more.
var intended = []v1alpha1.LimitKind{limits.None, limits.Pace, limits.Announced, limits.Ceiling, limits.Maximum}

// readyReason returns reason and message of a set that is ready. They say why there are not more runners, unless there
// are just no jobs.
func (f *Findings) readyReason(status *v1alpha1.AutoscalingRunnerSetStatus) (reason, message string) {
	limit := f.limit(status)
	doubtful := withStatus(status.Conditions, v1alpha1.ConditionStatisticsDoubtful, metav1.ConditionTrue)
	if doubtful != nil && slices.Contains(intended, limit.Kind) {
		return doubtful.Reason, doubtful.Message
	}
	switch limit.Kind {
	case limits.None:
		return reasonReady, f.cutRunners() // even if maxRunners leaves no room for idle runners: no job waits for them
	case limits.NoJobs:
		if f.Numbers.Drained {
			return limit.Reason, limit.Message + ": no jobs are accepted, and those that are assigned run; the " +
				"condition Drained says when none is left"
		}
		return limit.Reason, limit.Message + ": no jobs are accepted, jobs that run finish, and assigned ones that " +
			"have not started wait; raise maxRunners to run jobs"
	case limits.Ceiling, limits.Maximum:
		return limit.Reason, f.mostRunners() +
			" is reached: further jobs wait on GitHub until a runner is free; raise maxRunners to run more at a time"
	}
	return limit.Reason, limit.Message
}

// cutRunners says which numbers of spec and schedules the manager's limit for each set cuts, "" if none.
func (f *Findings) cutRunners() string {
	n := &f.Numbers
	switch {
	case !n.Cut():
		return ""
	case n.Asked.Max < v1alpha1.MaxRunnersUnlimited && n.Max < n.Asked.Max:
		return fmt.Sprintf("maxRunners of %d is cut to %d, %s", n.Asked.Max, n.Max, whoseCeiling)
	}
	return fmt.Sprintf("minRunners of %d is cut to %d, %s", n.Asked.Min, n.Min, whoseCeiling)
}

// progressingSummary returns the summary of a set that is on its way to ready, or is held up by a request that failed.
func (f *Findings) progressingSummary(reason, message string) []metav1.Condition {
	if f.Failure != nil {
		return report.Unready(v1alpha1.ReasonReconcileFailed, report.WithAdvice(f.Failure), false)
	}
	return report.Unready(reason, message, false)
}

// needsUser reports whether the cause that the reason names ends only after somebody has done something.
func needsUser(reason string) bool { return meaning.For(reason).NeedsHand() }

// untried reports whether the pass was cut short before it came to a template that has changed, or may have: a failure
// that passes by itself must not make the set ready with it.
func (f *Findings) untried() bool {
	status := &f.Set.Status
	switch {
	case !f.CutShort || f.Template.Reached:
		return false
	case podtemplate.WasChecking(f.Set):
		return true
	case f.RunnerSpecHash == "":
		return status.ObservedGeneration != f.Set.Generation
	}
	return status.RunnerSpecHash != "" && status.RunnerSpecHash != f.RunnerSpecHash
}
