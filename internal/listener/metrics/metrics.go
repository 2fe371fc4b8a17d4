// Package metrics is what a listener shows to Prometheus: ARC's metrics under ARC's names, chosen and
// labelled by the AutoscalingRunnerSet's listenerMetrics, with few labels and buckets by default or, if the manager is told
// so, with ARC's; and some about the listener itself.
package metrics

import (
	"net/http"
	"sync/atomic"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/config"
)

// Metrics takes what happened and serves it. It is safe for concurrent use.
type Metrics struct {
	log     logr.Logger
	own     *own
	current atomic.Pointer[chosen]
	// last is repeated when the choice of metrics changes.
	last atomic.Pointer[observation]
}

type observation struct {
	statistics actions.Statistics
	desired    int
}

// New makes the metrics that the configuration chooses. Unknown names are logged and skipped.
func New(settings *config.Config, log logr.Logger) *Metrics {
	m := &Metrics{log: log, own: newOwn()}
	m.last.Store(&observation{})
	m.Configure(settings)
	return m
}

// Configure changes limits and the choice of metrics. Counters start anew when the choice is another.
func (m *Metrics) Configure(settings *config.Config) {
	before := m.current.Load()
	if before == nil || before.differs(settings) {
		before = m.choose(settings)
		m.current.Store(before)
	}
	before.set(MinRunners, float64(settings.MinRunners))
	before.set(MaxRunners, float64(settings.MaxRunners))
	m.show(m.last.Load())
}

// Statistics shows what GitHub says of the set and how many runners follow from it.
func (m *Metrics) Statistics(statistics *actions.Statistics, desired int) {
	seen := &observation{statistics: *statistics, desired: desired}
	m.own.decided(m.last.Swap(seen).desired, desired)
	m.show(seen)
}

func (m *Metrics) show(seen *observation) {
	c := m.current.Load()
	c.set(AvailableJobs, float64(seen.statistics.TotalAvailableJobs))
	c.set(AcquiredJobs, float64(seen.statistics.TotalAcquiredJobs))
	c.set(AssignedJobs, float64(seen.statistics.TotalAssignedJobs))
	c.set(RunningJobs, float64(seen.statistics.TotalRunningJobs))
	c.set(RegisteredRunners, float64(seen.statistics.TotalRegisteredRunners))
	c.set(BusyRunners, float64(seen.statistics.TotalBusyRunners))
	c.set(IdleRunners, float64(seen.statistics.TotalIdleRunners))
	c.set(DesiredRunners, float64(seen.desired))
}

// Message counts a message's jobs. One that completed without ever having had a runner is no completed job.
func (m *Metrics) Message(message *actions.Message) {
	c := m.current.Load()
	for i := range message.JobsStarted {
		job := &message.JobsStarted[i].JobMessageBase
		c.count(StartedJobs, job, "")
		if !job.QueueTime.IsZero() && !job.ScaleSetAssignTime.IsZero() {
			c.measure(JobQueueDuration, job, "", job.ScaleSetAssignTime.Sub(job.QueueTime))
		}
		if !job.RunnerAssignTime.IsZero() && !job.ScaleSetAssignTime.IsZero() {
			c.measure(JobStartupDuration, job, "", job.RunnerAssignTime.Sub(job.ScaleSetAssignTime))
		}
	}
	for i := range message.JobsCompleted {
		job, result := &message.JobsCompleted[i].JobMessageBase, message.JobsCompleted[i].Result
		if job.RunnerAssignTime.IsZero() {
			continue
		}
		c.count(CompletedJobs, job, result)
		if !job.FinishTime.IsZero() {
			c.measure(JobExecutionDuration, job, result, job.FinishTime.Sub(job.RunnerAssignTime))
		}
	}
}

// ServeHTTP serves the metrics chosen at the moment, at the path configured at the moment.
func (m *Metrics) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
	c := m.current.Load()
	if request.URL.Path != c.path {
		http.NotFound(answer, request)
		return
	}
	promhttp.HandlerFor(c.registry, promhttp.HandlerOpts{}).ServeHTTP(answer, request)
}

// Describe sends what the metrics chosen at the moment are, whether they have series or not.
func (m *Metrics) Describe(descriptions chan<- *prometheus.Desc) {
	m.current.Load().registry.Describe(descriptions)
}
