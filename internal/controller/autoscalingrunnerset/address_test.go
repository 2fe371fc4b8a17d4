package autoscalingrunnerset_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
)

// TestNewSpellingThatLeadsNowhereTakesNothingAway: everything keeps working until GitHub has answered there.
func TestNewSpellingThatLeadsNowhereTakesNothingAway(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet())
		f.settle()
		f.github.Fail(errors.New("connection refused"))
		f.move("http://github.com/my-org")
		f.settle()
		if got := f.listeners()[0].Spec.GitHubConfigUrl; got != address {
			t.Errorf("the listener was sent to %s", got)
		}
		if c := meta.FindStatusCondition(f.set().Status.Conditions,
			v1alpha1.ConditionScaleSetRegistered); c.Status == metav1.ConditionTrue ||
			!strings.Contains(c.Message, "connection refused") {
			t.Errorf("ScaleSetRegistered = %s: %s, want why nothing changes", c.Status, c.Message)
		}
	})
}

// TestNewSpellingThatLeadsNowhereIsNoneToDeleteBy: the former one does.
func TestNewSpellingThatLeadsNowhereIsNoneToDeleteBy(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.deletable()
		f.edit(func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.GitHubConfigUrl = "http://github.com/my-org" })
		f.drained()
		f.settle()
		if f.github.Sets["http://github.com/my-org"] != nil || len(f.github.Sets[address]) > 0 {
			t.Errorf("scale sets %+v, want the one at %s deleted there", f.github.Sets, address)
		}
	})
}

// TestWayBackToAnEqualIDDeletesTheOther: that both were registered proves that they are two.
func TestWayBackToAnEqualIDDeletesTheOther(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet())
		f.settle()
		f.busy()
		f.github.NextID = 1
		f.movedTo(newAddress, nil)
		f.movedTo(address, f.github.Sets[address])
		if len(f.github.Sets[newAddress]) > 0 || len(f.github.Sets[address]) != 1 {
			t.Errorf("scale sets %+v, want the one at %s only", f.github.Sets, address)
		}
	})
}

// movedTo returns a set's fixture after a change of its address to one at which GitHub has the scale sets.
func (f *fixture) movedTo(address string, there map[int]actions.RunnerScaleSet) {
	f.Helper()
	f.github.Sets[address] = there
	f.events()
	f.github.Made()
	f.move(address)
	f.settle()
	f.settle()
}

// TestAnotherAddressOfThePlaceKeepsTheScaleSet: deleting it at the former address would delete the one in use, with its
// queue.
func TestAnotherAddressOfThePlaceKeepsTheScaleSet(t *testing.T) {
	for _, alias := range []string{"https://www.github.com/my-org", "http://github.com/my-org",
		"https://github.com/renamed-org"} {
		for state, restarted := range map[string]bool{"": false, ", manager anew": true} {
			t.Run(alias+state, func(t *testing.T) {
				inBubble(t, func(f *fixture) {
					f.create(newSet())
					f.settle()
					f.listening()
					if restarted {
						f.restart()
					}
					f.movedTo(alias, f.github.Sets[address])
					if calls := f.github.Made(); slices.Contains(calls, "delete 1") ||
						slices.Contains(calls, "create") {
						t.Errorf("calls %q, want the scale set found and kept", calls)
					}
					if got := f.set().Status.Registration; got.URL != alias || got.ID != 1 ||
						f.listeners()[0].Spec.GitHubConfigUrl != alias {
						t.Errorf("registration %+v, listener at %s", got, f.listeners()[0].Spec.GitHubConfigUrl)
					}
					if events := f.events(); !strings.Contains(strings.Join(events, "\n"), "ScaleSetAddressChanged") {
						t.Errorf("events %q, want one about the new address", events)
					}
				})
			})
		}
	}
}

// TestEqualIDAtAnotherPlaceIsNoProof: ids begin at 1 everywhere.
func TestEqualIDAtAnotherPlaceIsNoProof(t *testing.T) {
	for name, test := range map[string]struct {
		address string
		there   map[int]actions.RunnerScaleSet
	}{
		"created there":      {newAddress, nil},
		"another GitHub":     {"https://ghes.example.com/my-org", map[int]actions.RunnerScaleSet{1: labelled(1, "set", 1, "set")}},
		"found with another": {newAddress, map[int]actions.RunnerScaleSet{7: labelled(7, "set", 1, "set")}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.create(newSet())
				f.settle()
				f.listening()
				f.github.NextID = 1
				f.movedTo(test.address, test.there)
				if len(f.github.Sets[address]) > 0 {
					t.Errorf("the scale set at the former address is left, calls %q", f.github.Made())
				}
			})
		})
	}
}

// TestEditedStatusDoesNotMakeCredentialsGoInTheClear: who may write the status could put http:// there.
func TestEditedStatusDoesNotMakeCredentialsGoInTheClear(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.deletable()
		f.drained()
		set := f.set()
		set.Status.Registration.URL = "http://github.com/my-org"
		f.updateStatus(set)
		f.settle()
		if f.github.Sets["http://github.com/my-org"] != nil || len(f.github.Sets[address]) > 0 {
			t.Errorf("scale sets %+v, want the one at %s deleted there", f.github.Sets, address)
		}
	})
}
