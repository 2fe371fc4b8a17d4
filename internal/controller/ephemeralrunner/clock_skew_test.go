package ephemeralrunner

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// askewClock differs from the API server's clock, which is that of the bubble.
type askewClock struct {
	clock.RealClock
	ahead time.Duration
}

func (c *askewClock) Now() time.Time                  { return c.RealClock.Now().Add(c.ahead) }
func (c *askewClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// beginning is when every bubble begins.
var beginning = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// By the clock of a manager that is behind, a runner was made after it began that another one had registered before.
func TestManagerWithAClockBehindLeavesNoRegistration(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.api.refuse = map[string]error{"create Secret": errors.New("away")}
		f.settle()
		f.wantCalls("jit") // registered, and the manager ends
		f.elapse(time.Minute)
		f.restart()
		f.controller.options.Clock = &askewClock{ahead: -5 * time.Minute}
		f.delete()
		f.watch(10 * time.Minute)
		f.wantCalls("find", "remove 101")
	}, newRunner(func(r *v1alpha1.EphemeralRunner) { r.CreationTimestamp = metav1.NewTime(beginning) }))
}

// By the clock of a manager that is ahead, no pod would have run in time.
func TestManagerWithAClockAheadGivesAPodItsTime(t *testing.T) {
	inBubble(t, func(f *fixture) {
		options := f.controller.options
		options.Clock = &askewClock{ahead: time.Hour}
		f.controller = NewController(options)
		f.settle()
		pod := f.pod()
		pod.CreationTimestamp = metav1.NewTime(beginning)
		pod.Spec.NodeName = "node"
		if err := f.api.WithWatch.Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		f.elapse(defaultPendingTimeout / 2)
		f.settle()
		f.wantCalls("jit")
		f.elapse(defaultPendingTimeout / 2)
		f.settle()
		f.wantCalls("remove 101")
	}, newRunner(func(r *v1alpha1.EphemeralRunner) { r.CreationTimestamp = metav1.NewTime(beginning) }))
}
