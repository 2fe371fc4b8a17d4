package autoscalingrunnerset_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
)

// respelt leads to the same place as address.
const respelt = "http://github.com/my-org"

// oneServer makes both spellings lead to the same scale sets.
func (f *fixture) oneServer() {
	scaleSets := map[int]actions.RunnerScaleSet{}
	f.github.Sets[address], f.github.Sets[respelt] = scaleSets, scaleSets
}

// wantKept fails if scale set 1 was deleted.
func (f *fixture) wantKept() {
	f.Helper()
	if calls := f.github.Made(); slices.Contains(calls, "delete 1") || len(f.github.Sets[address]) == 0 {
		f.Errorf("calls %q, former registrations %+v; want scale set 1 kept", calls, f.leaving())
	}
}

func TestReturnInAnotherSpellingKeepsTheScaleSet(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.oneServer()
		f.create(newSet())
		f.settle()
		f.listening()
		runner := f.busy()
		f.move(newAddress)
		f.settle()
		f.move(respelt)
		f.settle()
		if err := f.client.Delete(t.Context(), runner); err != nil {
			t.Fatal(err)
		}
		f.settle()
		f.wantKept()
	})
}

// The busy runner's spec has the spelling of the time when it was created.
func TestMoveAfterAnotherSpellingSparesTheBusyRunner(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.oneServer()
		f.create(newSet())
		f.settle()
		f.listening()
		f.busy()
		f.move(respelt)
		f.settle()
		f.github.NextID = 5
		f.move(newAddress)
		f.settle()
		f.settle()
		f.wantKept()
	})
}

func TestSpellingCorrectedDuringTheFirstCall(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.oneServer()
		f.github.Silence = 5 * time.Second
		f.create(newSet(func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.GitHubConfigUrl = respelt }))
		f.reconcile()
		f.move(address)
		for range 10 {
			f.settle()
		}
		f.wantKept()
		if events := strings.Join(f.events(), "\n"); f.set().Status.Registration == nil ||
			strings.Contains(events, "Warning") {
			t.Errorf("registration %+v, events %q", f.set().Status.Registration, events)
		}
	})
}

func TestSpellingAndNameChangedAtOnceKeepTheScaleSet(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.oneServer()
		f.create(newSet())
		f.settle()
		f.listening()
		f.edit(func(s *v1alpha1.AutoscalingRunnerSet) {
			s.Spec.GitHubConfigUrl, s.Spec.RunnerScaleSetName = respelt, "second"
		})
		f.settle()
		f.wantKept()
		if there := f.github.Sets[address]; len(there) != 1 || there[1].Name != "second" {
			t.Errorf("on GitHub %+v, want the scale set renamed", there)
		}
	})
}

func TestTwinAtAnotherSpellingStandsBack(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.oneServer()
		f.create(newSet())
		f.settle()
		f.create(newTwin(func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.GitHubConfigUrl = respelt }))
		f.settleBoth()
		f.wantOneOwner()
		f.github.Made()
		f.passBoth(5 * time.Minute)
		if calls := f.github.Made(); len(calls) > 10 {
			t.Errorf("%d calls in five minutes: %q", len(calls), calls)
		}
	})
}

// The first call's scale set is found under its name in the other spelling.
func TestSpellingAndNameCorrectedDuringTheFirstCall(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.oneServer()
		f.create(newSet(func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.GitHubConfigUrl = respelt }))
		f.reconcile()
		f.edit(func(s *v1alpha1.AutoscalingRunnerSet) {
			s.Spec.GitHubConfigUrl, s.Spec.RunnerScaleSetName = address, "second"
		})
		f.settle()
		if there := f.github.Sets[address]; len(there) != 1 || there[1].Name != "second" {
			t.Errorf("on GitHub %+v, want the scale set renamed", there)
		}
	})
}

// Ids begin at 1 in each organization: the scale set of the second one is none of the first's.
func TestReturnInAnotherSpellingDeletesTheOthersScaleSet(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.oneServer()
		f.create(newSet())
		f.settle()
		f.listening()
		f.busy()
		f.github.NextID = 1
		f.move(newAddress)
		f.settle()
		f.move(respelt)
		f.settle()
		f.settle()
		if len(f.github.Sets[newAddress]) > 0 || len(f.github.Sets[address]) != 1 {
			t.Errorf("scale sets %+v, want the one at %s only", f.github.Sets, address)
		}
	})
}
