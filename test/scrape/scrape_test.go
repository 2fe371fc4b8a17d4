// Package scrape runs jobs on the real programs, has their metrics read, by a real Prometheus where one is installed, and
// asserts on what queries answer.
package scrape

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m)) }

const (
	jobs        = 5
	metricsPort = 8080
)

func TestMetricsOfJobsThatRan(t *testing.T) {
	r := rig.Start(t, testkube.Shared(t), rig.Options{})
	targets := map[string]string{"manager": address(t, r, "controller-manager"),
		"listener": address(t, r, v1alpha1.ComponentListener)}
	r.WaitDone(r.QueueJobs(jobs, 100*time.Millisecond))
	r.AwaitQuiet()
	for name, target := range targets {
		checkExposition(t, name, scrape(t, target))
	}
	p := startPrometheus(t, targets)
	if p == nil {
		t.Log("Prometheus is not installed; what it would read was checked without it")
		return
	}
	for query, want := range map[string]float64{
		"sum(gha_completed_jobs_total)":                                  jobs,
		"sum(gha_started_jobs_total)":                                    jobs,
		"sum(gha_job_startup_duration_seconds_count)":                    jobs,
		"sum(gha_job_queue_duration_seconds_count)":                      jobs,
		"sum(gha_controller_runner_startup_seconds_count)":               jobs,
		"gha_controller_jit_config_seconds_count":                        jobs,
		"sum(gha_listener_session_up)":                                   1,
		"sum(gha_controller_scale_set_ready)":                            1,
		"sum(gha_assigned_jobs)":                                         0,
		"count(time() - gha_listener_last_poll_timestamp_seconds < 120)": 1,
	} {
		p.expect(t, query, want)
	}
	// One scale set's share of all series: DESIGN's "few" are about 80 of the listener's, plus some for each state.
	series, err := p.ask(`count({name="` + rig.DefaultSet + `"})`)
	if err != nil || series > 150 {
		t.Errorf("%g series of one scale set, %v; want few", series, err)
	}
	t.Logf("%g series of one scale set", series)
	p.askAll(t)
}

// address is where a pod of the product serves metrics.
func address(t *testing.T, r *rig.Rig, component string) string {
	t.Helper()
	pods := &corev1.PodList{}
	if err := r.Cluster.Client().List(t.Context(), pods, client.InNamespace(r.SystemNamespace), client.MatchingLabels{v1alpha1.LabelComponent: component}); err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		found, err := r.Node.Address(types.NamespacedName{Namespace: pods.Items[i].Namespace, Name: pods.Items[i].Name}, metricsPort)
		if err == nil {
			return found
		}
	}
	t.Fatalf("no pod of component %s serves metrics", component)
	return ""
}

func scrape(t *testing.T, target string) string {
	t.Helper()
	answer, err := http.Get("http://" + target + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("scrape: %s, %v", answer.Status, err)
	}
	return string(body)
}

// checkExposition holds our families to Prometheus' rules, by promtool as well where it is installed. Those of libraries are
// not ours to mend.
func checkExposition(t *testing.T, name, exposed string) {
	t.Helper()
	problems, err := promlint.New(strings.NewReader(exposed)).Lint()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for _, problem := range problems {
		if strings.HasPrefix(problem.Metric, "gha_") {
			t.Errorf("%s: %s: %s", name, problem.Metric, problem.Text)
		}
	}
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		return
	}
	command := exec.CommandContext(t.Context(), promtool, "check", "metrics")
	command.Stdin = strings.NewReader(exposed)
	output, err := command.CombinedOutput()
	for line := range strings.Lines(string(output)) {
		if strings.HasPrefix(line, "gha_") || strings.Contains(line, "error") {
			t.Errorf("%s: promtool: %s (%v)", name, line, err)
		}
	}
}
