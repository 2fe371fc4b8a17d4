package metrics

import (
	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/listener/config"
)

// Names of the metrics that a configuration may choose from.
const (
	AvailableJobs        = "gha_available_jobs"
	AcquiredJobs         = "gha_acquired_jobs"
	AssignedJobs         = "gha_assigned_jobs"
	RunningJobs          = "gha_running_jobs"
	RegisteredRunners    = "gha_registered_runners"
	BusyRunners          = "gha_busy_runners"
	IdleRunners          = "gha_idle_runners"
	MinRunners           = "gha_min_runners"
	MaxRunners           = "gha_max_runners"
	DesiredRunners       = "gha_desired_runners"
	StartedJobs          = "gha_started_jobs_total"
	CompletedJobs        = "gha_completed_jobs_total"
	JobQueueDuration     = "gha_job_queue_duration_seconds"
	JobStartupDuration   = "gha_job_startup_duration_seconds"
	JobExecutionDuration = "gha_job_execution_duration_seconds"
)

// Labels that have values; others are exported empty.
const (
	labelEnterprise        = "enterprise"
	labelOrganization      = "organization"
	labelRepository        = "repository"
	labelName              = "name"
	labelNamespace         = "namespace"
	labelJobName           = "job_name"
	labelEventName         = "event_name"
	labelJobResult         = "job_result"
	labelJobWorkflowRef    = "job_workflow_ref"
	labelJobWorkflowName   = "job_workflow_name"
	labelJobWorkflowTarget = "job_workflow_target"
)

// setLabels have one value each in one listener.
var setLabels = []string{labelEnterprise, labelOrganization, labelRepository, labelName, labelNamespace}

// shape is what the metrics of jobs look like that a configuration does not describe itself.
type shape struct {
	started, completed []string
	// queue, startup and execution are buckets in seconds.
	queue, startup, execution []float64
}

// few is the default. A job's name, repository and event may have any number of values, and every one of them would cost
// a histogram; the scale set and the result may not. Nine buckets and +Inf make ten: a set has 12 series for each of two
// histograms and 12 for each of three results of the third, about 80 with everything else.
var few = shape{
	started:   []string{labelName, labelNamespace},
	completed: []string{labelName, labelNamespace, labelJobResult},
	queue:     startupBuckets,
	startup:   startupBuckets,
	// Four hours: with an hour as the last bucket the 95th percentile of long jobs would always be an hour.
	execution: []float64{10, 30, 60, 180, 600, 1200, 1800, 3600, 14400},
}

// startupBuckets tell a warm runner (seconds) from a new pod (tens) from a new node (minutes) from trouble.
var startupBuckets = []float64{1, 5, 10, 20, 40, 80, 160, 320, 640}

// arc is what ARC exports, so that its dashboards and recording rules go on working.
var arc = shape{
	started:   []string{labelEnterprise, labelOrganization, labelRepository, labelJobName, labelEventName},
	completed: []string{labelEnterprise, labelOrganization, labelRepository, labelJobName, labelEventName, labelJobResult},
	queue:     arcBuckets, startup: arcBuckets, execution: arcBuckets,
}

func shapeOf(settings *config.Config) shape {
	if settings.MetricsLabels == config.MetricsLabelsARC {
		return arc
	}
	return few
}

// arcBuckets are in seconds, up to an hour.
var arcBuckets = []float64{
	0.01, 0.05, 0.1, 0.5, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 18, 20, 25, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120,
	150, 180, 210, 240, 300, 360, 420, 480, 540, 600, 900, 1200, 1800, 2400, 3000, 3600,
}

var help = map[string]string{
	AvailableJobs:        "Jobs that match the scale set and that nobody has acquired yet.",
	AcquiredJobs:         "Jobs acquired by the scale set and not assigned to it yet.",
	AssignedJobs:         "Jobs assigned to the scale set, running ones included.",
	RunningJobs:          "Jobs running or about to run on runners of the scale set.",
	RegisteredRunners:    "Runners registered for the scale set.",
	BusyRunners:          "Registered runners that run a job.",
	IdleRunners:          "Registered runners that run no job.",
	MinRunners:           "Fewest runners of the scale set.",
	MaxRunners:           "Most runners of the scale set.",
	DesiredRunners:       "Runners that the listener asks for.",
	StartedJobs:          "Jobs started since the listener started.",
	CompletedJobs:        "Jobs completed since the listener started.",
	JobQueueDuration:     "Time from a job's queueing until it was assigned to the scale set, in seconds.",
	JobStartupDuration:   "Time from a job's assignment to the scale set until a runner had it, in seconds.",
	JobExecutionDuration: "Time a job ran, in seconds.",
}

// defaults are the metrics of a configuration that chooses none.
func defaults(s shape) *v1alpha1.MetricsConfig {
	chosen := &v1alpha1.MetricsConfig{
		Gauges: map[string]*v1alpha1.GaugeMetric{},
		Counters: map[string]*v1alpha1.CounterMetric{
			StartedJobs: {Labels: s.started}, CompletedJobs: {Labels: s.completed},
		},
		Histograms: map[string]*v1alpha1.HistogramMetric{
			JobQueueDuration:     {Labels: s.started, Buckets: s.queue},
			JobStartupDuration:   {Labels: s.started, Buckets: s.startup},
			JobExecutionDuration: {Labels: s.completed, Buckets: s.execution},
		},
	}
	for _, name := range []string{
		AvailableJobs, AcquiredJobs, AssignedJobs, RunningJobs, RegisteredRunners, BusyRunners, IdleRunners, MinRunners, MaxRunners, DesiredRunners,
	} {
		chosen.Gauges[name] = &v1alpha1.GaugeMetric{Labels: setLabels}
	}
	return chosen
}
