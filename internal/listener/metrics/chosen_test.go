package metrics_test

import (
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/metrics"
)

func TestChosenMetrics(t *testing.T) {
	m := metrics.New(settings(&v1alpha1.MetricsConfig{
		Gauges: map[string]*v1alpha1.GaugeMetric{
			"gha_max_runners": {Labels: []string{"name", "colour"}},
			"gha_unknown":     {},
			"gha_min_runners": nil,
		},
		Counters: map[string]*v1alpha1.CounterMetric{
			"gha_started_jobs_total": {Labels: []string{"job_workflow_name", "job_workflow_target", "job_workflow_ref"}},
		},
		Histograms: map[string]*v1alpha1.HistogramMetric{
			"gha_job_startup_duration_seconds": {Labels: []string{"event_name"}, Buckets: []float64{5, 10}},
		},
	}), logr.Discard())
	m.Message(messageOfJobs())
	scraped := scrape(t, m, "/metrics")
	expect(t, scraped, `gha_max_runners{colour="",name="set"} 9`,
		`gha_started_jobs_total{job_workflow_name="ci",`+
			`job_workflow_ref="owner/repo/.github/workflows/ci.yml@refs/heads/feature/x",`+
			`job_workflow_target="heads/feature/x"} 1`,
		`gha_job_startup_duration_seconds_bucket{event_name="push",le="5"} 0`,
		`gha_job_startup_duration_seconds_bucket{event_name="push",le="10"} 1`)
	for _, absent := range []string{
		"gha_unknown", "gha_min_runners", "gha_assigned_jobs", "gha_completed_jobs_total",
		"gha_job_execution_duration_seconds",
	} {
		if strings.Contains(scraped, absent) {
			t.Errorf("%s is exported", absent)
		}
	}
}

// Prometheus adds the pod's labels unless a metric has labels of the same names, empty or not.
func TestLabelsOfThePodHaveItsValues(t *testing.T) {
	labels := []string{"actions_github_com_scale_set_name", "actions_github_com_scale_set_namespace"}
	m := metrics.New(settings(&v1alpha1.MetricsConfig{
		Gauges:   map[string]*v1alpha1.GaugeMetric{"gha_max_runners": {Labels: labels}},
		Counters: map[string]*v1alpha1.CounterMetric{"gha_started_jobs_total": {Labels: append(labels, "repository")}},
	}), logr.Discard())
	m.Message(messageOfJobs())
	const ofPod = `actions_github_com_scale_set_name="set",actions_github_com_scale_set_namespace="ns"`
	expect(
		t, scrape(t, m, "/metrics"), "gha_max_runners{"+ofPod+"} 9",
		"gha_started_jobs_total{"+ofPod+`,repository="repo"} 1`,
	)
}

func TestWrongChoicesAreLeftOut(t *testing.T) {
	m := metrics.New(settings(&v1alpha1.MetricsConfig{
		Gauges: map[string]*v1alpha1.GaugeMetric{
			"gha_idle_runners": {Labels: []string{"name", "name"}},
			"gha_busy_runners": {Labels: []string{"name"}},
		},
		Counters: map[string]*v1alpha1.CounterMetric{"gha_started_jobs_total": {Labels: []string{"no-label\xff"}}},
		Histograms: map[string]*v1alpha1.HistogramMetric{
			"gha_job_startup_duration_seconds":   {Buckets: []float64{5, 5}},
			"gha_job_execution_duration_seconds": {Labels: []string{"le"}},
		},
	}), logr.Discard())
	m.Statistics(&actions.Statistics{TotalBusyRunners: 2}, 2)
	m.Message(messageOfJobs())
	expect(t, scrape(t, m, "/metrics"), `gha_busy_runners{name="set"} 2`)
}

// Whatever is wrong with a metric, the log names it, what is wrong, and the field to correct.
func TestAMetricThatCannotBeExportedIsNamed(t *testing.T) {
	const name = "gha_job_execution_duration_seconds"
	for cause, metric := range map[string]*v1alpha1.HistogramMetric{
		"buckets must ascend": {Buckets: []float64{3, 2}},
		"duplicate label":     {Labels: []string{"event_name", "event_name"}},
	} {
		var lines []string
		log := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
		asked := &v1alpha1.MetricsConfig{Histograms: map[string]*v1alpha1.HistogramMetric{name: metric}}
		metrics.New(settings(asked), log)
		said := strings.Join(lines, "\n")
		for _, part := range []string{cause, name, "correct it in listenerMetrics"} {
			if !strings.Contains(said, part) {
				t.Errorf("%s: the log does not say %q:\n%s", cause, part, said)
			}
		}
	}
}
