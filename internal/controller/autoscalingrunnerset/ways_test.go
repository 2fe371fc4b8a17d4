package autoscalingrunnerset_test

import (
	"context"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/scaleset"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/credentials"
)

// held returns the ways by which scale sets are recorded to be held.
func (f *fixture) held() (ways []string) {
	f.Helper()
	var leases coordinationv1.LeaseList
	if err := f.client.List(f.Context(), &leases); err != nil {
		f.Fatal(err)
	}
	for i := range leases.Items {
		ways = append(ways, leases.Items[i].Annotations["actions.github.com/reached-by"])
	}
	return ways
}

// TestMoveToAnotherNamespaceKeepsTheQueue: the set is installed in its new namespace, told that the scale set is in use,
// and gets it, with its queue, when the old one is uninstalled.
func TestMoveToAnotherNamespaceKeepsTheQueue(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet())
		f.settle()
		moved := types.NamespacedName{Namespace: "new-home", Name: "set"}
		f.create(newSet(func(s *v1alpha1.AutoscalingRunnerSet) {
			s.Namespace, s.UID = moved.Namespace, "moved-uid"
			s.Labels[v1alpha1.LabelScaleSetNamespace] = moved.Namespace
		}))
		pass := func(times int) *v1alpha1.AutoscalingRunnerSet {
			for range times {
				controllertest.Reconcile(f, f.controller, moved)
				controllertest.Reconcile(f, f.controller, setKey)
				controllertest.Elapse(2 * statusInterval)
				f.finalizeListeners()
			}
			set := &v1alpha1.AutoscalingRunnerSet{}
			controllertest.Read(f, f.client, moved, set)
			return set
		}
		told := pass(5)
		controllertest.WantCondition(f, told.Status.Conditions, v1alpha1.ConditionStalled, metav1.ConditionTrue,
			v1alpha1.ReasonScaleSetInUse)
		if stalled := meta.FindStatusCondition(told.Status.Conditions, v1alpha1.ConditionStalled); strings.Contains(
			stalled.Message, setNamespace) {
			t.Errorf("the second one is told of another's namespace: %s", stalled.Message)
		}
		f.delete()
		if got := pass(10).Status.Registration; got == nil || got.ID != 1 || !f.gone() {
			t.Errorf("registration %+v, the old set is gone: %t", got, f.gone())
		}
	})
}

// TestChangedCertificatesDrainNothing: the record of who holds the scale set moves to the new way.
func TestChangedCertificatesDrainNothing(t *testing.T) {
	inBubble(t, func(f *fixture) {
		ways := &changingWay{fakeGitHub: f.github}
		f.way.Connections = ways
		f.working()
		before := f.runnerSets()[0].UID
		ways.roots = "-----BEGIN CERTIFICATE-----\nbmV3\n-----END CERTIFICATE-----\n"
		f.edit(func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.GitHubServerTLS = &v1alpha1.TLSConfig{} })
		f.settle()
		if held := f.held(); len(held) != 1 || !strings.Contains(held[0], "with certificates") {
			t.Errorf("records %q, want one by the new way", held)
		}
		if sets := f.runnerSets(); len(sets) != 1 || sets[0].UID != before || sets[0].DeletionTimestamp != nil ||
			len(f.listeners()) != 1 || f.set().Status.Registration.ID != 1 {
			t.Errorf("runner sets %+v, registration %+v", sets, f.set().Status.Registration)
		}
	})
}

// changingWay reaches GitHub with certificates that may change.
type changingWay struct {
	*fakeGitHub
	roots string
}

func (g *changingWay) Resolve(
	ctx context.Context, reference credentials.Reference, afresh bool,
) (*credentials.Resolved, error) {
	resolved, err := g.fakeGitHub.Resolve(ctx, reference, afresh)
	if err == nil {
		resolved.RootCAs = g.roots
	}
	return resolved, err
}

func (g *changingWay) GitHub(ctx context.Context, reference credentials.Reference) (scaleset.GitHub, error) {
	github, err := g.fakeGitHub.GitHub(ctx, reference)
	if err != nil {
		return nil, err
	}
	return byWay{github, credentials.WayTo(reference.GitHubConfigURL, reference.Namespace, g.roots)}, nil
}

type byWay struct {
	scaleset.GitHub
	way credentials.Way
}

func (g byWay) Way() credentials.Way { return g.way }

// TestUninstallSparesWhatAnotherClusterListensTo: both clusters were restored from one backup.
func TestUninstallSparesWhatAnotherClusterListensTo(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.working()
		f.github.Sessions = map[int]bool{1: true}
		f.delete()
		for range 60 {
			f.settle()
		}
		if len(f.github.Sets[address]) != 1 || !f.gone() {
			t.Errorf("gone %t, on GitHub %+v, want the scale set kept", f.gone(), f.github.Sets[address])
		}
		if events := strings.Join(f.events(), "\n"); !strings.Contains(events, "somebody else listens to it") {
			t.Errorf("events %s", events)
		}
		if held := f.held(); len(held) > 0 {
			t.Errorf("records %q stay", held)
		}
	})
}

// TestRecordsOfASetWithoutFinalizerGo: somebody has removed it.
func TestRecordsOfASetWithoutFinalizerGo(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet())
		f.settle()
		f.edit(func(s *v1alpha1.AutoscalingRunnerSet) { s.Finalizers = nil })
		f.delete()
		f.reconcile()
		if held := f.held(); len(held) > 0 || !f.gone() {
			t.Errorf("gone %t, records %q", f.gone(), held)
		}
	})
}
