package ephemeralrunnerset_test

import (
	"testing"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

// wantDesired fails unless the status says how many runners there are to be, and why there are not more.
func (f *fixture) wantDesired(runners int, why string) {
	f.Helper()
	status := f.set().Status
	if status.Desired == nil || *status.Desired != runners || status.LimitReason != why {
		f.Errorf("desired %v because of %q, want %d because of %q", status.Desired, status.LimitReason, runners, why)
	}
}

// What the listener asks for may be from before a change of the numbers: a set that it serves follows the jobs.
func TestTheSetDecidesHowManyRunnersThereAreToBe(t *testing.T) {
	served := newSet(2, func(s *v1alpha1.EphemeralRunnerSet) {
		s.Spec.Replicas, s.Spec.MaxRunners = 9, new(4)
		s.Annotations = map[string]string{v1alpha1.AnnotationListenerSession: "session"}
		s.Status.Listener = &v1alpha1.ListenerStatus{State: v1alpha1.ListenerStateListening}
	})
	inBubble(t, func(f *fixture) {
		f.reconcile()
		f.wantRunners(2)
		f.wantDesired(2, "")
		f.publish(7)
		f.reconcile()
		f.wantRunners(4)
		controllertest.Elapse(reportPeriod)
		f.reconcile()
		f.wantDesired(4, v1alpha1.ReasonMaxRunnersReached)
	}, served)
}

func TestASetThatNothingOfOursServesFollowsWhatIsAskedFor(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.reconcile()
		f.wantRunners(3)
		f.wantDesired(3, "")
	}, newSet(0, func(s *v1alpha1.EphemeralRunnerSet) { s.Spec.Replicas = 3 }))
}

// The number moves with each job, and the runners that it asks for move the counts a moment later: both are written
// together.
func TestTheNumberIsWrittenWithTheRunnersThatItAsksFor(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.reconcile()
		controllertest.Elapse(reportPeriod)
		f.publish(1)
		published := f.set().ResourceVersion
		f.reconcile()
		f.wantRunners(1)
		if f.set().ResourceVersion != published {
			t.Error("the number was written by itself")
		}
		f.reconcile()
		f.wantDesired(1, "")
		if pending := f.set().Status.PendingEphemeralRunners; pending != 1 {
			t.Errorf("%d pending, want 1", pending)
		}
	}, newSet(0))
}
