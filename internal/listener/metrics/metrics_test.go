package metrics

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/config"
)

func settings(chosen *v1alpha1.MetricsConfig) *config.Config {
	return &config.Config{
		ConfigureURL: "https://github.com/org", EphemeralRunnerSetNamespace: "ns", EphemeralRunnerSetName: "set",
		MinRunners: 1, MaxRunners: 9, Metrics: chosen,
	}
}

func scrape(t *testing.T, m *Metrics, path string) string {
	t.Helper()
	answer := httptest.NewRecorder()
	m.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
	if answer.Code != http.StatusOK {
		return answer.Result().Status
	}
	return answer.Body.String()
}

func expect(t *testing.T, scraped string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(scraped, "\n"+line+"\n") {
			t.Errorf("no line %q in\n%s", line, scraped)
		}
	}
}

// messageOfJobs has a job that started after 7 s and one that ran for 65 s.
func messageOfJobs() *actions.Message {
	noon := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	job := actions.JobMessageBase{
		OwnerName: "owner", RepositoryName: "repo", JobDisplayName: "build", EventName: "push",
		JobWorkflowRef: "owner/repo/.github/workflows/ci.yml@refs/heads/feature/x",
		QueueTime:      noon.Add(-3 * time.Second), ScaleSetAssignTime: noon,
		RunnerAssignTime: noon.Add(7900 * time.Millisecond), FinishTime: noon.Add(72900 * time.Millisecond),
	}
	taken := job
	taken.RunnerAssignTime = time.Time{}
	return &actions.Message{
		JobsStarted: []actions.JobStarted{{JobMessageBase: job}},
		JobsCompleted: []actions.JobCompleted{
			{JobMessageBase: job, Result: "succeeded"}, {JobMessageBase: taken, Result: "canceled"},
		},
	}
}

const ofSet = `{enterprise="",name="set",namespace="ns",organization="org",repository=""} `

func statistics() *actions.Statistics {
	return &actions.Statistics{
		TotalAvailableJobs: 8, TotalAcquiredJobs: 7,
		TotalAssignedJobs: 4, TotalRunningJobs: 3, TotalRegisteredRunners: 6, TotalBusyRunners: 2, TotalIdleRunners: 1,
	}
}

func TestDefaultMetrics(t *testing.T) {
	m := New(settings(nil), logr.Discard())
	m.Statistics(statistics(), 5)
	m.Message(messageOfJobs())
	// Organization and repository are those of the address, not the job's.
	const set = `enterprise="",name="set",namespace="ns",organization="org",repository=""`
	const completed = `enterprise="",job_result="succeeded",name="set",namespace="ns",organization="org",repository=""`
	expect(t, scrape(t, m, "/metrics"),
		"gha_available_jobs"+ofSet+"8", "gha_acquired_jobs"+ofSet+"7",
		"gha_assigned_jobs"+ofSet+"4", "gha_running_jobs"+ofSet+"3", "gha_registered_runners"+ofSet+"6",
		"gha_busy_runners"+ofSet+"2",
		"gha_idle_runners"+ofSet+"1", "gha_min_runners"+ofSet+"1", "gha_max_runners"+ofSet+"9",
		"gha_desired_runners"+ofSet+"5",
		"gha_started_jobs_total{"+set+"} 1", "gha_completed_jobs_total{"+completed+"} 1",
		"gha_job_queue_duration_seconds_sum{"+set+"} 3",
		"gha_job_startup_duration_seconds_sum{"+set+"} 7", "gha_job_execution_duration_seconds_sum{"+completed+"} 65",
	)
	// Service levels are written with these two, as in le="60".
	for le, ran := range map[string]string{"60": "0", "300": "1"} {
		expect(t, scrape(t, m, "/metrics"),
			"gha_job_queue_duration_seconds_bucket{"+set+`,le="`+le+`"} 1`,
			"gha_job_startup_duration_seconds_bucket{"+set+`,le="`+le+`"} 1`,
			"gha_job_execution_duration_seconds_bucket{"+completed+`,le="`+le+`"} `+ran)
	}
}

// seriesOf counts the series of a listener whose jobs are of the given number of kinds. Each kind has a name, a
// repository and an event of its own, and jobs with each of the results.
func seriesOf(t *testing.T, m *Metrics, kinds int, results ...string) (series int) {
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
		if got := seriesOf(t, New(test.settings, logr.Discard()), test.kinds, test.results...); got != test.want {
			t.Errorf("%s: %d series, want %d", name, got, test.want)
		}
	}
}

