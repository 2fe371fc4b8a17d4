package e2e

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/hack/cluster"
	"github.com/harrier-ci/harrier/hack/site"
	"github.com/harrier-ci/harrier/test/prometheus"
)

// alerts are the rules that the controller's chart renders.
const alerts = "charts/" + site.ControllerChart + "/rules/alerts.yaml"

// Prometheus finds manager and listener in the cluster by the chart's PodMonitors, as its operator would.
func TestPrometheusReadsManagerAndListeners(t *testing.T) {
	t.Parallel()
	if err := cluster.NeedPackage(t.Context(), "prometheus", "prometheus", os.Stderr); err != nil {
		t.Fatal(err)
	}
	const jobs = 3
	s := install(t, "prometheus", 1, 3)
	p := startPrometheus(t, podMonitors(t))
	s.awaitSuccess(s.queue(jobs, time.Second))
	own, ofPod := `{name="`+s.name+`"}`, `{actions_github_com_scale_set_name="`+s.name+`"}`
	for query, want := range map[string]float64{
		`count(up{job="` + site.ControllerName + `-gha-rs-controller-manager"} == 1)`: 1,
		"sum(gha_started_jobs_total" + own + ")":                                      jobs,
		"sum(gha_completed_jobs_total" + own + ")":                                    jobs,
		"sum(gha_job_startup_duration_seconds_count" + own + ")":                      jobs,
		"sum(gha_listener_session_up" + own + ")":                                     1,
		"sum(gha_controller_scale_set_ready" + own + ")":                              1,
		"sum(gha_assigned_jobs" + own + ")":                                           0,
		"sum(gha_min_runners" + own + ")":                                             1,
		"sum(gha_max_runners" + ofPod + ")":                                           3,
	} {
		s.await(t.Context(), query, func() (string, error) {
			if got, err := p.Value(query); err != nil {
				return err.Error(), nil
			} else if got != want {
				return fmt.Sprintf("it is %g, want %g", got, want), nil
			}
			return "", nil
		})
	}
	for _, pod := range append(managers(t, 1), s.listenerPod()) {
		promtool(t, exposition(t, pod.Status.PodIP), "check", "metrics")
	}
	promtool(t, "", "check", "rules", filepath.Join(place.Root, alerts))
}

// podMonitors renders the chart's PodMonitors. The cluster does not know the kind.
func podMonitors(t *testing.T) []prometheus.Monitor {
	t.Helper()
	values := place.ControllerValues()
	values["monitoring"] = site.Values{"podMonitor": site.Values{"enabled": true, "interval": "1s"}}
	content, err := yaml.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	rendered, err := place.Helm(t.Context(), "template", site.ControllerName,
		filepath.Join(place.Root, "charts", site.ControllerChart),
		"--namespace="+site.SystemNamespace, "--values="+file, "--show-only=templates/podmonitor.yaml")
	if err != nil {
		t.Fatal(err)
	}
	monitors, err := prometheus.Monitors(rendered)
	if err != nil {
		t.Fatal(err)
	}
	return monitors
}

// scrapeConfig lists the monitor's present pods; later ones are not scraped.
func scrapeConfig(t *testing.T, m *prometheus.Monitor) map[string]any {
	t.Helper()
	port := m.Spec.PodMetricsEndpoints[0].Port
	var pods corev1.PodList
	if err := kube.List(t.Context(), &pods, client.InNamespace(site.SystemNamespace),
		client.MatchingLabels(m.Spec.Selector.MatchLabels)); err != nil {
		t.Fatal(err)
	}
	var targets []prometheus.Target
	for i := range pods.Items {
		if number := portNamed(&pods.Items[i], port); number != "" {
			targets = append(targets,
				prometheus.Target{Pod: &pods.Items[i], Address: net.JoinHostPort(pods.Items[i].Status.PodIP, number)})
		}
	}
	if len(targets) == 0 {
		t.Errorf("PodMonitor %s selects no pod with a port named %s", m.Metadata.Name, port)
	}
	return m.ScrapeConfig(targets)
}

// portNamed returns an empty string if no container has such a port.
func portNamed(pod *corev1.Pod, name string) string {
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			if port.Name == name {
				return strconv.Itoa(int(port.ContainerPort))
			}
		}
	}
	return ""
}

// startPrometheus runs one on this machine until the test ends.
func startPrometheus(t *testing.T, monitors []prometheus.Monitor) *prometheus.Server {
	t.Helper()
	scrapes := []map[string]any{}
	for i := range monitors {
		scrapes = append(scrapes, scrapeConfig(t, &monitors[i]))
	}
	return prometheus.Start(t, map[string]any{
		"rule_files":     []string{filepath.Join(place.Root, alerts)},
		"scrape_configs": scrapes,
	})
}

// exposition returns our families of a pod's metrics. Those of libraries are not ours to correct.
func exposition(t *testing.T, address string) string {
	t.Helper()
	answer, err := http.Get("http://" + net.JoinHostPort(address, "8080") + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var ours strings.Builder
	scanner := bufio.NewScanner(answer.Body)
	for scanner.Scan() {
		if strings.Contains(scanner.Text(), "gha_") {
			ours.WriteString(scanner.Text() + "\n")
		}
	}
	if err := scanner.Err(); err != nil || ours.Len() == 0 {
		t.Fatalf("%d bytes of metrics, %v", ours.Len(), err)
	}
	return ours.String()
}

// promtool fails the test with its complaint.
func promtool(t *testing.T, input string, arguments ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "promtool", arguments...)
	command.Stdin = strings.NewReader(input)
	if output, err := command.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(arguments, " "), err, output)
	}
}
