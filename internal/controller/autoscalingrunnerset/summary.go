package autoscalingrunnerset

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// summary returns the conditions that kstatus evaluates, Ready, Progressing and Stalled: the set is ready, on its way there, or stuck
// until somebody changes something. The reason comes from the first step that isn't done, in the order in which a set is set up.
func summary(p *pass, conditions []metav1.Condition) []metav1.Condition {
	if p.blocked != "" && (p.deleting() || !p.hasRunnerSet()) {
		return report.Unready(v1alpha1.ReasonForeignFinalizers, p.blocked, true)
	}
	if p.deleting() {
		reason, message := p.deletionStage()
		return p.progressingSummary(reason, message)
	}
	if c := unregistered(conditions); c != nil {
		return report.Unready(c.Reason, c.Message, needsUser(c.Reason))
	}
	if !p.registeredHere() || !p.hasRunnerSet() {
		return p.progressingSummary(reasonWaitingForRunnerSets, p.awaitedRunnerSet())
	}
	return p.runningSummary(conditions)
}

// deletionStage returns what a deletion waits for.
func (p *pass) deletionStage() (reason, message string) {
	stopping := slices.ContainsFunc(p.listeners, func(l v1alpha1.AutoscalingListener) bool { return !stoppedListener(&l) })
	trouble := p.listenerTrouble()
	switch {
	case stopping && trouble != nil:
		return trouble.Reason, trouble.Message
	case stopping:
		return "StoppingListener", "the listener is closing its session"
	case len(p.runnerSets) > 0:
		return "DrainingRunners", cmp.Or(p.awaited, drainingMessage(currentRunners(p.runnerSets)))
	case p.creating:
		return "Deregistering", "waiting for GitHub to answer a request that may have created the scale set; it is deleted after that"
	case p.searching:
		return "Deregistering", fmt.Sprintf("asking GitHub, for at most %s, whether it has a scale set that was never recorded", DeregisterTimeout.Round(time.Second))
	case p.registration != nil:
		message := fmt.Sprintf("deleting scale set %d on GitHub, for at most %s", p.registration.ID, DeregisterTimeout.Round(time.Second))
		if p.unanswered != nil {
			message += "; the last attempt failed: " + abridged(p.unanswered.Error())
		}
		return "Deregistering", message
	}
	return "Releasing", cmp.Or(p.awaited, "removing the last objects")
}

// drainingMessage says what the deletion of runners waits for. left is how many have not ended.
func drainingMessage(left int) string {
	if left == 0 {
		return "runners that have ended are waiting for their pods to be removed; if one stays, kubectl get ephemeralrunners shows the reason"
	}
	return fmt.Sprintf("%d runners are left: idle ones are being removed, busy ones finish their jobs first; see the Events of a runner for why it stays", left)
}

// awaitedRunnerSet says what the next EphemeralRunnerSet waits for, which may be a job that takes hours.
func (p *pass) awaitedRunnerSet() string {
	deleted := p.runnerSet()
	if !p.registeredHere() || deleted == nil {
		return "the EphemeralRunnerSet is being created"
	}
	if deleted.Status.CurrentReplicas == 0 {
		return fmt.Sprintf("EphemeralRunnerSet %s was deleted; no runner is created until it is gone: %s", deleted.Name, drainingMessage(0))
	}
	return fmt.Sprintf("EphemeralRunnerSet %s was deleted; no runner is created until its %d busy runners have finished their jobs (%d runners are left)",
		deleted.Name, deleted.Status.BusyRunners, deleted.Status.CurrentReplicas)
}

// unregistered returns the condition that keeps the set from being registered, nil if none does. A condition that is False comes
// before one that is Unknown.
func unregistered(conditions []metav1.Condition) *metav1.Condition {
	for _, status := range []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionUnknown} {
		for _, conditionType := range []string{v1alpha1.ConditionCredentialsValid, v1alpha1.ConditionScaleSetRegistered} {
			if c := meta.FindStatusCondition(conditions, conditionType); c != nil && c.Status == status {
				return c
			}
		}
	}
	return nil
}

