package manager

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/harrier-ci/harrier/github/actions"
)

// The remaining requests are exported together with the time until which the figure is valid.
func TestRateLimitIsShownWithItsReset(t *testing.T) {
	const url = "https://github.com/limit-test"
	limit := &actions.RateLimit{Resource: "core", Remaining: 12, Reset: time.Unix(1700000000, 0)}
	observeGitHub(url, actions.RequestInfo{
		Endpoint:   actions.EndpointRegistrationToken,
		StatusCode: 201,
		RateLimit:  limit,
	})
	if got := testutil.ToFloat64(rateLimitReset.WithLabelValues(url, "core")); got != 1700000000 {
		t.Errorf("the reset is shown as %v, want 1700000000", got)
	}
	forgetGitHub(url)
	if rateLimitReset.DeleteLabelValues(url, "core") {
		t.Error("the series stays though nobody uses the credentials any more")
	}
}

// A token that expires is replaced by one that does not: the alert about the old one must end.
func TestCredentialExpiryGoesWithTheCredential(t *testing.T) {
	const url = "https://github.com/expiry-test"
	t.Cleanup(func() { forgetGitHub(url) })
	asked := actions.RequestInfo{
		Endpoint:     actions.EndpointRegistrationToken,
		StatusCode:   201,
		TokenExpires: time.Unix(1700000000, 0),
	}
	observeGitHub(url, asked)
	// Says nothing about it.
	observeGitHub(url, actions.RequestInfo{Endpoint: actions.EndpointGenerateJITConfig, StatusCode: 200})
	if got := testutil.CollectAndCount(credentialExpiry); got != 1 {
		t.Fatalf("%d series, want 1", got)
	}
	asked.TokenExpires = time.Time{}
	observeGitHub(url, asked)
	if got := testutil.CollectAndCount(credentialExpiry); got != 0 {
		t.Errorf("%d series of a token that does not expire, want none", got)
	}
}
