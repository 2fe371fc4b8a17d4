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

// What becomes of runners when githubConfigUrl moves: the new GitHub knows none of the old one's, and takes each for
// removed.

// outcome is what was planned about the only runner of a set, and when.
type outcome struct {
	after time.Duration
	what  string
}

// outcomeOf looks every 15 s for as long as any pause lasts, and publishes a figure each time.
func (h *history) outcomeOf() outcome {
	for began := h.now; h.now.Sub(began) <= workingAsk+heldAtMost; h.later(15 * time.Second).publish(h.want.replicas) {
		p := h.pass()
		for what, list := range map[string][]*runner{
			"drop": p.drop, "drop unless seen": p.dropUnseen, "remove": p.remove, "look up": p.lookUp,
		} {
			if len(list) == 1 {
				return outcome{h.now.Sub(began), what}
			}
		}
	}
	return outcome{what: "nothing"}
}

func TestRunnerOfAFormerAddress(t *testing.T) {
	shaped := func(shape runner, registration int, template string) runner {
		shape.registration, shape.template = registration, template
		return shape
	}
	for name, test := range map[string]struct {
		shape runner
		want  outcome // elsewhere
		here  outcome // the same runner where the set is
	}{
		"not registered":  {shaped(starting, 0, "former"), outcome{what: "drop unless seen"}, outcome{what: "drop unless seen"}},
		"registered":      {shaped(starting, 7, "former"), outcome{what: "drop"}, outcome{what: "remove"}},
		"idle":            {shaped(idle, 7, "former"), outcome{what: "drop"}, outcome{what: "remove"}},
		"idle, ARC's":     {shaped(idle, 7, ""), outcome{what: "drop"}, outcome{idlePatience, "look up"}},
		"busy":            {shaped(busyOne, 7, "former"), outcome{workingAsk, "drop"}, outcome{workingAsk, "look up"}},
		"completed":       {shaped(lingering, 7, "former"), outcome{lingerPatience, "drop"}, outcome{lingerPatience, "remove"}},
		"failed in a job": {shaped(failedJob, 7, "former"), outcome{what: "drop"}, outcome{what: "remove"}},
	} {
		t.Run(name, func(t *testing.T) {
			for where, want := range map[string]outcome{"https://github.com/old": test.want, "https://github.com/new": test.here} {
				h := newHistory(1)
				h.memory.place = unique.Make("https://github.com/new")
				shape := test.shape
				shape.place = unique.Make(where)
				h.add(1, shape)
				if got := h.outcomeOf(); got != want {
					t.Errorf("registered at %s: %v, want %v", where, got, want)
				}
			}
		})
	}
}

// moveSet has the user give the set another address or Secret.
func (s *site) moveSet(change func(*v1alpha1.EphemeralRunnerSpec)) {
	s.Helper()
	set := s.set()
	change(&set.Spec.EphemeralRunnerSpec)
	if err := s.api.Update(s.Context(), set); err != nil {
		s.Fatal(err)
	}
}

func (s *site) runner(name string) *v1alpha1.EphemeralRunner {
	s.Helper()
	r := &v1alpha1.EphemeralRunner{}
	if err := s.api.Get(s.Context(), runnerKey(name), r); err != nil {
		s.Fatal(err)
	}
	return r
}

// The runner goes by its own finalization, which asks its own GitHub: nothing may be noted that says that it need not.
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
			inBubble(t, func(s *site) {
				var asked []string
				s.controller.questions.github = func(_ context.Context, r credentials.Reference) (GitHub, error) {
					asked = append(asked, r.GitHubConfigURL+" with "+r.GitHubConfigSecret)
					return s, nil
				}
				s.reconcile()
				s.bringUp()
				s.reconcile()
				first := s.runners()[0].Name
				s.moveSet(test.change)
				s.reconcile()
				controllertest.Elapse(droppedAtMost)
				s.reconcile()
				if !slices.Equal(asked, test.asked) {
					t.Errorf("GitHub was asked at %q, want %q", asked, test.asked)
				}
				if r := s.runner(first); r.DeletionTimestamp == nil || s.removed.Has(r.UID, r.Status.RunnerID) != (len(test.asked) > 0) {
					t.Errorf("deleted: %t, noted as removed: %t", r.DeletionTimestamp != nil, s.removed.Has(r.UID, r.Status.RunnerID))
				}
			}, newSet(1, func(set *v1alpha1.EphemeralRunnerSet) {
				set.Spec.EphemeralRunnerSpec.GitHubConfigUrl = "https://github.com/old"
				set.Spec.EphemeralRunnerSpec.GitHubConfigSecret = "old-secret"
			}))
		})
	}
}

func TestSpellingsOfOnePlace(t *testing.T) {
	at := func(url string) place { return placeOf(&v1alpha1.EphemeralRunnerSpec{GitHubConfigUrl: url}) }
	for _, same := range []string{"https://github.com/My-Org/", " https://GitHub.com/my-org"} {
		if at(same) != at("https://github.com/my-org") {
			t.Errorf("%q is another place", same)
		}
	}
	if at("https://github.com/my-org/repo") == at("https://github.com/my-org") {
		t.Error("a repository is its organization")
	}
}
