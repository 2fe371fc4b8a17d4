package ephemeralrunner_test

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

// askewClock differs from the API server's clock, which is that of the bubble.
type askewClock struct {
	clock.RealClock
	ahead time.Duration
}

func (c *askewClock) Now() time.Time                  { return c.RealClock.Now().Add(c.ahead) }
func (c *askewClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// beginning is the time at which every bubble begins.
var beginning = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// useClock gives a new controller another clock.
func (f *fixture) useClock(another clock.PassiveClock) {
	f.configure(func(o *ephemeralrunner.Options) { o.Clock = another })
}

// By the clock of a manager that is behind, a runner registered by another manager was created after this one took
// over.
func TestManagerWithAClockBehindLeavesNoRegistration(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.api.refuse = map[string]error{"create Secret": errors.New("away")}
		f.settle()
		f.wantCalls("jit") // registered, and the manager ends
		f.elapse(time.Minute)
		f.restart()
		f.clock.PassiveClock = &askewClock{ahead: -5 * time.Minute}
		f.delete()
		f.watch(10 * time.Minute)
		f.wantCalls("find", "remove 101")
	}, newRunner(func(r *v1alpha1.EphemeralRunner) { r.CreationTimestamp = metav1.NewTime(beginning) }))
}

// By the clock of a manager that is ahead, no pod would ever start in time.
func TestManagerWithAClockAheadGivesAPodItsTime(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.useClock(&askewClock{ahead: time.Hour})
		f.settle()
		pod := f.pod()
		pod.CreationTimestamp = metav1.NewTime(beginning)
		pod.Spec.NodeName = "node"
		if err := f.api.WithWatch.Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		f.elapse(rules.DefaultPendingTimeout / 2)
		f.settle()
		f.wantCalls("jit")
		f.elapse(rules.DefaultPendingTimeout / 2)
		f.settle()
		f.wantCalls("remove 101")
	}, newRunner(func(r *v1alpha1.EphemeralRunner) { r.CreationTimestamp = metav1.NewTime(beginning) }))
}

// By the clock of an API server that is ahead, a pod whose failure is recorded need not be gone for an hour. Until then
// its runner, which is dead, would count against maxRunners.
func TestRunnerWhoseFailedPodStaysFailsWithAClockBehind(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.useClock(&askewClock{ahead: -time.Hour})
		f.keptBy(keeper)
		f.elapse(rules.DefaultPendingTimeout / 2)
		f.settle()
		if status := f.runner().Status; status.Done() {
			t.Fatalf("status %+v before the pod had its time", status)
		}
		f.comesBack(rules.DefaultPendingTimeout/2 + podstatus.StuckTimeout)
		if status := f.runner().Status; status.Phase != v1alpha1.EphemeralRunnerPhaseFailed ||
			status.Reason != v1alpha1.ReasonPodTerminating {
			t.Errorf("status %+v, want Failed for %s", status, v1alpha1.ReasonPodTerminating)
		}
	}, newRunner())
}
