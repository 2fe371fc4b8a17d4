package metrics_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/config"
	"github.com/harrier-ci/harrier/internal/listener/metrics"
)

// seriesOf counts the series of a listener whose jobs are of the given number of kinds. Each kind has a name, a
// repository and an event of its own, and jobs with each of the results.
func seriesOf(t *testing.T, m *metrics.Metrics, kinds int, results ...string) (series int) {
	t.Helper()
	m.Statistics(statistics(), 5)
	for i := range kinds {
		for _, result := range results {
			message := messageOfJobs()
			for _, job := range []*actions.JobMessageBase{
				&message.JobsStarted[0].JobMessageBase, &message.JobsCompleted[0].JobMessageBase,
			} {
				job.JobDisplayName, job.RepositoryName, job.EventName = fmt.Sprint("job ", i), fmt.Sprint("repo", i),
					fmt.Sprint("event", i)
			}
			message.JobsCompleted[0].Result = result
			m.Message(message)
		}
	}
	for line := range strings.Lines(scrape(t, m, "/metrics")) {
		if !strings.HasPrefix(line, "#") {
			series++
		}
	}
	return series
}

// A set has the same number of series, however many jobs, repositories and events there are. With ARC's labels each of
// them costs what docs/observability.md says.
func TestSeriesOfAScaleSet(t *testing.T) {
	// Gauges, two counts of scale decisions, session held and wanted, last poll, expiry, reasons of dropped reports.
	const fixed = 10 + 6 + 9
	ofARC := settings(nil)
	ofARC.MetricsLabels = config.MetricsLabelsARC
	all := []string{"succeeded", "failed", "canceled"}
	for name, test := range map[string]struct {
		settings *config.Config
		kinds    int
		results  []string
		want     int
	}{
		// Jobs started; two histograms of ten buckets, sum and count; jobs completed and a histogram for each result.
		"one kind of job":          {settings(nil), 1, all[:1], fixed + 1 + 2*12 + 13},
		"five hundred kinds":       {settings(nil), 500, all[:1], fixed + 1 + 2*12 + 13},
		"all results":              {settings(nil), 500, all, fixed + 1 + 2*12 + 3*13},
		"ARC's, one kind of job":   {ofARC, 1, all[:1], fixed + 97 + 49},
		"ARC's, all results":       {ofARC, 1, all, fixed + 97 + 3*49},
		"ARC's, fifty kinds, each": {ofARC, 50, all, fixed + 50*(97+3*49)},
	} {
		if got := seriesOf(t, metrics.New(test.settings, logr.Discard()), test.kinds, test.results...); got != test.want {
			t.Errorf("%s: %d series, want %d", name, got, test.want)
		}
	}
}

func TestDefaultsOfARC(t *testing.T) {
	asked := settings(nil)
	asked.MetricsLabels = config.MetricsLabelsARC
	m := metrics.New(asked, logr.Discard())
	m.Message(messageOfJobs())
	const of = `name="set",namespace="ns",organization="owner",repository="repo"`
	const started = `enterprise="",event_name="push",job_name="build",` + of
	const completed = `enterprise="",event_name="push",job_name="build",job_result="succeeded",` + of
	expect(t, scrape(t, m, "/metrics"),
		"gha_started_jobs_total{"+started+"} 1", "gha_completed_jobs_total{"+completed+"} 1",
		"gha_job_startup_duration_seconds_sum{"+started+"} 7",
		"gha_job_execution_duration_seconds_sum{"+completed+"} 65",
		"gha_job_startup_duration_seconds_bucket{"+started+`,le="6"} 0`,
		"gha_job_startup_duration_seconds_bucket{"+started+`,le="7"} 1`,
		"gha_job_execution_duration_seconds_bucket{"+completed+`,le="3600"} 1`,
	)
	m.Configure(settings(nil))
	if strings.Contains(scrape(t, m, "/metrics"), "job_name") {
		t.Error("the labels stayed ARC's though few are asked for")
	}
}

// bucketsOfARC are the buckets of actions-runner-controller, without +Inf.
var bucketsOfARC = strings.Fields(`0.01 0.05 0.1 0.5 1 2 3 4 5 6 7 8 9 10 12 15 18 20 25 30 40 50 60 70 80 90 100 110
	120 150 180 210 240 300 360 420 480 540 600 900 1200 1800 2400 3000 3600`)

// Buckets are those in docs/observability.md: nine and +Inf, almost all of them among ARC's, because expressions that
// were written for ARC ask by them.
func TestBuckets(t *testing.T) {
	likeARC := settings(nil)
	likeARC.MetricsLabels = config.MetricsLabelsARC
	for name, want := range map[string][]string{
		"gha_job_queue_duration_seconds":     strings.Fields("1 5 10 30 60 120 300 600 1800"),
		"gha_job_startup_duration_seconds":   strings.Fields("1 5 10 30 60 120 300 600 1800"),
		"gha_job_execution_duration_seconds": strings.Fields("30 60 120 300 600 1200 1800 3600 14400"),
	} {
		if got := bucketsOf(t, likeARC, name); !slices.Equal(got, bucketsOfARC) {
			t.Errorf("%s with ARC's labels: %v, want %v", name, got, bucketsOfARC)
		}
		if got := bucketsOf(t, settings(nil), name); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// bucketsOf returns the buckets of a histogram but +Inf, in their order.
func bucketsOf(t *testing.T, asked *config.Config, name string) (buckets []string) {
	t.Helper()
	m := metrics.New(asked, logr.Discard())
	m.Message(messageOfJobs())
	for line := range strings.Lines(scrape(t, m, "/metrics")) {
		_, labels, found := strings.Cut(line, name+"_bucket{")
		_, le, _ := strings.Cut(labels, `le="`)
		if bucket, _, _ := strings.Cut(le, `"`); found && bucket != "+Inf" {
			buckets = append(buckets, bucket)
		}
	}
	return buckets
}
