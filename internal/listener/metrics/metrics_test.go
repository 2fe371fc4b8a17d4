package metrics_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/config"
	"github.com/harrier-ci/harrier/internal/listener/metrics"
)

func settings(chosen *v1alpha1.MetricsConfig) *config.Config {
	return &config.Config{
		ConfigureURL: "https://github.com/org", EphemeralRunnerSetNamespace: "ns", EphemeralRunnerSetName: "set",
		MinRunners: 1, MaxRunners: 9, Metrics: chosen,
	}
}

func scrape(t *testing.T, m *metrics.Metrics, path string) string {
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
	m := metrics.New(settings(nil), logr.Discard())
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

// increase() of a counter that begins with its first event misses that one.
func TestDroppedReportsAreCountedFromZero(t *testing.T) {
	scraped := scrape(t, metrics.New(settings(nil), logr.Discard()), "/metrics")
	for _, reason := range []string{
		"NotFound", "Forbidden", "Timeout", "Invalid", "BadRequest", "RequestEntityTooLarge", "OfferRefused",
		"MalformedMessage", "UnknownType",
	} {
		expect(t, scraped, `gha_listener_dropped_reports_total{name="set",namespace="ns",reason="`+reason+`"} 0`)
	}
}

func TestOwnMetrics(t *testing.T) {
	m := metrics.New(settings(nil), logr.Discard())
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
	m := metrics.New(adopted, logr.Discard())
	expect(t, scrape(t, m, "/metrics"), `gha_listener_session_up{name="set",namespace="ns"} 0`)
	if series := scrape(t, m, "/metrics"); strings.Contains(series, "k7x2m") {
		t.Errorf("the EphemeralRunnerSet's name is a label:\n%s", series)
	}
}

func TestSettingsChangeWhileServing(t *testing.T) {
	m := metrics.New(settings(nil), logr.Discard())
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
	next = settings(&v1alpha1.MetricsConfig{Gauges: map[string]*v1alpha1.GaugeMetric{"gha_assigned_jobs": {}}})
	next.MetricsEndpoint = "/elsewhere"
	m.Configure(next)
	expect(t, scrape(t, m, "/elsewhere"), "gha_assigned_jobs 4")
	if got := scrape(t, m, "/metrics"); got != "404 Not Found" {
		t.Errorf("the old path answers %s", got)
	}
}

// Before GitHub's first answer a count of 0 would be a lie, and the first statistics are not a change: a restart of a
// busy scale set must show neither.
func TestNothingIsShownBeforeTheFirstStatistics(t *testing.T) {
	m := metrics.New(settings(nil), logr.Discard())
	m.Configure(settings(nil))
	scraped := scrape(t, m, "/metrics")
	for _, name := range []string{
		"gha_available_jobs", "gha_acquired_jobs", "gha_assigned_jobs", "gha_running_jobs", "gha_registered_runners",
		"gha_busy_runners", "gha_idle_runners", "gha_desired_runners",
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
