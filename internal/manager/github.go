package manager

import (
	"context"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/addresses"
	"github.com/harrier-ci/harrier/internal/build"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/pool"
	"github.com/harrier-ci/harrier/internal/setmetrics"
)

// userAgent identifies the manager to GitHub. System and subsystem are ARC's, because we don't know what GitHub makes
// of other values.
func userAgent() actions.UserAgent {
	return actions.UserAgent{
		System: "actions-runner-controller", Version: build.Version, CommitSHA: build.CommitSHA,
		Subsystem: "gha-scale-set-controller",
	}
}

const (
	// At most answersMemory bytes of GitHub's answers are in memory at a time. With what decoding needs for a moment,
	// 4.2 times as much in measurements, that is 134 MiB. 128 calls with 6 kB each need 1 MiB.
	answersMemory = 32 << 20
	// answersBudget is the rest of it, for large answers: the pool has at most twice pool.Limit calls in flight, and
	// each of these 256 has its first 32 KiB for itself, 8 MiB in all.
	answersBudget = answersMemory - 2*pool.Limit*actions.FirstBytes
	// The calls for the sets of one namespace get at most answersShare of that: a GitHub of theirs that answers with
	// megabytes leaves as much to others.
	answersShare = answersBudget / 2
)

// newProvider returns the provider of clients for all that talks to GitHub, whose calls it counts.
func newProvider(
	mgr ctrl.Manager, options Options, github http.RoundTripper, clk clock.WithTicker,
) (*credentials.Provider, error) {
	policy, err := addresses.New(options.AllowedGitHubURLs)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", addresses.Flag, err)
	}
	return credentials.New(mgr.GetAPIReader(), credentials.Options{
		Clock: clk, Logger: mgr.GetLogger().WithName("github"), UserAgent: userAgent(),
		GitHub: github, Addresses: policy, Budget: actions.NewBudget(answersBudget, answersShare),
		OnRequest: observeGitHub, OnUnused: forgetGitHub,
		Vaults: options.Vaults, VaultCertificateDirectory: options.VaultCertificateDirectory,
	}), nil
}

// githubClients provides GitHub clients for runners and their sets. Runners outlive the credential Secret when a scale
// set is uninstalled. So if the Secret is gone or no longer valid, the credentials in the listener's Secrets are used.
// The AutoscalingRunnerSet controller uses those on deletion only, because it reports to the user what is wrong with
// the Secret.
type githubClients struct {
	provider *credentials.Provider
	// listeners reads AutoscalingListeners from the cache; namespace is theirs.
	listeners client.Reader
	namespace string
}

// clientFor returns the client for the reference. Its errors are those of credentials.Provider.Client.
func (c githubClients) clientFor(ctx context.Context, reference credentials.Reference) (*actions.Client, error) {
	made, err := c.provider.Client(ctx, reference)
	if err == nil || !credentials.Unusable(err) {
		return made, err
	}
	listener, found, listErr := c.listenerOf(ctx, reference)
	if listErr != nil || !found {
		return nil, err
	}
	return c.provider.ClientOfListener(ctx, reference, listener, err)
}

// listenerOf finds a listener that was given the credentials that the reference names.
func (c githubClients) listenerOf(
	ctx context.Context, reference credentials.Reference,
) (client.ObjectKey, bool, error) {
	listeners := new(v1alpha1.AutoscalingListenerList)
	if err := c.listeners.List(
		ctx, listeners, client.InNamespace(c.namespace), client.UnsafeDisableDeepCopy,
	); err != nil {
		return client.ObjectKey{}, false, err
	}
	for i := range listeners.Items {
		candidate := credentials.ForAutoscalingListener(&listeners.Items[i])
		if candidate.Namespace == reference.Namespace && candidate.GitHubConfigURL == reference.GitHubConfigURL &&
			candidate.GitHubConfigSecret == reference.GitHubConfigSecret {
			return client.ObjectKeyFromObject(&listeners.Items[i]), true, nil
		}
	}
	return client.ObjectKey{}, false, nil
}

// The manager's own metrics, in addition to those of controller-runtime and of the controllers. Endpoints are a fixed
// list of about 20 names, so these are a few hundred series, however many scale sets there are.
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

	// Rate limits and expiries belong to credentials, and come from servers that tenants choose: each set has what its
	// own calls were told.
	rateLimit = setmetrics.Gauge("github_rate_limit_remaining",
		"Requests that GitHub's REST API still allows with the scale set's credentials until the limit is reset.",
		"resource")

	rateLimitReset = setmetrics.Gauge("github_rate_limit_reset_timestamp_seconds",
		"Unix time at which the limit of GitHub's REST API is reset; from then on "+
			"gha_controller_github_rate_limit_remaining is out of date.",
		"resource")

	credentialExpiry = setmetrics.Gauge("credential_expiry_timestamp_seconds",
		"Unix time at which the scale set's token expires, as reported by GitHub; no series if GitHub has not reported "+
			"it or the token does not expire.")
)

func init() {
	metrics.Registry.MustRegister(buildInfo, githubRequests, githubDuration)
	buildInfo.WithLabelValues(build.Version, build.CommitSHA).Set(1)
}

// observeGitHub records one attempt of a call with the credentials of these scale sets.
func observeGitHub(sets []types.NamespacedName, info actions.RequestInfo) {
	githubRequests.WithLabelValues(info.Endpoint, info.Status()).Inc()
	githubDuration.WithLabelValues(info.Endpoint).Observe(info.Duration.Seconds())
	for _, set := range sets {
		if limit := info.RateLimit; limit != nil {
			rateLimit.WithLabelValues(set.Name, set.Namespace, limit.Resource).Set(float64(limit.Remaining))
			rateLimitReset.WithLabelValues(set.Name, set.Namespace, limit.Resource).Set(float64(limit.Reset.Unix()))
		}
		switch {
		case !info.TokenExpires.IsZero():
			credentialExpiry.WithLabelValues(set.Name, set.Namespace).Set(float64(info.TokenExpires.Unix()))
		case info.ShowsExpiry():
			credentialExpiry.DeleteLabelValues(set.Name, set.Namespace)
		}
	}
}

// forgetGitHub deletes the series of a scale set that calls GitHub no longer.
func forgetGitHub(set types.NamespacedName) {
	of := prometheus.Labels{"name": set.Name, "namespace": set.Namespace}
	for _, vector := range []*prometheus.GaugeVec{rateLimit, rateLimitReset, credentialExpiry} {
		vector.DeletePartialMatch(of)
	}
}
