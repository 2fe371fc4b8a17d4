package autoscalingrunnerset

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// statusPeriod is the shortest time between two writes of a set's status. In a burst the counts change with every runner.
const statusPeriod = time.Second

// report writes the status, at most once in statusPeriod, and publishes the metrics. A new registration is written at once: otherwise
// the next pass would treat the former address as the present one, and move once more.
func (c *Controller) report(ctx context.Context, p *pass) error {
	if p.released {
		return nil
	}
	c.recordScaling(ctx, p)
	if p.template.heldFor > 0 && !p.moved() {
		p.requeue.After(p.template.heldFor)
		return nil
	}
	p.memory.lostJobs = max(p.memory.lostJobs, lostJobs(p))
	if wait := p.memory.statusWrittenAt.Add(statusPeriod).Sub(p.now); wait > 0 && !p.moved() {
		p.requeue.After(wait)
		return nil
	}
	after := p.set.DeepCopy()
	after.Status = statusOf(p, c.options.Version)
	after.Status.LostJobs = p.memory.lostJobs
	p.memory.show(p.key, after.Status.Conditions, p.deleting())
	wrote, err := kube.PatchStatus(ctx, c.options.Client, after, p.set)
	if wrote {
		p.memory.statusWrittenAt = p.now
		c.recordTransitions(ctx, p, after)
	}
	return client.IgnoreNotFound(err)
}

// recordTransitions records Events about changed conditions. While the set is being deleted, which is meant to end them, there is only
// one about what keeps it.
func (c *Controller) recordTransitions(ctx context.Context, p *pass, after *v1alpha1.AutoscalingRunnerSet) {
	if p.deleting() {
		if p.blocked != "" && !meta.IsStatusConditionTrue(p.set.Status.Conditions, v1alpha1.ConditionDeletionBlocked) {
			c.recordFarewell(ctx, p, report.Warning(v1alpha1.ReasonForeignFinalizers, "Delete", p.blocked))
		}
		return
	}
	for _, event := range transitionEvents(p.set.Status.Conditions, after.Status.Conditions) {
		report.RecordEvent(ctx, c.options.Recorder, p.set, nil, event)
	}
}

// moved reports whether the registration differs from the one in the status.
func (p *pass) moved() bool {
	recorded := p.set.Status.Registration
	switch {
	case p.unconfirmed:
		return false
	case p.registration == nil || recorded == nil:
		return recorded != p.registration
	}
	return *recorded != *p.registration
}

// statusOf returns the status with what the pass has found out. Everything else stays as it was.
func statusOf(p *pass, version string) v1alpha1.AutoscalingRunnerSetStatus {
	status := *p.set.Status.DeepCopy()
	if !p.unconfirmed {
		status.Registration = p.registration
	}
	if p.runnerSpecHash != "" && p.template.reached {
		status.RunnerSpecHash = p.runnerSpecHash // otherwise it may not have been written
	}
	status.ObservedGeneration = p.set.Generation
	status.CurrentRunners = currentRunners(p.runnerSets)
	status.PendingEphemeralRunners, status.RunningEphemeralRunners, status.FailedEphemeralRunners, status.BusyRunners = 0, 0, 0, 0
	status.AssignedJobs, status.DesiredRunners = 0, 0
	if current := p.runnerSet(); current != nil {
		status.AssignedJobs, status.DesiredRunners = current.Spec.AssignedJobs, current.Spec.Replicas
	}
	for _, runnerSet := range p.runnerSets {
		status.PendingEphemeralRunners += runnerSet.Status.PendingEphemeralRunners
		status.RunningEphemeralRunners += runnerSet.Status.RunningEphemeralRunners
		status.FailedEphemeralRunners += runnerSet.Status.FailedEphemeralRunners
		status.BusyRunners += runnerSet.Status.BusyRunners
	}
	status.IdleRunners = max(0, status.RunningEphemeralRunners-status.BusyRunners)
	for _, condition := range conditionsOf(p, version) {
		report.SetConditions(&status.Conditions, p.set.Generation, p.now, condition)
	}
	report.SetConditions(&status.Conditions, p.set.Generation, p.now, summary(p, status.Conditions)...)
	status.Phase = phaseOf(p, status)
	return status
}

// lostJobs returns the highest count there is: each runner set goes on from that of the set.
func lostJobs(p *pass) int {
	lost := p.set.Status.LostJobs
	for i := range p.runnerSets {
		lost = max(lost, p.runnerSets[i].Status.LostJobs)
	}
	return lost
}

// currentRunners includes the runners of older EphemeralRunnerSets, because they occupy nodes like the others.
func currentRunners(runnerSets []v1alpha1.EphemeralRunnerSet) int {
	current := 0
	for _, runnerSet := range runnerSets {
		current += runnerSet.Status.CurrentReplicas
	}
	return current
}

// phaseOf returns the phase for the column that ARC has; conditions say more. Running means that all objects exist, not that they work.
func phaseOf(p *pass, status v1alpha1.AutoscalingRunnerSetStatus) v1alpha1.AutoscalingRunnerSetPhase {
	switch {
	case meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionRunnerOutdated):
		return v1alpha1.AutoscalingRunnerSetPhaseOutdated
	case p.registration != nil && p.hasRunnerSet() && p.listener() != nil:
		return v1alpha1.AutoscalingRunnerSetPhaseRunning
	}
	return v1alpha1.AutoscalingRunnerSetPhasePending
}
