package registrations_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/kube/kinds"
	"github.com/harrier-ci/harrier/internal/registrations"
)

// offlineRunners is a GitHub with registrations that are offline.
type offlineRunners struct {
	registrations.GitHub
	names   []string
	removed []string
}

func (g *offlineRunners) ListOfflineRunners(context.Context, time.Duration) (*actions.OfflineRunners, error) {
	return &actions.OfflineRunners{Names: g.names, ListedAt: time.Now()}, nil
}

func (g *offlineRunners) GetRunnerByName(_ context.Context, name string) (*actions.RunnerReference, error) {
	g.removed = append(g.removed, name)
	return &actions.RunnerReference{ID: len(g.removed), Name: name, RunnerScaleSetID: ourScaleSet}, nil
}

func (g *offlineRunners) RemoveRunner(context.Context, int) error { return nil }

// Strays are registrations with names that only the set gives and that no runner has. GitHub ignores the case of names.
// The tests of the runner set's controller have the rest.
func TestNamesOfStrays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		github := &offlineRunners{names: []string{
			"set-runner-bbbbb", "SET-runner-aaaaa", "set-runner-known", "sets-runner-aaaaa", "other", "set-runner-bbbbb",
		}}
		set := &v1alpha1.EphemeralRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: "runners", Name: "set"}}
		set.Spec.EphemeralRunnerSpec.RunnerScaleSetID = ourScaleSet
		set.Status.Listener = &v1alpha1.ListenerStatus{StrayRegistrations: 2}
		known := &v1alpha1.EphemeralRunner{ObjectMeta: metav1.ObjectMeta{Namespace: "runners", Name: "set-runner-known"}}
		options := inBackground(t, github)
		options.Reader = fake.NewClientBuilder().WithScheme(kinds.Scheme()).WithObjects(known).Build()
		options.Recorder = events.NewFakeRecorder(10)
		strays, memory := registrations.NewStrays(options), &registrations.StrayMemory{}
		for range 2 { // lists, of which the second one confirms the first
			for range 3 { // list, removals, Event
				strays.Remove(t.Context(), set, memory)
				synctest.Wait()
			}
			<-time.After(5 * time.Minute)
		}
		if diff := cmp.Diff(
			[]string{"set-runner-aaaaa", "set-runner-bbbbb"}, slices.Sorted(slices.Values(github.removed)),
		); diff != "" {
			t.Errorf("removed (-want +got):\n%s", diff)
		}
	})
}
