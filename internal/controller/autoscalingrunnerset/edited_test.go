package autoscalingrunnerset

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// elsewhere is an address that the set never had.
const elsewhere = "https://example.com/x"

// editStatus changes the registration as somebody would who may write the status.
func (f *fixture) editStatus() {
	f.Helper()
	set := f.set()
	set.Status.Registration = &v1alpha1.ScaleSetRegistration{URL: elsewhere, ID: 99999, Name: "x"}
	f.updateStatus(set)
}

// wantNothingElsewhere fails if credentials were sent to the address, or nobody was told why not.
func (f *fixture) wantNothingElsewhere() {
	f.Helper()
	if asked := f.github.sets[elsewhere]; asked != nil {
		f.Errorf("credentials were sent to %s", elsewhere)
	}
	if len(formerOf(f.set())) > 0 {
		f.Errorf("former registrations %v, want none", formerOf(f.set()))
	}
	told := f.events()
	if !strings.Contains(strings.Join(told, "\n"), "ScaleSetLeftOnGitHub Not deleted: ") {
		f.Errorf("told %q, want what was left out", told)
	}
}

func TestEditedRegistrationIsNoFormerOne(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet())
		f.settle()
		f.editStatus()
		f.settle()
		f.settle()
		f.wantNothingElsewhere()
		if got := f.set().Status.Registration; got.URL != address || got.ID != 1 {
			t.Errorf("registration = %+v, want the real one back", got)
		}
	})
}

func TestEditedRegistrationIsNotDeregistered(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.deletable()
		f.drained()
		f.editStatus()
		f.settle()
		f.wantNothingElsewhere()
		f.release(&f.listeners()[0])
		f.settle()
		if !f.gone() {
			t.Error("the set waits for a deregistration that won't come")
		}
	})
}

// TestNamesThatNoObjectHasHoldNoDeletionUp: the API server's client refuses to ask for them.
func TestNamesThatNoObjectHasHoldNoDeletionUp(t *testing.T) {
	set := newSet(func(s *v1alpha1.AutoscalingRunnerSet) {
		s.Annotations = map[string]string{
			v1alpha1.AnnotationCleanupPrefix + "github-secret-name":   "../../x",
			v1alpha1.AnnotationCleanupPrefix + "manager-role-name":    "A b",
			v1alpha1.AnnotationCleanupPrefix + "manager-role-binding": " binding ",
		}
	})
	if objects := protected(set); len(objects) != 1 || objects[0].GetName() != "binding" {
		t.Errorf("objects %v, want the one that can be there", objects)
	}
}

func TestObjectThatCannotBeStrippedIsNamedByItsKind(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.intercept.Patch = func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return errors.New("away")
		}
		f.restart(nil)
		secret := &corev1.Secret{}
		secret.Namespace, secret.Name = setNamespace, "github"
		const want = "strip actions.github.com/cleanup-protection from Secret arc-runners/github: away"
		if err := f.controller.unprotect(t.Context(), secret); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	})
}
