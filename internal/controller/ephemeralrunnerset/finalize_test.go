package ephemeralrunnerset

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

func (s *site) delete() {
	s.Helper()
	if err := s.api.Delete(s.Context(), s.set()); err != nil {
		s.Fatal(err)
	}
	s.requests["delete"] = 0
}

// letGo lets the runners' own finalization end.
func (s *site) letGo() {
	s.Helper()
	for _, r := range s.runners() {
		s.finish(r)
	}
}

// finish lets one runner's own finalization end.
func (s *site) finish(r v1alpha1.EphemeralRunner) {
	s.Helper()
	r.Finalizers = nil
	if err := s.api.Update(s.Context(), &r); err != nil && !apierrors.IsNotFound(err) {
		s.Fatal(err)
	}
}

func (s *site) gone() bool {
	return apierrors.IsNotFound(s.api.Get(s.Context(), setKey, &v1alpha1.EphemeralRunnerSet{}))
}

func TestDeletedSetGoesAfterItsRunners(t *testing.T) {
	inBubble(t, func(s *site) {
		s.reconcile()
		s.delete()
		for range 3 {
			s.reconcile()
		}
		if s.requests["delete"] != 2 || s.requests["create"] != 2 || s.gone() {
			t.Errorf("requests %v, gone: %t; want 2 deletions, nothing made, and the set to wait", s.requests, s.gone())
		}
		s.letGo()
		s.reconcile()
		if !s.gone() {
			t.Error("the set is left")
		}
		s.reconcile()
		if len(s.controller.memories) != 0 {
			t.Error("the set is remembered though it is gone")
		}
	}, newSet(2))
}

// What a draining set's runners occupy is not free for the set that takes its place, and what they no longer occupy is.
func TestDeletedSetCountsTheRunnersThatAreLeft(t *testing.T) {
	inBubble(t, func(s *site) {
		s.reconcile()
		s.bringUp()
		controllertest.Elapse(2 * reportEvery)
		s.reconcile()
		s.delete()
		for left := 3; left > 0; left-- {
			controllertest.Elapse(2 * reportEvery)
			s.reconcile()
			if got := s.set().Status; got.CurrentReplicas != left || got.RunningEphemeralRunners != left {
				t.Errorf("status %+v, want %d running", got, left)
			}
			if got := s.set().Status.Capacity; got == nil || *got != 0 {
				t.Errorf("capacity %v, want 0: nothing runs another job", got)
			}
			s.finish(s.runners()[0])
		}
	}, newSet(3))
}

// Runners whose creation the cache does not show yet must not outlive their set.
func TestDeletedSetWaitsForRunnersThatAreNotVisibleYet(t *testing.T) {
	inBubble(t, func(s *site) {
		s.reconcile()
		s.delete()
		s.late = true
		if again := s.reconcile().RequeueAfter; again != unseenPause || s.gone() {
			t.Errorf("again in %s, gone: %t", again, s.gone())
		}
		s.late = false
		s.reconcile()
		s.letGo()
		s.reconcile()
		if !s.gone() {
			t.Error("the set is left")
		}
	}, newSet(1))
}

func TestDeletedSetDoesNotWaitForEverForWhatWasNeverMade(t *testing.T) {
	inBubble(t, func(s *site) {
		s.refuse = errNoAnswer
		_, _ = s.pass()
		s.delete()
		s.reconcile()
		if s.gone() {
			t.Fatal("gone though the creation may have succeeded")
		}
		controllertest.Elapse(2 * expectedAtMost)
		s.reconcile()
		if !s.gone() {
			t.Error("the set is left")
		}
	}, newSet(1))
}

// A set that was deleted and made anew between two passes starts with nothing in its memory.
func TestNamesakeIsAnotherSet(t *testing.T) {
	inBubble(t, func(s *site) {
		s.refuse = errNoAnswer
		_, _ = s.pass()
		namesake := newSet(1, func(set *v1alpha1.EphemeralRunnerSet) { set.UID = types.UID("namesake") })
		if m := s.controller.memoryOf(namesake); len(m.unanswered) != 0 || m.refusals != 0 {
			t.Errorf("memory %+v", m)
		}
		if pending := s.controller.expectations.Pending(setKey); len(pending) != 0 {
			t.Errorf("expected still: %v", pending)
		}
	}, newSet(1))
}
