// Package scrape runs jobs on the real programs, has a real Prometheus read their metrics, and
// checks the answers to queries.
package scrape

import (
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/test/prometheus"
	"github.com/harrier-ci/harrier/test/rig"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m)) }

const jobs = 5

func TestMetricsOfJobsThatRan(t *testing.T) {
	s := start(t, rig.Options{ScaleSetValues: rig.Values{ // what has series of its own is on
		"feedback":             rig.Values{"checks": true, "rerunLostJobs": rig.Values{"maxAttempts": 1}},
		"volumeClaimTemplates": rig.ClaimTemplates("cache"),
	}})
	targets := s.targets(t)
	p := startPrometheus(t, s.monitored(t, targets, nil), len(targets))
	failOnce(t, s)
	s.WaitDone(s.QueueJobs(jobs, 100*time.Millisecond))
	s.AwaitQuiet()
	for _, from := range targets {
		checkExposition(t, from, s.reader)
	}
	checkReaders(t, s)
	for query, want := range map[string]float64{
		"sum(gha_completed_jobs_total)":                                                   jobs,
		"sum(gha_started_jobs_total)":                                                     jobs,
		"sum(gha_job_startup_duration_seconds_count)":                                     jobs,
		"sum(gha_job_queue_duration_seconds_count)":                                       jobs,
		"gha_controller_jit_config_seconds_count":                                         jobs + 1, // one runner failed
		"sum(gha_listener_session_up)":                                                    1,
		"sum(gha_controller_scale_set_ready)":                                             1,
		"sum(gha_assigned_jobs)":                                                          0,
		"count(time() - gha_listener_last_poll_timestamp_seconds < 120)":                  1,
		"count(gha_controller_credential_expiry_timestamp_seconds - time() > 29 * 86400)": 1,
		// of 5,000 requests an hour, which count for releases of the runner, too
		"min(gha_controller_github_rate_limit_remaining) > bool 4900": 1,
	} {
		p.expect(t, query, want)
	}
	// One scale set's share of all series: docs/observability.md says 184, and more if jobs fail. It has none just
	// after a scrape that took too long.
	var series float64
	NewWithT(t).Eventually(func() (err error) {
		series, err = p.Value(`count({name="` + rig.DefaultSet + `"})`)
		return err
	}).WithTimeout(rig.Patience).Should(Succeed())
	if series > 205 {
		t.Errorf("%g series of one scale set, want few", series)
	}
	t.Logf("%g series of one scale set", series)
	failFromNowOn(t, s)
	p.askAll(t, s.RunnerNamespace)
}

// failOnce has GitHub refuse the next runner. It ends without a job and is replaced.
func failOnce(t *testing.T, s *site) {
	t.Helper()
	if _, err := s.GitHub.AddFault(fakegithub.Fault{Endpoint: "simulated-runner/connect", Status: http.StatusGone,
		Count: 1}); err != nil {
		t.Fatal(err)
	}
}

// failFromNowOn has GitHub refuse all runners, and asks for one. The runner counts as failed if GitHub still has its
// registration a minute after its end, and is kept as evidence because no later one takes a job.
func failFromNowOn(t *testing.T, s *site) {
	t.Helper()
	if _, err := s.GitHub.AddFault(fakegithub.Fault{Endpoint: "simulated-runner/connect",
		Status: http.StatusGone}); err != nil {
		t.Fatal(err)
	}
	s.QueueJobs(1, time.Second)
}

// checkReaders asks for the manager's metrics as somebody whom the API server doesn't know, somebody without the right,
// and somebody who has it.
func checkReaders(t *testing.T, s *site) {
	t.Helper()
	manager := s.manager(t)
	for token, want := range map[string]int{
		"": http.StatusUnauthorized, "made-up": http.StatusUnauthorized, s.stranger: http.StatusForbidden, s.reader: http.StatusOK,
	} {
		if status, body := read(t, manager, token); status != want ||
			(status != http.StatusOK && strings.Contains(body, "gha_")) {
			t.Errorf("token %.10q: status %d, want %d", token, status, want)
		}
	}
}

// A deleted scale set's series in the manager's metrics would raise alerts for ever.
func TestSeriesOfADeletedSetDisappear(t *testing.T) {
	const second = "second"
	s := start(t, rig.Options{})
	s.InstallSet(second, nil)
	s.AwaitListening(second)
	s.WaitDone(s.QueueJobsFor(second, 2, 0))
	manager := s.manager(t)
	series := func() ([]string, error) {
		_, body, err := fetch(t.Context(), manager, s.reader)
		return linesWith(body, `name="`+second), err
	}
	// Ready and listening, three counts of ARC's, runners by four states, and what was measured.
	NewWithT(t).Eventually(series).WithTimeout(rig.Patience).
		Should(WithTransform(func(lines []string) int { return len(lines) }, BeNumerically(">=", 10)),
			"series of the set while it is there")
	s.UninstallSet(second)
	NewWithT(t).Eventually(series).WithTimeout(rig.Patience).Should(BeEmpty())
	if _, body := read(t, manager, s.reader); len(linesWith(body, `name="`+rig.DefaultSet)) < 5 {
		t.Error("the series of the other set are gone as well")
	}
}

func linesWith(text, part string) (found []string) {
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			found = append(found, line)
		}
	}
	return found
}

// checkExposition checks our families by Prometheus' rules, and by promtool if it is installed. Those of libraries are
// not ours to correct.
func checkExposition(t *testing.T, from target, token string) {
	t.Helper()
	status, exposed := read(t, from, token)
	if status != http.StatusOK {
		t.Fatalf("%s: status %d", from.name, status)
	}
	problems, err := promlint.New(strings.NewReader(exposed)).Lint()
	if err != nil {
		t.Fatalf("%s: %v", from.name, err)
	}
	for _, problem := range problems {
		if strings.HasPrefix(problem.Metric, "gha_") {
			t.Errorf("%s: %s: %s", from.name, problem.Metric, problem.Text)
		}
	}
	command := exec.CommandContext(t.Context(), prometheus.Find(t, "promtool"), "check", "metrics")
	command.Stdin = strings.NewReader(exposed)
	output, err := command.CombinedOutput()
	for line := range strings.Lines(string(output)) {
		if strings.HasPrefix(line, "gha_") || strings.Contains(line, "error") {
			t.Errorf("%s: promtool: %s (%v)", from.name, line, err)
		}
	}
}
