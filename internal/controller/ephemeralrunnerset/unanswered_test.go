package ephemeralrunnerset_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/creations"
)

// limit sets maxRunners, as a user would.
func (f *fixture) limit(maxRunners int) {
	f.Helper()
	set := f.set()
	set.Spec.MaxRunners = new(maxRunners)
	if err := f.api.Update(f.Context(), set); err != nil {
		f.Fatal(err)
	}
}

// tries lets time pass until a creation may be retried, and returns the number of runners that the pass then tries to
// create.
func (f *fixture) tries() int {
	f.Helper()
	controllertest.Elapse(creations.LongestAwayBackoff)
	before := f.requests["create"]
	_, _ = f.pass()
	return f.requests["create"] - before
}

// The jobs are cancelled, and the user drains the set, while creations get no answer.
func TestNothingIsRepeatedThatNobodyWants(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.refuseUntilReported(errNoAnswer)
		f.publish(0)
		f.limit(0)
		for range 100 {
			if tried := f.tries(); tried != 0 {
				t.Fatalf("%d creations though nothing is wanted", tried)
			}
		}
		status := f.set().Status
		if meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionDegraded) || status.Capacity != nil {
			t.Errorf("a set that wants nothing has the status %+v", status)
		}
		f.refuse = nil
		f.tries()
		f.wantRunners(0)
	}, newSet(10))
}

func TestOnlyWhatIsWantedIsRepeated(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.refuse = errNoAnswer
		f.tries()
		for _, step := range []struct{ publish, want int }{{5, 5}, {2, 2}, {4, 4}, {0, 0}, {3, 3}} {
			f.publish(step.publish)
			if tried := f.tries(); tried != step.want {
				t.Errorf("%d creations for %d jobs, want %d", tried, step.publish, step.want)
			}
		}
		f.refuse = nil
		for range 2 * expectationTimeout / creations.LongestAwayBackoff {
			f.tries()
		}
		f.wantRunners(3)
	}, newSet(5))
}

// The runners were created after all, and the watch is late: when they are wanted again they get the names that they
// already have.
func TestWhatIsWantedAgainIsRepeatedUnderTheSameName(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.late, f.refuse, f.made = true, errNoAnswer, true
		f.tries()
		f.publish(0)
		if tried := f.tries(); tried != 0 {
			t.Errorf("%d creations though nothing is wanted", tried)
		}
		f.refuse, f.made = nil, false
		f.publish(3)
		f.tries()
		f.wantRunners(3)
		f.late = false
		f.tries()
		f.wantRunners(3)
	}, newSet(3))
}

// All runners whose creation got no answer may exist. While that would exceed maxRunners none is created; a minute
// later they would have been seen.
func TestUnansweredCreationsCountTowardsMaxRunners(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.refuse = errNoAnswer
		f.tries()
		f.refuse = nil
		f.limit(2)
		f.publish(2)
		if tried := f.tries(); tried != 0 {
			t.Errorf("%d creations while 5 runners may exist, want none with maxRunners 2", tried)
		}
		waits := time.Duration(0)
		for requeueAfter := f.reconcile().RequeueAfter; len(f.runners()) == 0 &&
			requeueAfter > 0; requeueAfter = f.reconcile().RequeueAfter {
			controllertest.Elapse(requeueAfter)
			waits += requeueAfter
		}
		f.wantRunners(2)
		if waits > expectationTimeout+creations.LongestAwayBackoff {
			t.Errorf("they came after %s, want it as soon as the others are not expected any more", waits)
		}
	}, newSet(5))
}

// passWithoutTime runs a pass whose context has ended.
func (f *fixture) passWithoutTime() {
	f.Helper()
	ctx, cancel := context.WithCancel(f.Context())
	cancel()
	before := f.requests["create"]
	if _, err := f.controller.Reconcile(ctx, ctrl.Request{NamespacedName: setKey}); !errors.Is(err, context.Canceled) {
		f.Fatalf("Reconcile() = %v", err)
	}
	if tried := f.requests["create"] - before; tried != 0 {
		f.Fatalf("%d creations though the context has ended", tried)
	}
}

// The context of a pass ends before all requests are sent, because the API server is slow: the other runners are not
// expected, and nobody waits for them.
func TestRunnersThatWereNeverRequestedAreCreatedSoon(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.passWithoutTime()
		controllertest.Elapse(firstCreateBackoff)
		f.reconcile()
		f.wantRunners(2)
	}, newSet(2))
}

// If an earlier try got no answer they may exist: they are requested again under the names that they have.
func TestRepetitionsThatWereNeverRequestedAreStillRepeated(t *testing.T) {
	for name, exist := range map[string]bool{"the runners exist": true, "they do not": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.late, f.refuse, f.made = true, errNoAnswer, exist
				f.tries()
				controllertest.Elapse(creations.LongestAwayBackoff)
				f.passWithoutTime()
				f.refuse, f.made = nil, false
				if tried := f.tries(); tried != 2 {
					t.Errorf("%d creations, want both tried again", tried)
				}
				f.wantRunners(2)
			}, newSet(2))
		})
	}
}
