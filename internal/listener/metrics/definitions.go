package metrics

import "github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"

// Names of the metrics that a configuration may choose from.
const (
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

var (
	setLabels       = []string{labelEnterprise, labelOrganization, labelRepository, labelName, labelNamespace}
	startedLabels   = []string{labelEnterprise, labelOrganization, labelRepository, labelJobName, labelEventName}
	completedLabels = []string{labelEnterprise, labelOrganization, labelRepository, labelJobName, labelEventName, labelJobResult}
)

// defaultBuckets are ARC's, so that dashboards and recording rules go on working. In seconds, up to an hour.
var defaultBuckets = []float64{
	0.01, 0.05, 0.1, 0.5, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 18, 20, 25, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120,
	150, 180, 210, 240, 300, 360, 420, 480, 540, 600, 900, 1200, 1800, 2400, 3000, 3600,
}

var help = map[string]string{
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
	JobStartupDuration:   "Time from a job's assignment to the scale set until a runner had it, in seconds.",
	JobExecutionDuration: "Time a job ran, in seconds.",
}

// defaults are the metrics of a configuration that chooses none.
func defaults() *v1alpha1.MetricsConfig {
	chosen := &v1alpha1.MetricsConfig{
		Gauges: map[string]*v1alpha1.GaugeMetric{},
		Counters: map[string]*v1alpha1.CounterMetric{
			StartedJobs: {Labels: startedLabels}, CompletedJobs: {Labels: completedLabels},
		},
		Histograms: map[string]*v1alpha1.HistogramMetric{
			JobStartupDuration: {Labels: startedLabels}, JobExecutionDuration: {Labels: completedLabels},
		},
	}
	for _, name := range []string{
		AssignedJobs, RunningJobs, RegisteredRunners, BusyRunners, IdleRunners, MinRunners, MaxRunners, DesiredRunners,
	} {
		chosen.Gauges[name] = &v1alpha1.GaugeMetric{Labels: setLabels}
	}
	return chosen
}
