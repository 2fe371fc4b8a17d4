package autoscalingrunnerset_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/scaleset"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

const newAddress = "https://github.com/new-org"

// wantEvent fails unless an Event with the reason was recorded.
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
			ObjectMeta: metav1.ObjectMeta{Namespace: setNamespace, Name: "busy",
				Labels: map[string]string{v1alpha1.LabelScaleSetName: "set"}},
			Spec: v1alpha1.EphemeralRunnerSpec{GitHubConfigUrl: address, RunnerScaleSetID: 1},
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
		if len(f.github.Sets[address]) != 1 {
			t.Error("the old scale set is gone while a runner of it is busy")
		}

		if err := f.client.Delete(t.Context(), runner); err != nil {
			t.Fatal(err)
		}
		f.settle()
		if len(f.github.Sets[address]) != 0 || len(f.leaving()) > 0 {
			t.Errorf("old scale sets %+v, remembered %v", f.github.Sets[address], f.leaving())
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
		for range 5 { // within statusInterval
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
			// of an earlier version
			s.Annotations = map[string]string{"actions.github.com/former-registrations": `[{"url":"` + newAddress +
				`","id":77}]`}
		})
		f.drained()
		f.settle()
		calls := strings.Join(f.github.Made(), ", ")
		if !strings.Contains(calls, "delete 77") || !strings.Contains(calls, "delete 1") {
			t.Errorf("calls %q, want both scale sets deleted", calls)
		}
	})
}

// The set is deleted before GitHub has answered at its new address, and the manager has just started.
func TestDeletionAfterAMoveThatFailedDeletesWhereItWas(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet())
		f.settle()
		f.listening()
		f.holdDependents()
		f.settle()
		f.github.Fail(errors.New("away"))
		f.move(newAddress)
		f.settle()
		if err := f.client.Delete(t.Context(), f.set()); err != nil {
			t.Fatal(err)
		}
		f.restart()
		f.github.Fail(nil)
		f.drained()
		f.settle()
		if left := f.github.Sets[address]; len(left) > 0 {
			t.Errorf("left at %s: %v", address, left)
		}
	})
}

// busy creates a runner of scale set 1 at the first address.
func (f *fixture) busy() *v1alpha1.EphemeralRunner {
	f.Helper()
	runner := &v1alpha1.EphemeralRunner{
		ObjectMeta: metav1.ObjectMeta{Namespace: setNamespace, Name: "busy",
			Labels: map[string]string{v1alpha1.LabelScaleSetName: "set"}},
		Spec: v1alpha1.EphemeralRunnerSpec{GitHubConfigUrl: address, RunnerScaleSetID: 1},
	}
	f.create(runner)
	return runner
}

func (f *fixture) move(address string) {
	f.Helper()
	f.edit(func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.GitHubConfigUrl = address })
}

// TestWayBackKeepsTheScaleSet: it is no longer a former one, however the set returned to it and whatever is deleted
// then.
func TestWayBackKeepsTheScaleSet(t *testing.T) {
	for name, early := range map[string]bool{"runner ends before the answer": true, "runner ends later": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.create(newSet())
				f.settle()
				runner := f.busy()
				f.move(newAddress)
				f.settle()
				f.move(address)
				if !early {
					f.settle()
				}
				if err := f.client.Delete(t.Context(), runner); err != nil {
					t.Fatal(err)
				}
				f.settle()
				listener, runnerSet := f.listeners()[0], f.runnerSets()[0]
				for _, object := range []client.Object{&listener, &runnerSet} { // as a user does who wants new ones
					if err := f.client.Delete(t.Context(), object); err != nil {
						t.Fatal(err)
					}
				}
				f.settle()
				if calls := f.github.Made(); slices.Contains(calls, "delete 1") {
					t.Errorf("calls %q: the live scale set was deleted", calls)
				}
				if got := f.set().Status.Registration; got.URL != address || got.ID != 1 || len(f.leaving()) > 0 {
					t.Errorf("registration %+v, former %v", got, f.leaving())
				}
			})
		})
	}
}

// TestLiveScaleSetThatIsListedAsFormerStays: earlier versions wrote such lists.
func TestLiveScaleSetThatIsListedAsFormerStays(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.github.Sets[address] = map[int]actions.RunnerScaleSet{1: labelled(1, "renamed", 1, "renamed"),
			2: labelled(2, "set", 2, "set")} // of a group that the set has left
		set := newSet(func(s *v1alpha1.AutoscalingRunnerSet) {
			s.Annotations = map[string]string{"actions.github.com/former-registrations": `[{"url":"` + address +
				`","id":1,"name":"set"},{"url":"` + address + `","id":2}]`}
		})
		f.create(set)
		set.Status.Registration = &v1alpha1.ScaleSetRegistration{URL: address + "/", ID: 1, Name: "renamed"}
		f.updateStatus(set)
		f.github.Fail(errors.New("away"))
		f.settle()
		controllertest.Elapse(time.Minute)
		f.settle()
		f.github.Fail(nil)
		controllertest.Elapse(time.Minute)
		f.settle()
		f.settle()
		if calls := f.github.Made(); slices.Contains(calls, "delete 1") || !slices.Contains(calls, "delete 2") {
			t.Errorf("calls %q, want the live scale set to stay, and the one that a former group had to go", calls)
		}
		if there := f.github.Sets[address]; len(there) != 1 || there[1].Name != setKey.Name {
			t.Errorf("on GitHub: %+v", there)
		}
	})
}

// TestDeletionGivesThePresentScaleSetAttemptsOfItsOwn: the deadline of a former address that can't be reached is not
// the present scale set's.
func TestDeletionGivesThePresentScaleSetAttemptsOfItsOwn(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet())
		f.settle()
		f.listening()
		f.holdDependents()
		f.move(newAddress)
		f.reconcile()
		f.github.Fail(errors.New("the former address is away"))
		f.settle()
		f.settle()
		f.delete()
		f.settle()
		f.stopListener()
		controllertest.Elapse(2 * scaleset.DeregisterTimeout) // the last job ends
		f.settle()
		f.github.Fail(nil)
		f.release(&f.runnerSets()[0])
		f.settle()
		if left := len(f.github.Sets[address]) + len(f.github.Sets[newAddress]); left > 0 {
			t.Errorf("%d scale sets are left, told: %q", left, f.events())
		}
	})
}

// TestFormerScaleSetIsDeletedWithItsOwnSecret: the new organization's credentials are refused at the old one.
func TestFormerScaleSetIsDeletedWithItsOwnSecret(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet())
		f.settle()
		f.github.refusedSecrets = map[string]string{address: "of-new-org"}
		f.edit(func(s *v1alpha1.AutoscalingRunnerSet) {
			s.Spec.GitHubConfigUrl, s.Spec.GitHubConfigSecret = newAddress, "of-new-org"
		})
		f.settle()
		f.settle()
		if len(f.github.Sets[address]) > 0 || len(f.leaving()) > 0 {
			t.Errorf("old scale sets %+v, remembered %v", f.github.Sets[address], f.leaving())
		}
	})
}
