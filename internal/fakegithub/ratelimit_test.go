package fakegithub_test

import (
	"strconv"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/harrier-ci/harrier/internal/fakegithub"
)

const registrationToken = "/api/v3/orgs/acme/actions/runners/registration-token"

// GitHub says with every answer of the REST API what a credential may still do, and refuses what goes beyond it until
// the hour is over.
func TestRateLimit(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	c := newClient(t, fakegithub.Options{Clock: clock, RegistrationLimit: 5, PATExpires: clock.Now().AddDate(0, 1, 0)})
	ask := func(pat string) answer { return c.do("POST", c.base+registrationToken, "Bearer "+pat, nil) }
	checkHeaders(t, ask("pat"), map[string]string{
		"X-RateLimit-Limit": "5", "X-RateLimit-Used": "2", "X-RateLimit-Remaining": "3",
		"X-RateLimit-Resource":                   "actions_runner_registration",
		"X-RateLimit-Reset":                      strconv.FormatInt(clock.Now().Add(time.Hour).Unix(), 10),
		"GitHub-Authentication-Token-Expiration": "2026-04-01 12:00:00 UTC",
	})
	checkHeaders(t, ask("other"), map[string]string{"X-RateLimit-Remaining": "4"})
	for range 3 {
		c.want(201, ask("pat"), nil)
	}
	refused := ask("pat")
	c.want(403, refused, nil)
	checkHeaders(t, refused, map[string]string{"X-RateLimit-Remaining": "0"})
	c.want(201, ask("other"), nil)
	clock.Step(time.Hour)
	c.want(201, ask("pat"), nil)
}

func checkHeaders(t *testing.T, got answer, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if got.header.Get(name) != value {
			t.Errorf("%s is %q, want %q", name, got.header.Get(name), value)
		}
	}
}