func TestDefaultsOfARC(t *testing.T) {
	asked := settings(nil)
	asked.MetricsLabels = config.MetricsLabelsARC
	m := New(asked, logr.Discard())
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

func TestBuckets(t *testing.T) {
	if len(arcBuckets) != 45 || ascending(arcBuckets) != nil {
		t.Errorf("%d buckets, want ARC's 45, ascending", len(arcBuckets))
	}
	for _, buckets := range [][]float64{few.queue, few.startup, few.execution} {
		if len(buckets) > 9 || ascending(buckets) != nil {
			t.Errorf("%v, want nine ascending ones: +Inf is the tenth", buckets)
		}
		for _, bucket := range buckets {
			if bucket <= 3600 && !slices.Contains(arcBuckets, bucket) {
				t.Errorf("%v has %g, by which no expression that was written for ARC asks", buckets, bucket)
			}
		}
	}
}

// increase() of a counter that begins with its first event misses that one.
func TestDroppedReportsAreCountedFromZero(t *testing.T) {
	scraped := scrape(t, New(settings(nil), logr.Discard()), "/metrics")
	for _, reason := range []string{
		"NotFound", "Forbidden", "Timeout", "Invalid", "BadRequest", "RequestEntityTooLarge", "OfferRefused",
		"MalformedMessage", "UnknownType",
	} {
		expect(t, scraped, `gha_listener_dropped_reports_total{name="set",namespace="ns",reason="`+reason+`"} 0`)
	}
}

func TestOwnMetrics(t *testing.T) {
	m := New(settings(nil), logr.Discard())
	for _, desired := range []int{0, 5, 2, 2} {
		m.Statistics(statistics(), desired)
	}
	m.Request(actions.RequestInfo{Endpoint: "registration_token", StatusCode: 201,
		RateLimit:    &actions.RateLimit{Resource: "core", Remaining: 12, Reset: time.Unix(1650000000, 0)},
		TokenExpires: time.Unix(1700000000, 0)})
	m.Request(actions.RequestInfo{Endpoint: "get_message"})
	m.Polled(time.Unix(1600000000, 0))
	const set = `name="set",namespace="ns"`
	expect(t, scrape(t, m, "/metrics"),
		`gha_listener_scale_decisions_total{direction="up",`+set+`} 1`,
		`gha_listener_scale_decisions_total{direction="down",`+set+`} 1`,
		`gha_listener_github_requests_total{endpoint="get_message",`+set+`,status="none"} 1`,
		`gha_listener_github_rate_limit_remaining{`+set+`,resource="core"} 12`,
		`gha_listener_github_rate_limit_reset_timestamp_seconds{`+set+`,resource="core"} 1.65e+09`,
		`gha_listener_credential_expiry_timestamp_seconds{`+set+`} 1.7e+09`,
		`gha_listener_session_up{`+set+`} 1`, `gha_listener_last_poll_timestamp_seconds{`+set+`} 1.6e+09`)
	m.SessionLost()
	// Another token, which does not expire.
	m.Request(actions.RequestInfo{Endpoint: actions.EndpointRegistrationToken, StatusCode: 201})
	expect(t, scrape(t, m, "/metrics"), `gha_listener_session_up{`+set+`} 0`,
		`gha_listener_credential_expiry_timestamp_seconds{`+set+`} 0`,
		`gha_listener_last_poll_timestamp_seconds{`+set+`} 1.6e+09`)
}

// An EphemeralRunnerSet that ARC created has a name of its own; dashboards use the scale set's.
func TestSeriesAreNamedAfterTheScaleSet(t *testing.T) {
	adopted := settings(nil)
	adopted.RunnerScaleSetName, adopted.EphemeralRunnerSetName = "set", "set-k7x2m"
	m := New(adopted, logr.Discard())
	expect(t, scrape(t, m, "/metrics"), `gha_listener_session_up{name="set",namespace="ns"} 0`)
	if series := scrape(t, m, "/metrics"); strings.Contains(series, "k7x2m") {
		t.Errorf("the EphemeralRunnerSet's name is a label:\n%s", series)
	}
}

func TestChosenMetrics(t *testing.T) {
	m := New(settings(&v1alpha1.MetricsConfig{
		Gauges: map[string]*v1alpha1.GaugeMetric{
			maxRunners:    {Labels: []string{"name", "colour"}},
			"gha_unknown": {},
			minRunners:    nil,
		},
		Counters: map[string]*v1alpha1.CounterMetric{
			startedJobs: {Labels: []string{"job_workflow_name", "job_workflow_target", "job_workflow_ref"}},
		},
		Histograms: map[string]*v1alpha1.HistogramMetric{
			jobStartupDuration: {Labels: []string{"event_name"}, Buckets: []float64{5, 10}},
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
	for _, absent := range []string{"gha_unknown", minRunners, assignedJobs, completedJobs, jobExecutionDuration} {
		if strings.Contains(scraped, absent) {
			t.Errorf("%s is exported", absent)
		}
	}
}

// Prometheus adds the pod's labels unless a metric has labels of the same names, empty or not.
func TestLabelsOfThePodHaveItsValues(t *testing.T) {
	labels := []string{"actions_github_com_scale_set_name", "actions_github_com_scale_set_namespace"}
	m := New(settings(&v1alpha1.MetricsConfig{
		Gauges:   map[string]*v1alpha1.GaugeMetric{maxRunners: {Labels: labels}},
		Counters: map[string]*v1alpha1.CounterMetric{startedJobs: {Labels: append(labels, "repository")}},
	}), logr.Discard())
	m.Message(messageOfJobs())
	const ofPod = `actions_github_com_scale_set_name="set",actions_github_com_scale_set_namespace="ns"`
	expect(
		t, scrape(t, m, "/metrics"), "gha_max_runners{"+ofPod+"} 9",
		"gha_started_jobs_total{"+ofPod+`,repository="repo"} 1`,
	)
}

func TestWrongChoicesAreLeftOut(t *testing.T) {
	m := New(settings(&v1alpha1.MetricsConfig{
		Gauges: map[string]*v1alpha1.GaugeMetric{
			idleRunners: {Labels: []string{"name", "name"}},
			busyRunners: {Labels: []string{"name"}},
		},
		Counters: map[string]*v1alpha1.CounterMetric{startedJobs: {Labels: []string{"no-label\xff"}}},
		Histograms: map[string]*v1alpha1.HistogramMetric{
			jobStartupDuration: {Buckets: []float64{5, 5}}, jobExecutionDuration: {Labels: []string{"le"}},
		},
	}), logr.Discard())
	m.Statistics(&actions.Statistics{TotalBusyRunners: 2}, 2)
	m.Message(messageOfJobs())
	expect(t, scrape(t, m, "/metrics"), `gha_busy_runners{name="set"} 2`)
}

func TestSettingsChangeWhileServing(t *testing.T) {
	m := New(settings(nil), logr.Discard())
	m.Statistics(&actions.Statistics{TotalAssignedJobs: 4}, 5)
	m.Message(messageOfJobs())
	m.Dropped("NotFound")
	m.Request(actions.RequestInfo{Endpoint: "get_message", StatusCode: 202})
	next := settings(nil)
	next.MaxRunners = 20
	m.Configure(next)
	scraped := scrape(t, m, "/metrics")
	expect(t, scraped, `gha_listener_dropped_reports_total{name="set",namespace="ns",reason="NotFound"} 1`,
		`gha_listener_github_requests_total{endpoint="get_message",name="set",namespace="ns",status="202"} 1`)
	if !strings.Contains(scraped, "gha_started_jobs_total{") || !strings.Contains(scraped, "} 20\n") {
		t.Errorf("limits changed, but counters or the limit are not there:\n%s", scraped)
	}
	next = settings(&v1alpha1.MetricsConfig{Gauges: map[string]*v1alpha1.GaugeMetric{assignedJobs: {}}})
	next.MetricsEndpoint = "/elsewhere"
	m.Configure(next)
	expect(t, scrape(t, m, "/elsewhere"), "gha_assigned_jobs 4")
	if got := scrape(t, m, "/metrics"); got != "404 Not Found" {
		t.Errorf("the old path answers %s", got)
	}
}

func TestWorkflowReferences(t *testing.T) {
	for reference, want := range map[string][2]string{
		"":                                 {"", ""},
		"o/r/.github/workflows/ci":         {"", ""},
		"o/r/w/ci.yml@refs/heads/m":        {"ci", "heads/m"},
		"o/r/w/ci.yaml@refs/heads/a/b/c":   {"ci", "heads/a/b/c"},
		"o/r/w/ci.yml@refs/tags/v1.2":      {"ci", "tags/v1.2"},
		"o/r/w/ci.yml@refs/pull/17/merge":  {"ci", "pull/17"},
		"o/r/w/ci.yml@0123abcd":            {"ci", ""},
		"o/r/w/ci.yml@refs/notes/x":        {"ci", ""},
		"o/r/w/ci.yml@refs/heads/":         {"ci", ""},
		"o/r/w/ci.yml@refs/heads/user@box": {"", ""},
	} {
		name, target := splitWorkflowRef(reference)
		if got := [2]string{name, target}; got != want {
			t.Errorf("%q: %q, want %q", reference, got, want)
		}
	}
}

// Before GitHub's first answer a count of 0 would be a lie, and the first statistics are not a change: a restart of a
// busy scale set must show neither.
func TestNothingIsShownBeforeTheFirstStatistics(t *testing.T) {
	m := New(settings(nil), logr.Discard())
	m.Configure(settings(nil))
	scraped := scrape(t, m, "/metrics")
	for _, name := range []string{
		availableJobs, acquiredJobs, assignedJobs, runningJobs, registeredRunners, busyRunners, idleRunners,
		desiredRunners,
	} {
		if strings.Contains(scraped, name) {
			t.Errorf("%s is shown", name)
		}
	}
	expect(t, scraped, "gha_max_runners"+ofSet+"9")
	m.Statistics(statistics(), 5)
	const set = `name="set",namespace="ns"`
	expect(t, scrape(t, m, "/metrics"), "gha_desired_runners"+ofSet+"5",
		`gha_listener_scale_decisions_total{direction="up",`+set+`} 0`,
		`gha_listener_scale_decisions_total{direction="down",`+set+`} 0`)
}

func TestResultsAreFromAClosedSet(t *testing.T) {
	for result, want := range map[string]string{
		"succeeded": "succeeded",
		"canceled":  "canceled",
		"":          "",
		"forged":    "other",
	} {
		if got := knownResult(result); got != want {
			t.Errorf("%q became %q, want %q", result, got, want)
		}
	}
}
