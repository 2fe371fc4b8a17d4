package report_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

func TestKnownReason(t *testing.T) {
	for reason, want := range map[string]string{
		"": "", v1alpha1.ReasonVaultNotAllowed: "VaultNotAllowed", "ImagePullBackOff": "ImagePullBackOff",
		"OutOfephemeral-storage": "OutOfephemeral-storage",
		"Forged":                 "Other", "imagepullbackoff": "Other", "Other": "Other",
		"Ready Read": "Other",
	} {
		if got := report.KnownReason(reason); got != want {
			t.Errorf("%q became %q, want %q", reason, got, want)
		}
	}
}

// Reasons that somebody wrote into a status don't each bring a limit of their own.
func TestUnknownReasonsShareALimitOfEvents(t *testing.T) {
	fake := events.NewFakeRecorder(10_000)
	recorder := report.LimitEvents(fake, clocktesting.NewFakePassiveClock(time.Unix(0, 0)))
	set := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "set", UID: "uid"}}
	for i := range 10_000 {
		recorder.Eventf(set, nil, "Warning", fmt.Sprint("Forged", i), "Reconcile", "%s", fmt.Sprint(i))
	}
	if recorded := len(fake.Events); recorded != burst {
		t.Errorf("%d Events, want %d", recorded, burst)
	}
}

// The classes of GitHub's refusals are reasons of the API: for each there is a constant with its word.
func TestRefusalsHaveReasons(t *testing.T) {
	want := sets.New(
		v1alpha1.ReasonUnauthorized, v1alpha1.ReasonTokenExpired, v1alpha1.ReasonSuspended,
		v1alpha1.ReasonIPAddressNotAllowed, v1alpha1.ReasonSingleSignOnRequired, v1alpha1.ReasonPermissionMissing,
		v1alpha1.ReasonTokenForbidden, v1alpha1.ReasonClockSkewed, v1alpha1.ReasonAppNotFound,
		v1alpha1.ReasonRunnersDisabled, v1alpha1.ReasonRepositoryUnavailable, v1alpha1.ReasonAccountUnavailable,
		v1alpha1.ReasonNotFoundOrHidden, v1alpha1.ReasonTooManyFailedLogins,
	)
	got := sets.New[string]()
	for _, class := range actions.RefusalClasses() {
		got.Insert(string(class))
	}
	if !got.Equal(want) {
		t.Errorf("without a constant: %v; without a class: %v", got.Difference(want), want.Difference(got))
	}
	for reason := range want {
		if report.KnownReason(reason) != reason || !actions.RefusalClass(reason).IsKnown() {
			t.Errorf("%s is unknown", reason)
		}
	}
	if actions.RefusalClass(v1alpha1.ReasonCredentialsMissing).IsKnown() {
		t.Error("a missing Secret is no refusal")
	}
}
