package report

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

func TestKnownReason(t *testing.T) {
	for reason, want := range map[string]string{
		"": "", v1alpha1.ReasonVaultNotAllowed: "VaultNotAllowed", "ImagePullBackOff": "ImagePullBackOff", "OutOfephemeral-storage": "OutOfephemeral-storage",
		"Forged": ReasonOther, "imagepullbackoff": ReasonOther, ReasonOther: ReasonOther, "Ready Read": ReasonOther,
	} {
		if got := KnownReason(reason); got != want {
			t.Errorf("%q became %q, want %q", reason, got, want)
		}
	}
}

// Reasons that somebody wrote into a status don't each bring a limit of their own.
func TestUnknownReasonsShareALimitOfEvents(t *testing.T) {
	fake := events.NewFakeRecorder(10_000)
	recorder := LimitEvents(fake, clocktesting.NewFakePassiveClock(time.Unix(0, 0)))
	set := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "set", UID: "uid"}}
	for i := range 10_000 {
		recorder.Eventf(set, nil, "Warning", fmt.Sprint("Forged", i), "Reconcile", "%s", fmt.Sprint(i))
	}
	if recorded := len(fake.Events); recorded != eventBurst {
		t.Errorf("%d Events, want %d", recorded, eventBurst)
	}
}
