package metrics_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-logr/logr"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/config"
	"github.com/harrier-ci/harrier/internal/listener/metrics"
)

// named is a message about a job that has started and one that has ended, whose names somebody has chosen.
func named(name string) *actions.Message {
	message := messageOfJobs()
	of := func(job *actions.JobMessageBase) {
		job.OwnerName, job.RepositoryName, job.JobDisplayName = name, name, name
		job.EventName, job.JobWorkflowRef = name, name+"/.github/workflows/"+name+".yml@refs/heads/"+name
	}
	for i := range message.JobsStarted {
		of(&message.JobsStarted[i].JobMessageBase)
	}
	for i := range message.JobsCompleted {
		of(&message.JobsCompleted[i].JobMessageBase)
		message.JobsCompleted[i].Result = name
	}
	return message
}

// Whatever jobs are called, each metric has so many series, and those of the kinds that ran last.
func TestNamesOfJobsMakeNoEndlessSeries(t *testing.T) {
	const most = 1000 // kinds of a metric. A histogram has 47 lines for each: ARC's 46 buckets and +Inf
	for title, settings := range map[string]*config.Config{
		"ARC's labels": func() *config.Config { c := settings(nil); c.MetricsLabels = config.MetricsLabelsARC; return c }(),
		"few":          settings(nil),
		"chosen": settings(&v1alpha1.MetricsConfig{
			Counters:   map[string]*v1alpha1.CounterMetric{"gha_started_jobs_total": {Labels: []string{"job_name"}}},
			Histograms: map[string]*v1alpha1.HistogramMetric{"gha_job_execution_duration_seconds": {Labels: []string{"job_workflow_ref", "job_name"}, Buckets: []float64{1}}},
		}),
	} {
		t.Run(title, func(t *testing.T) {
			m := metrics.New(settings, logr.Discard())
			for i := range most + 200 {
				if i%100 < 10 {
					m.Message(named(fmt.Sprint("honest", i%10)))
				}
				m.Message(named(fmt.Sprint("job", i)))
			}
			m.Message(named(strings.Repeat("x", 100_000)))
			lines := map[string]int{}
			scraped := scrape(t, m, "/metrics")
			for line := range strings.Lines(scraped) {
				name, _, _ := strings.Cut(line, "{")
				if lines[name]++; len(line) > 10_000 {
					t.Fatalf("a line has %d bytes", len(line))
				}
			}
			for name, count := range lines {
				if limit := most * map[bool]int{true: 47, false: 1}[strings.HasSuffix(name, "_bucket")]; count > limit {
					t.Errorf("%s has %d series, at most %d", name, count, limit)
				}
			}
			if title != "few" && !strings.Contains(scraped, `job_name="honest3"`) {
				t.Error("a kind that is used again and again has no series")
			}
		})
	}
}

// A histogram has as many buckets as somebody can read.
func TestBucketsAreLimited(t *testing.T) {
	var buckets []float64
	for i := range 101 {
		buckets = append(buckets, float64(i))
	}
	for count, want := range map[int]bool{100: true, 101: false} {
		m := metrics.New(settings(&v1alpha1.MetricsConfig{Histograms: map[string]*v1alpha1.HistogramMetric{
			"gha_job_execution_duration_seconds": {Buckets: buckets[:count]},
		}}), logr.Discard())
		m.Message(messageOfJobs())
		if got := strings.Contains(scrape(t, m, "/metrics"), "gha_job_execution_duration_seconds"); got != want {
			t.Errorf("%d buckets: exported %t, want %t", count, got, want)
		}
	}
}
