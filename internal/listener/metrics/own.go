package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/harrier-ci/harrier/github/actions"
)

// own has the metrics about the listener itself, which are exported whatever listenerMetrics selects. Each has the
// labels name and namespace of the scale set.
type own struct {
	dropped   *prometheus.CounterVec
	requests  *prometheus.CounterVec
	decisions *prometheus.CounterVec
	remaining *prometheus.GaugeVec
	reset     *prometheus.GaugeVec
	expires   prometheus.Gauge
	session   prometheus.Gauge
	wanted    prometheus.Gauge
	polled    prometheus.Gauge
}

// Directions of a scale decision.
const (
	directionUp   = "up"
	directionDown = "down"
)

// dropReasons are the known reasons to give something up. Their series begin at 0 with the process: in a series that
// begins with its first event, that event is not an increase.
var dropReasons = []string{
	"NotFound", "Forbidden", "Timeout", "Invalid", "BadRequest", "RequestEntityTooLarge", "OfferRefused",
	"MalformedMessage", "UnknownType",
}

func newOwn() *own {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(
			prometheus.CounterOpts{Subsystem: "gha_listener", Name: name, Help: help}, labels,
		)
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Subsystem: "gha_listener", Name: name, Help: help})
	}
	o := &own{
		dropped: counter("dropped_reports_total",
			"Messages, entries of messages and reports to runners that were given up, by reason.", "reason"),
		requests: counter("github_requests_total",
			"Requests to GitHub by endpoint and HTTP status; status none means that no complete answer came.",
			"endpoint", "status"),
		decisions: counter(
			"scale_decisions_total", "Changes of the desired number of runners, by direction.", "direction",
		),
		session: gauge("session_up", "1 while a message session is held, 0 otherwise."),
		wanted:  gauge("session_wanted", "0 while maxRunners is 0, so that no message session is held, 1 otherwise."),
		polled:  gauge("last_poll_timestamp_seconds", "Unix time of the last good poll; 0 before the first."),
		remaining: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Subsystem: "gha_listener", Name: "github_rate_limit_remaining",
			Help: "Requests that GitHub's REST API still allows until its limit is reset, by resource.",
		}, []string{"resource"}),
		reset: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Subsystem: "gha_listener", Name: "github_rate_limit_reset_timestamp_seconds",
			Help: "Unix time at which the limit of GitHub's REST API is reset, by resource; from then on " +
				"gha_listener_github_rate_limit_remaining is out of date.",
		}, []string{"resource"}),
		expires: gauge("credential_expiry_timestamp_seconds",
			"Unix time at which the token expires according to GitHub; 0 if GitHub has not said or the token does "+
				"not expire."),
	}
	for _, direction := range []string{directionUp, directionDown} {
		o.decisions.WithLabelValues(direction)
	}
	for _, reason := range dropReasons {
		o.dropped.WithLabelValues(reason)
	}
	return o
}

// Dropped counts something that was given up.
func (o *own) Dropped(reason string) { o.dropped.WithLabelValues(reason).Inc() }

// Request counts a request to GitHub, and shows what its answer says about limits and the token.
func (o *own) Request(request actions.RequestInfo) {
	o.requests.WithLabelValues(request.Endpoint, request.Status()).Inc()
	if limit := request.RateLimit; limit != nil {
		o.remaining.WithLabelValues(limit.Resource).Set(float64(limit.Remaining))
		o.reset.WithLabelValues(limit.Resource).Set(float64(limit.Reset.Unix()))
	}
	switch {
	case !request.TokenExpires.IsZero():
		o.expires.Set(float64(request.TokenExpires.Unix()))
	case request.ShowsExpiry():
		o.expires.Set(0)
	}
}

// Polled shows that a session is held, and when it was last polled successfully.
func (o *own) Polled(at time.Time) {
	o.session.Set(1)
	o.polled.Set(float64(at.Unix()))
}

// SessionLost shows that no session is held.
func (o *own) SessionLost() { o.session.Set(0) }
