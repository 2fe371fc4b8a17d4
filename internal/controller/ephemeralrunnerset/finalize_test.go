package ephemeralrunnerset

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

func (f *fixture) delete() {
	f.Helper()
	if err := f.api.Delete(f.Context(), f.set()); err != nil {
		f.Fatal(err)
	}
	f.requests["delete"] = 0
}

// finishAll ends the runners' own finalization.
func (f *fixture) finishAll() {
	f.Helper()
	for _, r := range f.runners() {
		f.finish(r)
	}
}

// finish ends one runner's own finalization.
func (f *fixture) finish(r v1alpha1.EphemeralRunner) {
	f.Helper()
	r.Finalizers = nil
	if err := f.api.Update(f.Context(), &r); err != nil && !apierrors.IsNotFound(err) {
		f.Fatal(err)
	}
}

func (f *fixture) gone() bool {
	return apierrors.IsNotFound(f.api.Get(f.Context(), setKey, &v1alpha1.EphemeralRunnerSet{}))
}

func TestDeletedSetIsRemovedAfterItsRunners(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.reconcile()
		f.delete()
		for range 3 {
			f.reconcile()
		}
		if f.requests["delete"] != 2 || f.requests["create"] != 2 || f.gone() {
			t.Errorf("requests %v, gone: %t; want 2 deletions, nothing created, and the set to wait", f.requests, f.gone())
		}
		f.finishAll()
		f.reconcile()
		if !f.gone() {
			t.Error("the set is left")
		}
		f.reconcile()
		if len(f.controller.states) != 0 {
			t.Error("the set is remembered though it is gone")
		}
	}, newSet(2))
}

// The set that replaces a draining one gets the room of the runners that are gone, and no more.
func TestDeletedSetCountsTheRunnersThatAreLeft(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.reconcile()
		f.bringUp()
		controllertest.Elapse(2 * reportPeriod)
		f.reconcile()
		f.delete()
		for left := 3; left > 0; left-- {
			controllertest.Elapse(2 * reportPeriod)
			f.reconcile()
			if got := f.set().Status; got.CurrentReplicas != left || got.RunningEphemeralRunners != left {
				t.Errorf("status %+v, want %d running", got, left)
			}
			if got := f.set().Status.Capacity; got == nil || *got != 1 {
				t.Errorf("capacity %v, want 1: nothing here runs another job, and yet 0 must not be announced", got)
			}
			f.finish(f.runners()[0])
		}
	}, newSet(3))
}

// Runners whose creation the cache does not show yet must not outlive their set.
func TestDeletedSetWaitsForRunnersThatAreNotVisibleYet(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.reconcile()
		f.delete()
		f.late = true
		if requeueAfter := f.reconcile().RequeueAfter; requeueAfter != unseenPause || f.gone() {
			t.Errorf("again in %s, gone: %t", requeueAfter, f.gone())
		}
		f.late = false
		f.reconcile()
		f.finishAll()
		f.reconcile()
		if !f.gone() {
			t.Error("the set is left")
		}
	}, newSet(1))
}

func TestDeletedSetDoesNotWaitForeverForWhatWasNeverCreated(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.refuse = errNoAnswer
		_, _ = f.pass()
		f.delete()
		f.reconcile()
		if f.gone() {
			t.Fatal("gone though the creation may have succeeded")
		}
		controllertest.Elapse(2 * expectationTimeout)
		f.reconcile()
		if !f.gone() {
			t.Error("the set is left")
		}
	}, newSet(1))
}

// Nothing is remembered of a set that was deleted and recreated between two passes.
func TestNamesakeIsAnotherSet(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.refuse = errNoAnswer
		_, _ = f.pass()
		namesake := newSet(1, func(set *v1alpha1.EphemeralRunnerSet) { set.UID = types.UID("namesake") })
		if s := f.controller.setStateOf(namesake); len(s.creations.unanswered) != 0 || s.creations.failures != 0 {
			t.Errorf("state %+v", s)
		}
		if pending := f.controller.expectations.Pending(setKey); len(pending) != 0 {
			t.Errorf("expected still: %v", pending)
		}
	}, newSet(1))
}
