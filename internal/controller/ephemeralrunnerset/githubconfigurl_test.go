package ephemeralrunnerset_test

import (
	"slices"
	"testing"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/registrations"
)

// What happens to runners when githubConfigUrl changes: the new GitHub knows none of the old one's, and would answer
// for each that it is removed.

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

// The runner's own finalization asks the GitHub at which it is registered: a record that it need not ask would be
// wrong.
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
				f.github = func(r credentials.Reference) registrations.GitHub {
					asked = append(asked, r.GitHubConfigURL+" with "+r.GitHubConfigSecret)
					return f
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
				if r := f.runner(first); r.DeletionTimestamp == nil ||
					f.deregistered(r.UID, r.Status.RunnerID) != (len(test.asked) > 0) {
					t.Errorf("deleted: %t, noted as removed: %t", r.DeletionTimestamp != nil,
						f.deregistered(r.UID, r.Status.RunnerID))
				}
			}, newSet(1, func(set *v1alpha1.EphemeralRunnerSet) {
				set.Spec.EphemeralRunnerSpec.GitHubConfigUrl = "https://github.com/old"
				set.Spec.EphemeralRunnerSpec.GitHubConfigSecret = "old-secret"
			}))
		})
	}
}
