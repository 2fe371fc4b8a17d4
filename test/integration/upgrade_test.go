package integration

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

// helm upgrade --wait reports whether GitHub accepts the credentials in the values, and rolls them back if it doesn't.
// Meanwhile a job runs, and the listener keeps its session. Afterwards further jobs run.
func TestAnUpgradeWaitsForItsCredentials(t *testing.T) {
	const next = "ghp_theTokenAfterTheUpgrade0123456789abc"
	r := rig.Start(t, testkube.Borrow(t),
		rig.Options{GitHub: fakegithub.Options{PATs: []string{next}, PollLength: 3 * time.Second}})
	running := r.QueueJobs(1, rig.Held)
	awaitTrue(t, r, rig.DefaultSet, v1alpha1.ConditionReady)
	listener, sessions := r.ListenerPod(), r.GitHub.Snapshot().Sessions
	upgrade := func(values rig.Values) error {
		return r.AttemptUpgrade(rig.DefaultSet, values, "--wait", "--rollback-on-failure", "--timeout", "30s")
	}
	for says, wrong := range map[string]rig.Values{
		"whoever wrote the Secret must check": {"githubConfigSecret": rig.Values{"github_token": "ghp_wrong"}},
		"runner group not found":              {"runnerGroup": "nobody"},
		"single sign-on: https://":            {"githubConfigSecret": rig.Values{"github_token": next}},
	} {
		fault, err := r.GitHub.AddFault(fakegithub.Fault{Endpoint: "registration-token", Status: 403,
			Body: `{"message":"Resource protected by organization SAML enforcement."}`,
			Headers: map[string]string{"X-GitHub-SSO": "required; url=https://" + strings.TrimPrefix(r.GitHubURL, "http://") +
				"/orgs/org/sso?authorization_request=A1"}})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(says, "single") {
			r.GitHub.RemoveFault(fault)
		}
		if err := upgrade(wrong); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("the upgrade fails with %v, want %s", err, says)
		}
		r.GitHub.RemoveFault(fault)
		awaitTrue(t, r, rig.DefaultSet, v1alpha1.ConditionReady) // rolled back
	}
	if after := r.GitHub.Snapshot().Sessions; len(after) != len(sessions) || after[0].ID != sessions[0].ID {
		t.Errorf("the listener lost its session: %v, then %v", sessions, after)
	}
	if err := upgrade(rig.Values{"githubConfigSecret": rig.Values{"github_token": next}}); err != nil {
		t.Errorf("with a good token the upgrade fails: %v", err)
	}
	if set := readSet(t, r, rig.DefaultSet); !meta.IsStatusConditionTrue(set.Status.Conditions,
		v1alpha1.ConditionCredentialsValid) {
		t.Error("it succeeds before GitHub has accepted the token")
	}
	r.GitHub.RevokePAT(rig.PAT, true)
	r.GitHub.ExpireAdminTokens()
	r.EndJobs(running)
	r.WaitDone(r.QueueJobs(1, 0))
	if after := r.ListenerPod(); after == nil || after.UID != listener.UID {
		t.Error("the listener was replaced")
	}
}
