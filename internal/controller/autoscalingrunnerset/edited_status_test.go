package autoscalingrunnerset_test

import (
	"strings"
	"testing"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// elsewhere is an address at which the set never was.
const elsewhere = "https://example.com/x"

// editStatus changes the registration as somebody can who may write the status.
func (f *fixture) editStatus() {
	f.Helper()
	set := f.set()
	set.Status.Registration = &v1alpha1.ScaleSetRegistration{URL: elsewhere, ID: 99999, Name: "x"}
	f.updateStatus(set)
}

// wantNothingElsewhere fails if credentials were sent to the address, or no Event says why not.
func (f *fixture) wantNothingElsewhere() {
	f.Helper()
	if asked := f.github.Sets[elsewhere]; asked != nil {
		f.Errorf("credentials were sent to %s", elsewhere)
	}
	if len(f.leaving()) > 0 {
		f.Errorf("former registrations %v, want none", f.leaving())
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
