package manager

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/build"
)

// The manager's own metrics, in addition to those of controller-runtime and of the controllers. Endpoints are a fixed list of
// about 20 names, so these are a few hundred series, however many scale sets there are.
var (
	buildInfo = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "gha_controller_build_info",
		Help: "Always 1; the labels say which build this is.",
	}, []string{"version", "commit"})

	githubRequests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gha_controller_github_requests_total",
		Help: "Requests to GitHub by endpoint and HTTP status; status none means that no complete response arrived.",
	}, []string{"endpoint", "status"})

	githubDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "gha_controller_github_request_duration_seconds",
		Help: "Duration of single requests to GitHub by endpoint.",
		// Doubling from the fastest response to the 15 s after which an attempt is given up.
		Buckets: []float64{0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 15},
	}, []string{"endpoint"})

	// Rate limits belong to credentials: there is one series per config URL, and scale sets share it.
	rateLimit = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "gha_controller_github_rate_limit_remaining",
		Help: "Requests that GitHub's REST API still allows with the credentials for a config URL until the limit is reset.",
	}, []string{"github_config_url", "resource"})

	rateLimitReset = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "gha_controller_github_rate_limit_reset_timestamp_seconds",
		Help: "Unix time at which the limit of GitHub's REST API is reset; from then on gha_controller_github_rate_limit_remaining is out of date.",
	}, []string{"github_config_url", "resource"})

	credentialExpiry = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "gha_controller_credential_expiry_timestamp_seconds",
		Help: "Unix time at which the token for a config URL expires, as reported by GitHub; no series if GitHub has not reported it or the token does not expire.",
	}, []string{"github_config_url"})
)

func init() {
	metrics.Registry.MustRegister(buildInfo, githubRequests, githubDuration, rateLimit, rateLimitReset, credentialExpiry)
	buildInfo.WithLabelValues(build.Version, build.CommitSHA).Set(1)
}

// observeGitHub records one attempt of a call with the credentials for a config URL.
func observeGitHub(configURL string, info actions.RequestInfo) {
	githubRequests.WithLabelValues(info.Endpoint, info.Status()).Inc()
	githubDuration.WithLabelValues(info.Endpoint).Observe(info.Duration.Seconds())
	if limit := info.RateLimit; limit != nil {
		rateLimit.WithLabelValues(configURL, limit.Resource).Set(float64(limit.Remaining))
		rateLimitReset.WithLabelValues(configURL, limit.Resource).Set(float64(limit.Reset.Unix()))
	}
	switch {
	case !info.TokenExpires.IsZero():
		credentialExpiry.WithLabelValues(configURL).Set(float64(info.TokenExpires.Unix()))
	case info.ShowsExpiry():
		credentialExpiry.DeleteLabelValues(configURL)
	}
}

// forgetGitHub deletes the series of credentials that are no longer used.
func forgetGitHub(configURL string) {
	for _, vector := range []*prometheus.GaugeVec{rateLimit, rateLimitReset} {
		vector.DeletePartialMatch(prometheus.Labels{"github_config_url": configURL})
	}
	credentialExpiry.DeleteLabelValues(configURL)
}
