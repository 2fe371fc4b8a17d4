package autoscalingrunnerset

import (
	"slices"
	"testing"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

func TestCountsAreThoseOfAllRunnerSets(t *testing.T) {
	status := statusOf(healthy(func(p *pass) {
		p.runnerSets = append(p.runnerSets, v1alpha1.EphemeralRunnerSet{Status: v1alpha1.EphemeralRunnerSetStatus{CurrentReplicas: 2, PendingEphemeralRunners: 2}})
	}), "1.2.3")
	got := []int{status.CurrentRunners, status.PendingEphemeralRunners, status.RunningEphemeralRunners, status.FailedEphemeralRunners}
	if want := []int{5, 2, 2, 1}; !slices.Equal(got, want) {
		t.Errorf("current, pending, running, failed = %v, want %v", got, want)
	}
}

func TestStatusIsWrittenOncePerSecond(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet())
		f.settle()
		f.listening()
		f.reconcile()
		written := f.set().ResourceVersion
		runnerSet := f.runnerSets()[0]
		runnerSet.Status.CurrentReplicas = 1
		f.updateStatus(&runnerSet)
		if requeueAfter := f.reconcile().RequeueAfter; requeueAfter > statusPeriod || f.set().ResourceVersion != written {
			t.Errorf("next pass after %s, want within %s; status written twice: %t", requeueAfter, statusPeriod, f.set().ResourceVersion != written)
		}
		controllertest.Elapse(statusPeriod)
		f.reconcile()
		if got := f.set().Status.CurrentRunners; got != 1 {
			t.Errorf("currentRunners = %d a second later, want 1", got)
		}
	})
}

func TestStatusCountsJobsAndBusyRunners(t *testing.T) {
	status := statusOf(healthy(func(p *pass) {
		p.runnerSets[0].Spec.AssignedJobs, p.runnerSets[0].Spec.Replicas, p.runnerSets[0].Status.BusyRunners = 4, 5, 1
	}), "1.2.3")
	if status.AssignedJobs != 4 || status.DesiredRunners != 5 || status.BusyRunners != 1 || status.IdleRunners != 1 {
		t.Errorf("%+v, want 4 jobs, 5 desired, 1 busy, 1 idle", status)
	}
}
