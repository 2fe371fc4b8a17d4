package ephemeralrunnerset_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

// What happens while the watch shows nothing for minutes.

// passesFor runs passes for a while, and returns the number of lists.
func (f *fixture) passesFor(during time.Duration) int {
	f.Helper()
	before := f.requests["list"]
	for range during / listInterval {
		controllertest.Elapse(listInterval / 2)
		_, _ = f.pass()
		controllertest.Elapse(listInterval / 2)
		_, _ = f.pass()
	}
	return f.requests["list"] - before
}

func (f *fixture) wantDegraded(reason string, words ...string) {
	f.Helper()
	got := meta.FindStatusCondition(f.set().Status.Conditions, v1alpha1.ConditionDegraded)
	if got == nil || got.Reason != reason {
		f.Fatalf("condition %+v, want the reason %s", got, reason)
	}
	for _, words := range words {
		if !strings.Contains(got.Message, words) {
			f.Errorf("message %q does not say %q", got.Message, words)
		}
	}
}

// Every minute the same number was created again, and maxRunners did not stop that: it is compared with what the watch
// shows.
func TestRunnersThatTheWatchNeverShowsAreNotRecreated(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.limit(5)
		f.late = true
		f.reconcile()
		if lists := f.passesFor(10 * time.Minute); lists == 0 || lists > 10*2 {
			t.Errorf("%d lists in ten minutes, want no more than two a minute", lists)
		}
		f.wantRunners(3)
		f.wantDegraded(v1alpha1.ReasonRunnersUnseen, "3 runners", setKey.Namespace, "log")
		f.late = false
		f.reconcile()
		f.wantDegraded("RunnersWork")
		if lists := f.passesFor(10 * time.Minute); lists != 0 {
			t.Errorf("%d lists though all runners have been seen", lists)
		}
	}, newSet(3))
}

func TestNothingIsRecreatedWhileRunnersCannotBeListed(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.late = true
		f.reconcile()
		f.refuseList = apierrors.NewForbidden(runnersGroup, "", errors.New("no list"))
		controllertest.Elapse(expectationTimeout)
		if _, err := f.pass(); !apierrors.IsForbidden(err) {
			t.Errorf("the pass has the error %v", err)
		}
		if requeueAfter := f.reconcile().RequeueAfter; requeueAfter <= 0 || requeueAfter > listInterval {
			t.Errorf("again in %s, want at most %s", requeueAfter, listInterval)
		}
		if lists := f.passesFor(10 * time.Minute); lists == 0 || lists > 10*2 {
			t.Errorf("%d lists in ten minutes, want no more than two a minute", lists)
		}
		f.wantRunners(3)
		f.wantDegraded(v1alpha1.ReasonRunnersUnseen, "list EphemeralRunners", "no list", "grant it", setKey.Namespace)
		f.late, f.refuseList = false, nil
		f.reconcile()
		f.wantDegraded("RunnersWork")
	}, newSet(3))
}

// It is created again without an event.
func TestRunnerThatWasDeletedBeforeItWasSeenIsRecreated(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.late = true
		f.reconcile()
		f.finish(f.runners()[0])
		deleted := f.runners()[0]
		if err := f.api.Delete(t.Context(), &deleted); err != nil {
			t.Fatal(err)
		}
		requeueAfter := f.reconcile().RequeueAfter
		if f.wantRunners(2); requeueAfter <= 0 || requeueAfter > expectationTimeout {
			t.Errorf("again in %s, want at most %s", requeueAfter, expectationTimeout)
		}
		controllertest.Elapse(requeueAfter)
		f.reconcile()
		f.wantRunners(3)
	}, newSet(3))
}

// The next list needs no event, even while the watch shows some runners of the set.
func TestDeletedSetComesBackToLookForRunners(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.reconcile()
		f.reconcile() // which shows the first two
		f.late = true
		f.publish(3)
		f.reconcile()
		f.delete()
		f.refuseList = apierrors.NewForbidden(runnersGroup, "", errors.New("no list"))
		f.passesFor(2 * expectationTimeout)
		f.refuseList = nil
		controllertest.Elapse(reportPeriod)
		if after := f.reconcile().RequeueAfter; after == 0 || after > expectationTimeout {
			t.Errorf("the set is reconciled again after %s, want the next look", after)
		}
	}, newSet(2))
}

// A set that is being deleted waits for runners that exist, and says so if nobody knows whether they do.
func TestDeletedSetWaitsForRunnersThatTheWatchNeverShows(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.late = true
		f.reconcile()
		f.delete()
		f.refuseList = apierrors.NewForbidden(runnersGroup, "", errors.New("no list"))
		f.passesFor(2 * expectationTimeout)
		f.wantDegraded(v1alpha1.ReasonRunnersUnseen, "no list")
		f.refuseList = nil
		f.passesFor(2 * expectationTimeout)
		f.wantDegraded(v1alpha1.ReasonRunnersUnseen)
		f.late = false
		f.reconcile()
		controllertest.Elapse(reportPeriod)
		f.reconcile()
		f.wantDegraded("RunnersSeen")
		f.finishAll()
		if f.reconcile(); !f.gone() {
			t.Error("the set is left")
		}
	}, newSet(2))
}
