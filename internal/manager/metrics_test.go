package manager

import (
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/setmetrics"
)

// These tests are inside of the package: the other door is a call to GitHub by a whole manager.

// series returns the values of a metric of the manager's about a scale set.
func series(t *testing.T, name string, set types.NamespacedName) (values []float64) {
	t.Helper()
	labels := prometheus.Labels{"name": set.Name, "namespace": set.Namespace}
	for _, of := range controllertest.Series(t, name, labels) {
		values = append(values, of.GetGauge().GetValue())
	}
	return values
}

// The remaining requests are exported together with the time until which the figure is valid.
func TestRateLimitIsShownWithItsReset(t *testing.T) {
	set, other := types.NamespacedName{Namespace: "a", Name: "limit"}, types.NamespacedName{Namespace: "b", Name: "limit"}
	limit := &actions.RateLimit{Resource: "core", Remaining: 12, Reset: time.Unix(1700000000, 0)}
	observeGitHub([]types.NamespacedName{set}, actions.RequestInfo{
		Endpoint:   actions.EndpointRegistrationToken,
		StatusCode: 201,
		RateLimit:  limit,
	})
	// Another set says of the same address what its own server says.
	observeGitHub([]types.NamespacedName{other}, actions.RequestInfo{
		StatusCode: 201, RateLimit: &actions.RateLimit{Resource: "core", Remaining: 1},
		TokenExpires: time.Unix(1, 0),
	})
	const reset, remaining = "gha_controller_github_rate_limit_reset_timestamp_seconds",
		"gha_controller_github_rate_limit_remaining"
	if got := series(t, reset, set); !slices.Equal(got, []float64{1700000000}) {
		t.Errorf("the reset is shown as %v, want 1700000000", got)
	}
	if got := series(t, remaining, set); !slices.Equal(got, []float64{12}) {
		t.Errorf("%v requests remain, want 12", got)
	}
	forgetGitHub(set)
	if left := append(series(t, reset, set), series(t, remaining, set)...); len(left) > 0 {
		t.Errorf("series %v stay though nobody uses the credentials any more", left)
	}
	if got := series(t, remaining, other); !slices.Equal(got, []float64{1}) {
		t.Errorf("the other set has %v, want its own figure", got)
	}
	if setmetrics.Delete(other); len(series(t, remaining, other)) > 0 {
		t.Error("series stay though the set is gone")
	}
}

// A token that expires is replaced by a token that does not: the alert about the old one must end.
func TestCredentialExpiryGoesWithTheCredential(t *testing.T) {
	const expiry = "gha_controller_credential_expiry_timestamp_seconds"
	set := types.NamespacedName{Namespace: "a", Name: "expiry"}
	sets := []types.NamespacedName{set}
	t.Cleanup(func() { forgetGitHub(set) })
	asked := actions.RequestInfo{
		Endpoint:     actions.EndpointRegistrationToken,
		StatusCode:   201,
		TokenExpires: time.Unix(1700000000, 0),
	}
	observeGitHub(sets, asked)
	// Says nothing about it.
	observeGitHub(sets, actions.RequestInfo{Endpoint: actions.EndpointGenerateJITConfig, StatusCode: 200})
	if got := series(t, expiry, set); !slices.Equal(got, []float64{1700000000}) {
		t.Fatalf("series %v, want 1700000000", got)
	}
	asked.TokenExpires = time.Time{}
	observeGitHub(sets, asked)
	if got := series(t, expiry, set); len(got) != 0 {
		t.Errorf("series %v of a token that does not expire, want none", got)
	}
}
