package scaling_test

import (
	"testing"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/scaling"
)

// The runners are being deleted, and somebody's finalizer keeps their pods, which have ended; their own controller
// reports that after some minutes. Others replace them, and they don't count as failures of the template.
func TestRunnersWhosePodsAreKeptGiveTheirRoomBack(t *testing.T) {
	const succeeded, failed = v1alpha1.EphemeralRunnerPhaseSucceeded, v1alpha1.EphemeralRunnerPhaseFailed
	calledBusy := idle
	calledBusy.Draining = true
	for name, test := range map[string]struct {
		runner roster.Runner
		phase  v1alpha1.EphemeralRunnerPhase
		held   time.Duration // how long its job may still be counted
	}{
		"job completed":                     {lingering, succeeded, 0},
		"job completed, failed":             {lingering, failed, 0},
		"no report of the job":              {busyOne, succeeded, settleGrace},
		"no report of the job, failed":      {busyOne, failed, heldTimeout},
		"GitHub called it busy, failed":     {calledBusy, failed, heldTimeout},
		"without a job":                     {idle, succeeded, settleGrace},
		"without a job, failed":             {idle, failed, 0},
		"it had not started when it failed": {starting, failed, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScenario(5)
			s.spec.MaxRunners = new(5)
			test.runner.Deleting = true
			s.add(5, test.runner)
			if p := s.pass(); p.create != 0 {
				t.Fatalf("create %d while the pods may still run", p.create)
			}
			for i, r := range s.runners {
				kept := *r
				kept.Phase, kept.Reason = test.phase, v1alpha1.ReasonPodTerminating
				s.runners[i] = &kept
			}
			s.pass()
			if p := s.later(test.held).publish(5).pass(); p.create != 5 || len(p.going()) != 0 ||
				s.degraded(p) {
				t.Errorf("create %d, remove %v, degraded: %t; want 5, and none of the others", p.create,
					names(p.With(scaling.Delete)), s.degraded(p))
			}
		})
	}
}

// left returns the number of runners that the status of the set counts when it is being deleted.
func (s *scenario) left() int {
	status := &v1alpha1.EphemeralRunnerSetStatus{}
	describe(status, s.DescribeLeft(status, newSet(0), s.runners, s.now))
	return status.CurrentReplicas
}

// A set that is being deleted gives its room to the next one as its runners end, even while somebody keeps their pods.
func TestEndedRunnersOfADeletedSetAreNotCounted(t *testing.T) {
	runners := []roster.Runner{
		{Deleting: true, Phase: v1alpha1.EphemeralRunnerPhaseFailed},
		{Deleting: true, Phase: v1alpha1.EphemeralRunnerPhaseSucceeded},
		{Deleting: true, Phase: v1alpha1.EphemeralRunnerPhaseRunning},
		{Deleting: true},
	}
	s := newScenario(0)
	for _, r := range runners {
		s.add(1, r)
	}
	if left := s.left(); left != 2 {
		t.Errorf("%d runners of a set being deleted counted, want 2", left)
	}
	if status := s.status(s.pass()); status.CurrentReplicas != 0 {
		t.Errorf("%d live runners counted, want none", status.CurrentReplicas)
	}
}

// Whoever keeps the objects of runners that are gone must not stop the set: they neither count against maxRunners nor
// have a job.
func TestKeptRunnersTakeNoRoom(t *testing.T) {
	done := with(lingering, func(r *roster.Runner) { r.JobPatchID = 9 })
	for name, shape := range map[string]roster.Runner{"idle": idle, "busy": busyOne, "done": done} {
		s := newScenario(2)
		s.spec.MaxRunners = new(2)
		s.add(2, with(shape, func(r *roster.Runner) { r.Deleting, r.Keepers = true, "example.com/audit" }))
		if p := s.pass(); p.create != 2 {
			t.Errorf("%s: create %d, want 2", name, p.create)
		}
		if left := s.left(); left != 0 {
			t.Errorf("%s: %d runners are left, want none", name, left)
		}
	}
}
