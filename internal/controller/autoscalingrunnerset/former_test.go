package autoscalingrunnerset

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

const newAddress = "https://github.com/new-org"

// wantEvent fails unless an Event with the reason was told.
func wantEvent(t *testing.T, told []string, reason string) {
	t.Helper()
	for _, event := range told {
		if strings.Contains(event, " "+reason+" ") {
			return
		}
	}
	t.Errorf("no Event with reason %s among %q", reason, told)
}

func TestNewAddressMovesTheScaleSet(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet())
		f.settle()
		runner := &v1alpha1.EphemeralRunner{
			ObjectMeta: metav1.ObjectMeta{Namespace: setNamespace, Name: "busy", Labels: map[string]string{v1alpha1.LabelScaleSetName: "set"}},
			Spec:       v1alpha1.EphemeralRunnerSpec{GitHubConfigUrl: address, RunnerScaleSetID: 1},
		}
		f.create(runner)
		f.edit(func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.GitHubConfigUrl = newAddress + "/" })
		f.settle()
		set := f.set()
		if got := set.Status.Registration; got.URL != newAddress || got.ID != 2 {
			t.Errorf("registration = %+v, want scale set 2 at %s", got, newAddress)
		}
		if set.Labels[v1alpha1.LabelOrganization] != "new-org" || f.listeners()[0].Spec.RunnerScaleSetID != 2 {
			t.Errorf("labels %v, listener at %d", set.Labels, f.listeners()[0].Spec.RunnerScaleSetID)
		}
		if len(f.github.sets[address]) != 1 {
			t.Error("the old scale set is gone while a runner of it is busy")
		}

		if err := f.client.Delete(t.Context(), runner); err != nil {
			t.Fatal(err)
		}
		f.settle()
		if len(f.github.sets[address]) != 0 || len(formerOf(f.set())) > 0 {
			t.Errorf("old scale sets %+v, remembered %v", f.github.sets[address], formerOf(f.set()))
		}
		wantEvent(t, f.events(), "ScaleSetDeleted")
	})
}

func TestMoveIsToldOnce(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet())
		f.settle()
		f.events()
		f.edit(func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.GitHubConfigUrl = newAddress })
		for range 5 { // before the pause between two writes of the status is over
			f.reconcile()
			synctest.Wait()
		}
		f.settle()
		told := slices.DeleteFunc(f.events(), func(event string) bool { return !strings.Contains(event, newAddress) })
		if len(told) != 1 {
			t.Errorf("Events about the new address: %q, want one", told)
		}
	})
}

func TestDeletionTakesFormerRegistrationsAlong(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.deletable()
		f.edit(func(s *v1alpha1.AutoscalingRunnerSet) {
			setFormer(s, []v1alpha1.ScaleSetRegistration{{URL: newAddress, ID: 77}})
		})
		f.drained()
		f.settle()
		calls := strings.Join(f.github.made(), ", ")
		if !strings.Contains(calls, "delete 77") || !strings.Contains(calls, "delete 1") {
			t.Errorf("calls %q, want both scale sets deleted", calls)
		}
	})
}

func TestUnreadableMemoryOfFormerRegistrationsIsNone(t *testing.T) {
	set := newSet(func(s *v1alpha1.AutoscalingRunnerSet) { s.Annotations = map[string]string{annotationFormer: "{"} })
	if former := formerOf(set); former != nil {
		t.Errorf("formerOf() = %v", former)
	}
}

func TestFormerRegistrationIsRememberedOnce(t *testing.T) {
	set := newSet()
	first, second := v1alpha1.ScaleSetRegistration{URL: newAddress, ID: 1}, v1alpha1.ScaleSetRegistration{URL: newAddress, ID: 2}
	for _, registration := range []v1alpha1.ScaleSetRegistration{first, second, second, first} {
		addFormer(set, registration)
	}
	if former := formerOf(set); len(former) != 2 {
		t.Errorf("former registrations %v, want two", former)
	}
}
