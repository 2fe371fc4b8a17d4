// Package metrics exports a listener's metrics to Prometheus. There are two groups. Metrics that ARC has too keep ARC's
// names; listenerMetrics of the AutoscalingRunnerSet selects them and sets their labels and buckets. Without it they
// have a few labels and buckets, or ARC's many if the manager runs with --listener-metrics-labels=arc. The other
// metrics are about the listener itself and are always exported.
package metrics

import (
	"maps"
	"net/http"
	"reflect"
	"sync/atomic"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/config"
)

// Metrics counts what happens and serves the result. It is safe for concurrent use.
type Metrics struct {
	*own
	log     logr.Logger
	current atomic.Pointer[chosen]
	// last is the last observation, which is shown again if the choice of metrics changes; nil until there are
	// statistics.
	last atomic.Pointer[observation]
}

type observation struct {
	statistics actions.Statistics
	desired    int
}

// New returns the metrics that the configuration selects. Unknown names are logged and skipped.
func New(settings *config.Config, log logr.Logger) *Metrics {
	m := &Metrics{log: log, own: newOwn()}
	m.Configure(settings)
	return m
}

// Configure applies a changed configuration: limits and the choice of metrics. If the choice changes, counters start
// from 0.
func (m *Metrics) Configure(settings *config.Config) {
	before := m.current.Load()
	if before == nil || before.path != endpoint(settings) || before.preset != settings.MetricsLabels ||
		!reflect.DeepEqual(before.configured, settings.Metrics) || !maps.Equal(before.ofSet, labelsOfSet(settings)) {
		before = choose(settings, m.own, m.log)
		m.current.Store(before)
	}
	before.set(minRunners, float64(settings.MinRunners))
	before.set(maxRunners, float64(settings.MaxRunners))
	m.wanted.Set(float64(min(settings.MaxRunners, 1)))
	if seen := m.last.Load(); seen != nil {
		m.show(seen)
	}
}

// Statistics shows GitHub's statistics of the scale set, and the number of runners that follows from them. The first
// call does not count as a scale decision, because the number wanted before the process began is not known here.
func (m *Metrics) Statistics(statistics *actions.Statistics, desired int) {
	seen := &observation{statistics: *statistics, desired: desired}
	if before := m.last.Swap(seen); before != nil {
		switch {
		case desired > before.desired:
			m.decisions.WithLabelValues(directionUp).Inc()
		case desired < before.desired:
			m.decisions.WithLabelValues(directionDown).Inc()
		}
	}
	m.show(seen)
}

func (m *Metrics) show(seen *observation) {
	c := m.current.Load()
	c.set(availableJobs, float64(seen.statistics.TotalAvailableJobs))
	c.set(acquiredJobs, float64(seen.statistics.TotalAcquiredJobs))
	c.set(assignedJobs, float64(seen.statistics.TotalAssignedJobs))
	c.set(runningJobs, float64(seen.statistics.TotalRunningJobs))
	c.set(registeredRunners, float64(seen.statistics.TotalRegisteredRunners))
	c.set(busyRunners, float64(seen.statistics.TotalBusyRunners))
	c.set(idleRunners, float64(seen.statistics.TotalIdleRunners))
	c.set(desiredRunners, float64(seen.desired))
}

// Message counts a message's jobs. A job that ended before a runner took it does not count as completed.
func (m *Metrics) Message(message *actions.Message) {
	c := m.current.Load()
	for i := range message.JobsStarted {
		job := &message.JobsStarted[i].JobMessageBase
		c.count(startedJobs, job, "")
		if !job.QueueTime.IsZero() && !job.ScaleSetAssignTime.IsZero() {
			c.measure(jobQueueDuration, job, "", job.ScaleSetAssignTime.Sub(job.QueueTime))
		}
		if !job.RunnerAssignTime.IsZero() && !job.ScaleSetAssignTime.IsZero() {
			c.measure(jobStartupDuration, job, "", job.RunnerAssignTime.Sub(job.ScaleSetAssignTime))
		}
	}
	for i := range message.JobsCompleted {
		job, result := &message.JobsCompleted[i].JobMessageBase, message.JobsCompleted[i].Result
		if job.RunnerAssignTime.IsZero() {
			continue
		}
		c.count(completedJobs, job, result)
		if !job.FinishTime.IsZero() {
			c.measure(jobExecutionDuration, job, result, job.FinishTime.Sub(job.RunnerAssignTime))
		}
	}
}

// ServeHTTP serves the current choice of metrics at its configured path.
func (m *Metrics) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
	c := m.current.Load()
	if request.URL.Path != c.path {
		http.NotFound(answer, request)
		return
	}
	promhttp.HandlerFor(c.registry, promhttp.HandlerOpts{}).ServeHTTP(answer, request)
}

// Describe sends the descriptions of the current choice of metrics, with or without series.
func (m *Metrics) Describe(descriptions chan<- *prometheus.Desc) {
	m.current.Load().registry.Describe(descriptions)
}
