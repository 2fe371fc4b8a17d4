package integration

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

// The PAT is in the Secret that the user wrote and in the listener's, and in no other object, log or Event, also when
// GitHub refuses it.
func TestTokenStaysWhereItIsNeeded(t *testing.T) {
	r := rig.Start(t, testkube.Shared(t), rig.Options{MinRunners: 1})
	awaitIdle(t, r, 1)
	ids := r.QueueJobs(2, 2*time.Second)
	r.AwaitCompleted(ids, 1)
	checkSightings(t, r)

	r.GitHub.RevokePAT(rig.PAT, true)
	r.GitHub.ExpireAdminTokens()
	r.GitHub.ExpireQueueTokens()
	gomega.NewWithT(t).Eventually(func() bool {
		return strings.Contains(r.ManagerLog()+r.ListenerLog(), "401")
	}, rig.Patience).Should(gomega.BeTrue(), "somebody logs that GitHub refuses the token")
	checkSightings(t, r)

	r.GitHub.RevokePAT(rig.PAT, false)
	r.WaitDone(append(ids, r.QueueJobs(1, 0)...))
	r.AwaitQuiet()
	checkSightings(t, r)
}

func checkSightings(t *testing.T, r *rig.Rig) {
	t.Helper()
	seen, err := r.Sightings(t.Context(), rig.PAT)
	if err != nil {
		t.Fatal(err)
	}
	allowed := func(where string) bool {
		return where == "Secret runners-gha-rs-github-secret" ||
			(strings.HasPrefix(where, "Secret ") && strings.HasSuffix(where, "-listener-config"))
	}
	if secrets := slices.DeleteFunc(slices.Clone(seen),
		func(where string) bool { return !allowed(where) }); len(secrets) != 2 {
		t.Errorf("the token should be seen in two Secrets, or else this test can't see: %q", secrets)
	}
	if elsewhere := slices.DeleteFunc(seen, allowed); len(elsewhere) > 0 {
		t.Errorf("the token can be read in %q", elsewhere)
	}
}