// runningSummary returns the summary of a set whose objects all exist.
func (p *pass) runningSummary(conditions []metav1.Condition) []metav1.Condition {
	if message := p.refusal(); message != "" {
		return report.Unready(v1alpha1.ReasonReconcileFailed, message, false)
	}
	trouble := p.listenerTrouble()
	if trouble != nil && trouble.Type == v1alpha1.ConditionStalled {
		return report.Unready(trouble.Reason, trouble.Message, needsUser(trouble.Reason))
	}
	if p.template.awaited || p.untried() {
		return p.progressingSummary(reasonCheckingTemplate, "the API server has not said yet whether it would admit the runners' pods")
	}
	if c := meta.FindStatusCondition(conditions, v1alpha1.ConditionPodTemplateRefused); c != nil && c.Status == metav1.ConditionTrue {
		return p.refusedSummary(c)
	}
	for _, conditionType := range []string{v1alpha1.ConditionRunnerOutdated, v1alpha1.ConditionDegraded} {
		if c := meta.FindStatusCondition(conditions, conditionType); c != nil && c.Status == metav1.ConditionTrue {
			// An outdated runner needs a new image; a degraded set may recover by itself.
			return report.Unready(c.Reason, c.Message, conditionType == v1alpha1.ConditionRunnerOutdated)
		}
	}
	if c := meta.FindStatusCondition(conditions, v1alpha1.ConditionListenerReady); c != nil && c.Status != metav1.ConditionTrue {
		if trouble != nil {
			c = trouble // the listener may lack an object that could not be written
		}
		return p.progressingSummary(c.Reason, c.Message)
	}
	return report.Ready(p.readyReason(conditions))
}

// listenerTrouble returns the listener's condition about what its controller could not do, nil if it could do everything. The condition
// is Stalled if that stays so until somebody changes something. The listener may keep running, but not as the spec asks for.
func (p *pass) listenerTrouble() *metav1.Condition {
	listener := p.listener()
	if listener == nil {
		return nil
	}
	if c := meta.FindStatusCondition(listener.Status.Conditions, v1alpha1.ConditionStalled); c != nil && c.Status == metav1.ConditionTrue {
		return c
	}
	if c := meta.FindStatusCondition(listener.Status.Conditions, v1alpha1.ConditionProgressing); c != nil && c.Reason == v1alpha1.ReasonReconcileFailed {
		return c
	}
	return nil
}

// refusal returns what the API server refuses for good; see report.Refusal. The condition Ready reports it.
func (p *pass) refusal() string {
	return report.Refusal(p.failure, p.cutShort, meta.FindStatusCondition(p.set.Status.Conditions, v1alpha1.ConditionReady))
}

// readyReason returns reason and message of a set that is ready. They say why there are not more runners, unless there are just no jobs.
func (p *pass) readyReason(conditions []metav1.Condition) (reason, message string) {
	for _, conditionType := range []string{
		v1alpha1.ConditionQuotaExceeded, v1alpha1.ConditionRunnersPending, v1alpha1.ConditionStatisticsDoubtful,
	} {
		if c := meta.FindStatusCondition(conditions, conditionType); c != nil && c.Status == metav1.ConditionTrue {
			if conditionType == v1alpha1.ConditionQuotaExceeded {
				return v1alpha1.ReasonQuotaExceeded, c.Message
			}
			return c.Reason, c.Message
		}
	}
	spec := &p.runnerSet().Spec
	switch {
	case spec.MaxRunners == nil || spec.AssignedJobs < *spec.MaxRunners:
		return reasonReady, p.cutRunners() // even if maxRunners leaves no room for idle runners: no job waits for them
	case !p.takesJobs():
		return v1alpha1.ReasonMaxRunnersZero, "maxRunners is 0: no jobs are accepted, jobs that run finish, and assigned ones that have not started wait; raise maxRunners to run jobs"
	case p.mostRunners() != p.set.Spec.MaxRunners:
		return v1alpha1.ReasonMaxRunnersReached, fmt.Sprintf(
			"%d runners are reached, %s: further jobs wait on GitHub until a runner is free", *spec.MaxRunners, whoseCeiling)
	}
	return v1alpha1.ReasonMaxRunnersReached, fmt.Sprintf(
		"maxRunners of %d is reached: further jobs wait on GitHub until a runner is free; raise maxRunners to run more at a time", *spec.MaxRunners)
}

// progressingSummary returns the summary of a set that is on its way to ready, or is held up by a request that failed.
func (p *pass) progressingSummary(reason, message string) []metav1.Condition {
	if p.failure != nil {
		return report.Unready(v1alpha1.ReasonReconcileFailed, report.WithAdvice(p.failure), false)
	}
	return report.Unready(reason, message, false)
}

// needsUser reports whether only a user can remove the cause that the reason names.
func needsUser(reason string) bool {
	refusal := actions.RefusalClass(reason)
	return slices.Contains(credentials.Reasons, reason) || refusal.IsKnown() && !refusal.Passes() || slices.Contains([]string{
		v1alpha1.ReasonInvalidConfigURL, v1alpha1.ReasonRunnerGroupNotFound,
		v1alpha1.ReasonScaleSetInUse, v1alpha1.ReasonRefusedByGitHub, v1alpha1.ReasonNameTooLong, v1alpha1.ReasonInsecureRedirect,
	}, reason)
}
