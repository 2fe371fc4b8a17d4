package ephemeralrunnerset_test

import (
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/creations"
)

// What happens when another manager takes over, whose watch does not show yet what the first one created last.

// takeOver replaces the controller by one that knows nothing and sees no runner.
func (f *fixture) takeOver() {
	f.Helper()
	f.restart()
	f.late = true
}

func TestNextManagerCountsRunnersThatItsWatchDoesNotShow(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.reconcile()
		f.takeOver()
		before := f.requests["list"]
		if after := f.reconcile().RequeueAfter; after <= 0 || after > time.Second {
			t.Errorf("planned again in %s, want at once", after)
		}
		f.publish(5)
		f.reconcile()
		f.wantRunners(5)
		f.late = false
		f.reconcile()
		f.publish(6)
		f.reconcile()
		if f.wantRunners(6); f.requests["list"] != before+1 {
			t.Errorf("%d lists, want one before the first creation", f.requests["list"]-before)
		}
	}, newSet(3))
}

func TestNextManagerReplacesRunnersThatWereGoneBeforeItsWatchShowedThem(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.reconcile()
		f.takeOver()
		f.reconcile()
		f.finishAll()
		for range 3 {
			controllertest.Elapse(expectationTimeout)
			f.reconcile()
		}
		f.wantRunners(3)
	}, newSet(3))
}

func TestNextManagerThatMayNotListRunnersCreatesNoneAndSaysWhy(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.reconcile()
		f.takeOver()
		f.refuseList = apierrors.NewForbidden(runnersGroup, "", errors.New("no list"))
		before := f.requests["list"]
		for range 10 {
			_, _ = f.pass()
		}
		if lists := f.requests["list"] - before; lists != 1 {
			t.Errorf("%d lists in ten passes at one moment, want 1", lists)
		}
		for range degradedThreshold {
			controllertest.Elapse(longestCreateBackoff)
			_, _ = f.pass()
		}
		f.wantRunners(3)
		f.wantDegraded(v1alpha1.ReasonRunnersNotCreated, "list EphemeralRunners", "no list")
		f.refuseList, f.late = nil, false
		controllertest.Elapse(longestCreateBackoff)
		f.reconcile()
		f.wantRunners(3)
		f.wantDegraded("RunnersWork")
	}, newSet(3))
}

// Its answer is missing, so it may be back in a moment: jobs wait.
func TestNextManagerAsksAnAPIServerThatIsAwayEveryTenSeconds(t *testing.T) {
	for name, away := range map[string]error{
		"no connection": errors.New("connection refused"),
		"etcd is away":  apierrors.NewServerTimeout(runnersGroup, "list", 1),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.reconcile()
				f.takeOver()
				f.refuseList = away
				for range 20 {
					controllertest.Elapse(creations.LongestAwayBackoff)
					_, _ = f.pass()
				}
				f.refuseList = nil
				controllertest.Elapse(creations.LongestAwayBackoff)
				f.publish(4)
				f.reconcile()
				f.reconcile()
				f.wantRunners(4)
			}, newSet(3))
		})
	}
}

func TestSetWithoutDemandIsNotListed(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.reconcile()
		if f.requests["list"] != 0 {
			t.Errorf("%d lists for a set that wants no runners", f.requests["list"])
		}
	}, newSet(0))
}
