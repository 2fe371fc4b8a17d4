package autoscalingrunnerset_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

// TestFailedSearchDoesNotEndTheOtherDeletions: the credentials of the former address are good.
func TestFailedSearchDoesNotEndTheOtherDeletions(t *testing.T) {
	for name, restarted := range map[string]bool{"in one go": false, "with restarts": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.running()
				f.busy()
				f.move(newAddress)
				f.settle()
				f.listening()
				clear(f.github.Sets[newAddress])
				f.reportLost()
				f.github.LoseCreation = true
				f.settle()
				f.settle()
				f.github.LoseCreation = false
				if want := "Leaving set at " + address + " with id 1"; !slices.Contains(f.journal(), want) ||
					!slices.Contains(f.journal(), "Asked set at "+newAddress) {
					t.Fatalf("journal %q", f.journal())
				}
				f.github.refusedSecrets = map[string]string{newAddress: "github"}
				f.restart()
				f.events()
				f.delete()
				f.drained()
				for range 10 {
					f.reconcile()
					controllertest.Elapse(2 * time.Second)
					f.reconcile()
					if restarted {
						f.restart()
					}
				}
				for _, listener := range f.listeners() {
					f.release(&listener)
				}
				f.finalizing()
				told := strings.Join(f.events(), "\n")
				if left := f.github.Sets[address]; len(left) > 0 || !f.gone() {
					t.Errorf("gone %t, left at the former address: %v", f.gone(), left)
				}
				if perhaps := strings.Count(told,
					"Perhaps left on GitHub: scale set \"set\" at "+newAddress); perhaps != 2 {
					t.Errorf("told %d times, want once for the set and once for the listener:\n%s", perhaps, told)
				}
			})
		})
	}
}

// TestDeletionSearchesForWhatAnEarlierReleaseDidNotRecord: that release recorded only what the set had left.
func TestDeletionSearchesForWhatAnEarlierReleaseDidNotRecord(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.github.Sets[address] = map[int]actions.RunnerScaleSet{1: labelled(1, "set", 1, "set")}
		f.github.Sets[newAddress] = map[int]actions.RunnerScaleSet{2: labelled(2, "set", 1, "set")}
		f.create(newSet(func(s *v1alpha1.AutoscalingRunnerSet) {
			s.Spec.GitHubConfigUrl = newAddress
			s.Finalizers = []string{v1alpha1.FinalizerAutoscalingRunnerSet}
			s.Annotations = map[string]string{formerAnnotation: listedAsFormer(address)}
		}))
		f.delete()
		f.finalizing()
		if left := len(f.github.Sets[address]) + len(f.github.Sets[newAddress]); left > 0 || !f.gone() {
			t.Errorf("gone %t, left on GitHub: %v", f.gone(), f.github.Sets)
		}
	})
}

// TestAnswerThatSaysNothingOfAnotherNameIsNotTheEndOfIt: a scale set of the second name was there before, so GitHub was
// not asked about the first.
func TestAnswerThatSaysNothingOfAnotherNameIsNotTheEndOfIt(t *testing.T) {
	for name, then := range map[string]func(f *fixture){
		"recorded": func(*fixture) {},
		"left":     func(f *fixture) { f.move(newAddress) },
		"deleted":  func(f *fixture) { f.delete() },
		"deleted by the next manager": func(f *fixture) {
			f.restart()
			f.delete()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.github.LoseCreation = true
				f.create(newSet())
				f.reconcile()
				f.github.LoseCreation = false
				f.github.Sets[address][7] = labelled(7, "second", 1, "second")
				f.edit(func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.RunnerScaleSetName = "second" })
				f.events()
				f.reconcile() // asked and answered, not recorded
				then(f)
				f.settle()
				if told := strings.Join(f.events(), "\n"); strings.Count(told,
					`Perhaps left on GitHub: scale set "set" at `+address) != 1 {
					t.Errorf("told:\n%s\nwant once what may be left", told)
				}
			})
		})
	}
}
