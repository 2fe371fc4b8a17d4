package integration

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

// The PAT is in the Secret that the user wrote and in the listener's, and in no other object, log or Event, also when
// GitHub refuses it.
func TestTokenStaysWhereItIsNeeded(t *testing.T) {
	r := rig.Start(t, testkube.Borrow(t), rig.Options{MinRunners: 1})
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

// A server or proxy may send a credential back in any form. Nothing of one in the form that GitHub's installation tokens
// have since April 2026 gets into conditions, Events and logs, while both programs tell what else was answered.
func TestEchoedTokensAreNotTold(t *testing.T) {
	signature := strings.Repeat("Zq3-xV_7", 43)
	payload := base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"github","iat":1775000000,"installation":98765432}`))
	token := "ghs_1234567_eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9." + payload + "." + signature
	r := rig.Start(t, testkube.Borrow(t), rig.Options{GitHub: fakegithub.Options{PATs: []string{token}}})
	forms := map[string]string{
		"plain":   `{"message":"why: Authorization: Bearer ` + token + ` is refused"}`,
		"escaped": `{"message":"why: ` + strings.NewReplacer(".", `\u002e`, "_", `\u005f`).Replace(token) + `"}`,
		"url":     `{"message":"why: https://proxy.example.com/?token=` + strings.ReplaceAll(token, ".", "%2E") + `"}`,
		"middle":  `{"message":"why: …` + token[20:len(token)-20] + `…"}`,
		"nested":  `{"error":"why","details":{"headers":{"Authorization":"Bearer ` + token + `"}}}`,
	}
	for name, body := range forms {
		fault, err := r.GitHub.AddFault(fakegithub.Fault{Endpoint: "registration-token", Status: 403, Body: body})
		if err != nil {
			t.Fatal(err)
		}
		r.InstallSet(name, rig.Values{"githubConfigSecret": rig.Values{"github_token": token}})
		gomega.NewWithT(t).Eventually(func() bool {
			ready := meta.FindStatusCondition(readSet(t, r, name).Status.Conditions, v1alpha1.ConditionCredentialsValid)
			return ready != nil && ready.Status == metav1.ConditionFalse
		}, rig.Patience).Should(gomega.BeTrue(), "%s: the refusal is told", name)
		r.GitHub.RemoveFault(fault)
		r.UninstallSet(name)
	}
	for _, secret := range []string{payload, signature[:24]} {
		seen, err := r.Sightings(t.Context(), secret)
		if err != nil {
			t.Fatal(err)
		}
		told := slices.DeleteFunc(seen, func(where string) bool { return strings.HasPrefix(where, "Secret ") })
		if len(told) > 0 {
			t.Errorf("part of the token can be read in %q", told)
		}
	}
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
