package manager

import (
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

// These tests are inside of the package: the other door is a call to GitHub by a whole manager.

// series returns the values of a metric of the manager's about a config URL.
func series(t *testing.T, name, url string) (values []float64) {
	t.Helper()
	for _, of := range controllertest.Series(t, name, prometheus.Labels{"github_config_url": url}) {
		values = append(values, of.GetGauge().GetValue())
	}
	return values
}

// The remaining requests are exported together with the time until which the figure is valid.
func TestRateLimitIsShownWithItsReset(t *testing.T) {
	const url = "https://github.com/limit-test"
	limit := &actions.RateLimit{Resource: "core", Remaining: 12, Reset: time.Unix(1700000000, 0)}
	observeGitHub(url, actions.RequestInfo{
		Endpoint:   actions.EndpointRegistrationToken,
		StatusCode: 201,
		RateLimit:  limit,
	})
	const reset, remaining = "gha_controller_github_rate_limit_reset_timestamp_seconds",
		"gha_controller_github_rate_limit_remaining"
	if got := series(t, reset, url); !slices.Equal(got, []float64{1700000000}) {
		t.Errorf("the reset is shown as %v, want 1700000000", got)
	}
	if got := series(t, remaining, url); !slices.Equal(got, []float64{12}) {
		t.Errorf("%v requests remain, want 12", got)
	}
	forgetGitHub(url)
	if left := append(series(t, reset, url), series(t, remaining, url)...); len(left) > 0 {
		t.Errorf("series %v stay though nobody uses the credentials any more", left)
	}
}

// A token that expires is replaced by a token that does not: the alert about the old one must end.
func TestCredentialExpiryGoesWithTheCredential(t *testing.T) {
	const url, expiry = "https://github.com/expiry-test", "gha_controller_credential_expiry_timestamp_seconds"
	t.Cleanup(func() { forgetGitHub(url) })
	asked := actions.RequestInfo{
		Endpoint:     actions.EndpointRegistrationToken,
		StatusCode:   201,
		TokenExpires: time.Unix(1700000000, 0),
	}
	observeGitHub(url, asked)
	// Says nothing about it.
	observeGitHub(url, actions.RequestInfo{Endpoint: actions.EndpointGenerateJITConfig, StatusCode: 200})
	if got := series(t, expiry, url); !slices.Equal(got, []float64{1700000000}) {
		t.Fatalf("series %v, want 1700000000", got)
	}
	asked.TokenExpires = time.Time{}
	observeGitHub(url, asked)
	if got := series(t, expiry, url); len(got) != 0 {
		t.Errorf("series %v of a token that does not expire, want none", got)
	}
}
