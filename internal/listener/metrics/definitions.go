package metrics

import (
	"slices"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// Names of the metrics that listenerMetrics can select.
const (
	availableJobs        = "gha_available_jobs"
	acquiredJobs         = "gha_acquired_jobs"
	assignedJobs         = "gha_assigned_jobs"
	runningJobs          = "gha_running_jobs"
	registeredRunners    = "gha_registered_runners"
	busyRunners          = "gha_busy_runners"
	idleRunners          = "gha_idle_runners"
	minRunners           = "gha_min_runners"
	maxRunners           = "gha_max_runners"
	desiredRunners       = "gha_desired_runners"
	startedJobs          = "gha_started_jobs_total"
	completedJobs        = "gha_completed_jobs_total"
	jobQueueDuration     = "gha_job_queue_duration_seconds"
	jobStartupDuration   = "gha_job_startup_duration_seconds"
	jobExecutionDuration = "gha_job_execution_duration_seconds"
)

// Labels that have values. Others are exported with an empty value.
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
	// The scale set again, as Prometheus calls the two labels of the listener's pod that name it. Nothing has them by
	// default, because Prometheus adds them. If listenerMetrics names them, their empty values would replace those of the
	// pod.
	labelPodScaleSetName      = "actions_github_com_scale_set_name"
	labelPodScaleSetNamespace = "actions_github_com_scale_set_namespace"
)

// setLabels are the labels with one value each in a listener.
var setLabels = []string{labelEnterprise, labelOrganization, labelRepository, labelName, labelNamespace}

// shape has the labels and buckets of metrics of jobs that the configuration does not describe.
type shape struct {
	started, completed []string
	// queue, startup and execution are the histograms' buckets in seconds.
	queue, startup, execution []float64
}

// few is the default. A job's name, repository and event can have any number of values, and each value would cost a
// histogram. The scale set and the result can't. Nine buckets, +Inf, sum and count make 12 series. A scale set has them
// for each of two histograms and for each result of the third. With everything else that makes 158 series if all jobs
// succeed (docs/observability.md).
//
// Almost all buckets are among ARC's, so that expressions by le find them: service levels are written with a minute or
// five.
var few = shape{
	started:   setLabels,
	completed: slices.Concat(setLabels, []string{labelJobResult}),
	queue:     startupBuckets,
	startup:   startupBuckets,
	// Four hours: with an hour as the last bucket the 95th percentile of long jobs would always be an hour.
	execution: []float64{30, 60, 120, 300, 600, 1200, 1800, 3600, 14400},
}

// startupBuckets distinguish a warm runner (seconds), a new pod (tens of seconds), a new node (minutes) and a problem.
// Half an hour: with ten minutes as the last bucket no percentile would ever be above ten minutes.
var startupBuckets = []float64{1, 5, 10, 30, 60, 120, 300, 600, 1800}

// arc has the labels and buckets that ARC exports, for dashboards and recording rules that were made for ARC, and the
// scale set's name and namespace, which are the same in all series of a listener and cost none.
var arc = shape{
	started:   arcLabels,
	completed: slices.Concat(arcLabels, []string{labelJobResult}),
	queue:     arcBuckets, startup: arcBuckets, execution: arcBuckets,
}

var arcLabels = slices.Concat(setLabels, []string{labelJobName, labelEventName})

// arcBuckets are in seconds, up to an hour.
var arcBuckets = []float64{
	0.01, 0.05, 0.1, 0.5, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 18, 20, 25, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120,
	150, 180, 210, 240, 300, 360, 420, 480, 540, 600, 900, 1200, 1800, 2400, 3000, 3600,
}

var help = map[string]string{
	availableJobs:        "Jobs that match the scale set and that nobody has acquired yet.",
	acquiredJobs:         "Jobs acquired by the scale set and not assigned to it yet.",
	assignedJobs:         "Jobs assigned to the scale set, running ones included.",
	runningJobs:          "Jobs running or about to run on runners of the scale set.",
	registeredRunners:    "Runners registered for the scale set.",
	busyRunners:          "Registered runners that run a job.",
	idleRunners:          "Registered runners that run no job.",
	minRunners:           "Fewest runners of the scale set.",
	maxRunners:           "Most runners of the scale set; 2147483647 if it has no maxRunners.",
	desiredRunners:       "Runners that the listener asks for.",
	startedJobs:          "Jobs started since the listener started.",
	completedJobs:        "Jobs completed since the listener started.",
	jobQueueDuration:     "Time from a job's queueing until it was assigned to the scale set, in seconds.",
	jobStartupDuration:   "Time from a job's assignment to the scale set until a runner had it, in seconds.",
	jobExecutionDuration: "Time a job ran, in seconds.",
}

// defaults returns the metrics for a configuration that selects none.
func defaults(s shape) *v1alpha1.MetricsConfig {
	selected := &v1alpha1.MetricsConfig{
		Gauges: map[string]*v1alpha1.GaugeMetric{},
		Counters: map[string]*v1alpha1.CounterMetric{
			startedJobs: {Labels: s.started}, completedJobs: {Labels: s.completed},
		},
		Histograms: map[string]*v1alpha1.HistogramMetric{
			jobQueueDuration:     {Labels: s.started, Buckets: s.queue},
			jobStartupDuration:   {Labels: s.started, Buckets: s.startup},
			jobExecutionDuration: {Labels: s.completed, Buckets: s.execution},
		},
	}
	for _, name := range []string{
		availableJobs, acquiredJobs, assignedJobs, runningJobs, registeredRunners, busyRunners, idleRunners,
		minRunners, maxRunners, desiredRunners,
	} {
		selected.Gauges[name] = &v1alpha1.GaugeMetric{Labels: setLabels}
	}
	return selected
}
