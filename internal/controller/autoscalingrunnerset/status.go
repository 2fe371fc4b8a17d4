package autoscalingrunnerset

import (
	"cmp"
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// statusPause is the shortest time between two writes of a set's status: in a burst counts change with every runner.
const statusPause = time.Second

// report writes the status, at most once in statusPause, and publishes the metric.
func (c *Controller) report(ctx context.Context, p *pass) error {
	if p.released {
		return nil
	}
	c.tellScaling(ctx, p)
	if wait := c.memory.statusWritten(p.key).Add(statusPause).Sub(p.now); wait > 0 {
		p.again.After(wait)
		return nil
	}
	after := p.set.DeepCopy()
	after.Status = statusOf(p, c.options.Version)
	publishReady(p.key, meta.IsStatusConditionTrue(after.Status.Conditions, v1alpha1.ConditionReady))
	wrote, err := kube.PatchStatus(ctx, c.options.Client, after, p.set)
	if wrote {
		c.memory.noteStatus(p.key, p.now)
		for _, event := range turns(p.set.Status.Conditions, after.Status.Conditions) {
			kube.Tell(ctx, c.options.Recorder, p.set, nil, event)
		}
	}
	return client.IgnoreNotFound(err)
}

<<<<<<< ours
// turns returns the Events that a change of conditions is worth: the set got stuck, lost its listener, or is ready.
func turns(before, after []metav1.Condition) []kube.Event {
	var events []kube.Event
	for _, turn := range []struct {
		about  string
		to     metav1.ConditionStatus
		tell   func(reason, action, note string) kube.Event
		always bool // also where the condition was absent or unknown before
	}{
		{v1alpha1.ConditionStalled, metav1.ConditionTrue, kube.Warning, true},
		{v1alpha1.ConditionListenerReady, metav1.ConditionFalse, kube.Warning, false},
		{v1alpha1.ConditionReady, metav1.ConditionTrue, kube.Normal, true},
	} {
		was, is := meta.FindStatusCondition(before, turn.about), meta.FindStatusCondition(after, turn.about)
		known := was != nil && was.Status != metav1.ConditionUnknown
		if is == nil || is.Status != turn.to || known && was.Status == turn.to || !known && !turn.always {
			continue
		}
		events = append(events, turn.tell(is.Reason, "Reconcile", cmp.Or(is.Message, "The scale set is registered and its listener polls")))
	}
	return events
=======
func nonEmpty(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
>>>>>>> theirs
}

// statusOf is what the pass has found out, on top of what the status said before.
func statusOf(p *pass, version string) v1alpha1.AutoscalingRunnerSetStatus {
	status := *p.set.Status.DeepCopy()
	status.Registration = p.registration
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
		kube.SetConditions(&status.Conditions, p.set.Generation, p.now, condition)
	}
	kube.SetConditions(&status.Conditions, p.set.Generation, p.now, summary(p, status.Conditions)...)
	status.Phase = phaseOf(p, status)
	return status
}

// currentRunners counts those of older EphemeralRunnerSets too: they take up nodes like the others.
func currentRunners(runnerSets []v1alpha1.EphemeralRunnerSet) int {
	current := 0
	for _, runnerSet := range runnerSets {
		current += runnerSet.Status.CurrentReplicas
	}
	return current
}

// phaseOf is for ARC's column; conditions say more. Running means that everything is there, not that it works.
func phaseOf(p *pass, status v1alpha1.AutoscalingRunnerSetStatus) v1alpha1.AutoscalingRunnerSetPhase {
	switch {
	case meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionOutdated):
		return v1alpha1.AutoscalingRunnerSetPhaseOutdated
	case p.registration != nil && p.runnerSet() != nil && p.listener() != nil:
		return v1alpha1.AutoscalingRunnerSetPhaseRunning
	}
	return v1alpha1.AutoscalingRunnerSetPhasePending
}
