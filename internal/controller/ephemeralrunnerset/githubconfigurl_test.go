package ephemeralrunnerset

import (
	"context"
	"slices"
	"testing"
	"time"
	"unique"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/credentials"
)

// What happens to runners when githubConfigUrl changes: the new GitHub knows none of the old one's, and would answer for each
// that it is removed.

// outcome is what was planned for the set's only runner, and when.
type outcome struct {
	after time.Duration
	what  string
}

// outcomeOf plans every 15 s for the length of the longest pause, and publishes a figure each time.
func (s *scenario) outcomeOf() outcome {
	for began := s.now; s.now.Sub(began) <= askWorkingPeriod+heldTimeout; s.later(15 * time.Second).publish(s.want.replicas) {
		p := s.pass()
		for what, list := range map[string][]*runnerView{
			"delete": p.with(actionDelete), "delete unregistered": p.with(actionDeleteUnregistered), "deregister": p.with(actionDeregister), "look up": p.with(actionLookUp),
		} {
			if len(list) == 1 {
				return outcome{s.now.Sub(began), what}
			}
		}
	}
	return outcome{what: "nothing"}
}

func TestRunnerOfAFormerAddress(t *testing.T) {
	shaped := func(shape runnerView, registration int, template string) runnerView {
		shape.registrationID, shape.template = registration, template
		return shape
	}
	for name, test := range map[string]struct {
		shape runnerView
		want  outcome // elsewhere
		here  outcome // the same runner at the set's own address
	}{
		"not registered":  {shaped(starting, 0, "former"), outcome{what: "delete unregistered"}, outcome{what: "delete unregistered"}},
		"registered":      {shaped(starting, 7, "former"), outcome{what: "delete"}, outcome{what: "deregister"}},
		"idle":            {shaped(idle, 7, "former"), outcome{what: "delete"}, outcome{what: "deregister"}},
		"idle, ARC's":     {shaped(idle, 7, ""), outcome{what: "delete"}, outcome{idlePatience, "look up"}},
		"busy":            {shaped(busyOne, 7, "former"), outcome{askWorkingPeriod, "delete"}, outcome{askWorkingPeriod, "look up"}},
		"completed":       {shaped(lingering, 7, "former"), outcome{lingerPatience, "delete"}, outcome{lingerPatience, "deregister"}},
		"failed in a job": {shaped(failedJob, 7, "former"), outcome{what: "delete"}, outcome{what: "deregister"}},
	} {
		t.Run(name, func(t *testing.T) {
			for where, want := range map[string]outcome{"https://github.com/old": test.want, "https://github.com/new": test.here} {
				s := newScenario(1)
				s.history.configURL = unique.Make("https://github.com/new")
				shape := test.shape
				shape.configURL = unique.Make(where)
				s.add(1, shape)
				if got := s.outcomeOf(); got != want {
					t.Errorf("registered at %s: %v, want %v", where, got, want)
				}
			}
		})
	}
}

// moveSet gives the set another address or Secret.
func (f *fixture) moveSet(change func(*v1alpha1.EphemeralRunnerSpec)) {
	f.Helper()
	set := f.set()
	change(&set.Spec.EphemeralRunnerSpec)
	if err := f.api.Update(f.Context(), set); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) runner(name string) *v1alpha1.EphemeralRunner {
	f.Helper()
	r := &v1alpha1.EphemeralRunner{}
	if err := f.api.Get(f.Context(), runnerKey(name), r); err != nil {
		f.Fatal(err)
	}
	return r
}

// The runner's own finalization asks the GitHub at which it is registered: a note that it need not ask would be wrong.
func TestMovedSetAsksOnlyWhereItsRunnersAreRegistered(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*v1alpha1.EphemeralRunnerSpec)
		asked  []string
	}{
		"to another organization": {
			change: func(spec *v1alpha1.EphemeralRunnerSpec) {
				spec.GitHubConfigUrl, spec.GitHubConfigSecret = "https://github.com/new", "new-secret"
			},
		},
		"to another Secret": {
			change: func(spec *v1alpha1.EphemeralRunnerSpec) { spec.GitHubConfigSecret = "new-secret" },
			asked:  []string{"https://github.com/old with new-secret"},
		},
		"to another spelling": {
			change: func(spec *v1alpha1.EphemeralRunnerSpec) { spec.GitHubConfigUrl += "/" },
			asked:  []string{"https://github.com/old/ with old-secret"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				var asked []string
				f.controller.questions.github = func(_ context.Context, r credentials.Reference) (GitHub, error) {
					asked = append(asked, r.GitHubConfigURL+" with "+r.GitHubConfigSecret)
					return f, nil
				}
				f.reconcile()
				f.bringUp()
				f.reconcile()
				first := f.runners()[0].Name
				f.moveSet(test.change)
				f.reconcile()
				controllertest.Elapse(deletionSeenTimeout)
				f.reconcile()
				if !slices.Equal(asked, test.asked) {
					t.Errorf("GitHub was asked at %q, want %q", asked, test.asked)
				}
				if r := f.runner(first); r.DeletionTimestamp == nil || f.removed.Has(r.UID, r.Status.RunnerID) != (len(test.asked) > 0) {
					t.Errorf("deleted: %t, noted as removed: %t", r.DeletionTimestamp != nil, f.removed.Has(r.UID, r.Status.RunnerID))
				}
			}, newSet(1, func(set *v1alpha1.EphemeralRunnerSet) {
				set.Spec.EphemeralRunnerSpec.GitHubConfigUrl = "https://github.com/old"
				set.Spec.EphemeralRunnerSpec.GitHubConfigSecret = "old-secret"
			}))
		})
	}
}

func TestSpellingsOfOnePlace(t *testing.T) {
	at := func(url string) configURL { return configURLOf(&v1alpha1.EphemeralRunnerSpec{GitHubConfigUrl: url}) }
	for _, same := range []string{"https://github.com/My-Org/", " https://GitHub.com/my-org"} {
		if at(same) != at("https://github.com/my-org") {
			t.Errorf("%q is another address", same)
		}
	}
	if at("https://github.com/my-org/repo") == at("https://github.com/my-org") {
		t.Error("a repository is its organization")
	}
}
