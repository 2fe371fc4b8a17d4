package autoscalingrunnerset_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/scaleset"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/credentials"
)

// unrecorded creates a set whose scale set was created by a manager that was killed before it recorded that, and
// deletes the set. The next manager can't reach GitHub.
func (f *fixture) unrecorded() {
	f.Helper()
	f.create(newSet())
	f.reconcile()
	if f.set().Status.Registration != nil || len(f.github.Sets[address]) != 1 {
		f.Fatal("want a scale set that is not recorded")
	}
	f.restart()
	f.github.Fail(errors.New("connection refused"))
	f.reconcile()
	f.github.Made()
	f.delete()
}

func (f *fixture) delete() {
	f.Helper()
	if err := f.client.Delete(f.Context(), f.set()); err != nil {
		f.Fatal(err)
	}
}

// finalizing reconciles until the set is gone, and returns the time that it took.
func (f *fixture) finalizing() time.Duration {
	f.Helper()
	start := time.Now()
	for !f.gone() && time.Since(start) < 3*scaleset.DeregisterTimeout {
		controllertest.Elapse(max(f.reconcile().RequeueAfter, time.Second))
	}
	return time.Since(start)
}

func TestDeletionFindsWhatWasCreatedAndNotRecorded(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.unrecorded()
		f.reconcile()
		f.wantCondition(v1alpha1.ConditionReady, "False", "Deregistering")
		f.github.Fail(nil)
		f.finalizing()
		if !f.gone() || len(f.github.Sets[address]) > 0 {
			t.Errorf("gone %t, scale sets left: %+v", f.gone(), f.github.Sets[address])
		}
		wantEvent(t, f.events(), "ScaleSetDeleted")
	})
}

// An older scale set of the same name at the same address belongs to another cluster.
func TestDeletionLeavesAnOlderScaleSetOfTheNameAlone(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.unrecorded()
		for id, set := range f.github.Sets[address] {
			set.CreatedOn = f.set().CreationTimestamp.Add(-time.Hour)
			f.github.Sets[address][id] = set
		}
		f.github.Fail(nil)
		f.finalizing()
		if !f.gone() || len(f.github.Sets[address]) != 1 {
			t.Errorf("gone %t, scale sets left: %+v, want somebody else's", f.gone(), f.github.Sets[address])
		}
	})
}

func TestDeletionAfterALostAnswerSurvivesRestarts(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.unrecorded()
		f.github.Fail(nil)
		for range 10 {
			f.restart()
			f.reconcile()
			if f.gone() {
				break
			}
			f.reconcile()
			if f.gone() {
				break
			}
		}
		if !f.gone() || len(f.github.Sets[address]) > 0 {
			t.Errorf("gone %t, scale sets left: %+v", f.gone(), f.github.Sets[address])
		}
	})
}

func TestDeletionAfterALostAnswerInTheSameProcess(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.github.LoseCreation = true
		f.create(newSet())
		f.settle()
		f.delete()
		f.finalizing()
		if !f.gone() || len(f.github.Sets[address]) > 0 {
			t.Errorf("gone %t, scale sets left: %+v", f.gone(), f.github.Sets[address])
		}
	})
}

func TestSearchForTheUnrecordedHasADeadline(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.unrecorded()
		if waited := f.finalizing(); waited < scaleset.DeregisterTimeout-time.Second ||
			waited > scaleset.DeregisterTimeout+5*time.Second {
			t.Errorf("gave up after %s, want %s", waited, scaleset.DeregisterTimeout)
		}
		if calls := len(f.github.Made()); calls < 5 || calls > 15 {
			t.Errorf("%d attempts, want them to be repeated with growing pauses", calls)
		}
		wantEvent(t, f.events(), "ScaleSetLeftOnGitHub")
	})
}

func TestUnrecordedScaleSetOfAnotherSetIsLeftAlone(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.unrecorded()
		f.create(newSet(func(s *v1alpha1.AutoscalingRunnerSet) {
			s.Name, s.UID = "other", "other-uid"
			s.Annotations = map[string]string{v1alpha1.AnnotationRunnerScaleSetID: "1"}
		}))
		f.github.Fail(nil)
		f.finalizing()
		if diff := cmp.Diff([]string{"find"}, f.github.Made()); diff != "" || !f.gone() {
			t.Errorf("gone %t, calls (-want +got):\n%s", f.gone(), diff)
		}
	})
}

// TestWhatWasNeverCreatedHoldsNothingUp: a user who deletes a set with a mistake in it does not wait.
func TestWhatWasNeverCreatedHoldsNothingUp(t *testing.T) {
	missing := &credentials.MissingError{Kind: "Secret", Namespace: setNamespace, Name: "github"}
	for name, test := range map[string]struct {
		failure, unresolved error
		restarted           bool
	}{
		"Secret never there":                  {unresolved: missing},
		"Secret never there, manager anew":    {unresolved: missing, restarted: true},
		"token refused":                       {failure: actions.ErrUnauthorized},
		"token refused, manager anew":         {failure: actions.ErrUnauthorized, restarted: true},
		"runner group unknown, manager anew":  {failure: actions.ErrRunnerGroupNotFound, restarted: true},
		"no such organization, manager anew":  {failure: actions.ErrNotFound, restarted: true},
		"GitHub was out of reach all the way": {failure: errors.New("no such host")},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.github.Failure, f.github.unresolved = test.failure, test.unresolved
				f.create(newSet())
				f.settle()
				if test.restarted {
					f.restart()
				}
				f.events()
				f.delete()
				if waited := f.finalizing(); waited > 5*time.Second {
					t.Errorf("the deletion took %s", waited)
				}
				if told := strings.Join(f.events(), "\n"); strings.Contains(told, "ScaleSetLeftOnGitHub") {
					t.Errorf("a false alarm:\n%s", told)
				}
			})
		})
	}
}

// TestSecretGoneWithTheAnswerIsTold: GitHub can't be asked, and may have a scale set.
func TestSecretGoneWithTheAnswerIsTold(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.unrecorded()
		f.github.leaveUnresolved(&credentials.MissingError{Kind: "Secret", Namespace: setNamespace, Name: "github"})
		if waited := f.finalizing(); waited > 5*time.Second {
			t.Errorf("the deletion took %s", waited)
		}
		wantEvent(t, f.events(), "ScaleSetLeftOnGitHub")
	})
}

// TestWhatWasGivenUpIsNotSearchedFor: the manager restarts while the listener is still being deleted.
func TestWhatWasGivenUpIsNotSearchedFor(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.deletable()
		f.github.leaveUnresolved(&credentials.MissingError{Kind: "Secret", Namespace: setNamespace, Name: "github"})
		f.drained()
		f.settle()
		f.github.leaveUnresolved(nil)
		f.restart()
		f.settle()
		if calls := f.github.Made(); len(calls) > 0 {
			t.Errorf("calls = %v after it was given up", calls)
		}
	})
}
