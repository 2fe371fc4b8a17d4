package scrape

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/test/prometheus"
	"github.com/harrier-ci/harrier/test/rig"
)

const chart = "../../charts/gha-runner-scale-set-controller"

// observer is a Prometheus that reads the site.
type observer struct{ *prometheus.Server }

// startPrometheus runs the installed Prometheus with the chart's alerts, and waits until it has read all targets.
// Prometheus ends with the test.
func startPrometheus(t *testing.T, scrapes []any, targets int) *observer {
	t.Helper()
	alerts, err := filepath.Abs(chart + "/rules/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p := &observer{prometheus.Start(t, map[string]any{
		"global": map[string]any{"scrape_interval": "2s"}, "rule_files": []string{alerts}, "scrape_configs": scrapes,
	})}
	p.expect(t, "count(up == 1)", float64(targets))
	return p
}

// monitored returns the configuration of the chart's PodMonitors for the targets, with some more values.
func (s *site) monitored(t *testing.T, targets []target, more rig.Values) (configs []any) {
	t.Helper()
	for _, monitor := range s.monitors(t, more) {
		selector, selected := labels.SelectorFromSet(monitor.Spec.Selector.MatchLabels), []prometheus.Target{}
		for _, from := range targets {
			if selector.Matches(labels.Set(from.pod.Labels)) {
				selected = append(selected, prometheus.Target{Pod: from.pod, Address: from.address})
			}
		}
		config := monitor.ScrapeConfig(selected)
		if config["scheme"] == "https" {
			config["tls_config"] = map[string]any{"insecure_skip_verify": true}
			config["authorization"] = map[string]any{"credentials": s.reader}
		}
		configs = append(configs, config)
	}
	return configs
}

// monitors renders the chart's PodMonitors for the rig's release. The cluster does not know the kind.
func (s *site) monitors(t *testing.T, more rig.Values) []prometheus.Monitor {
	t.Helper()
	podMonitor := rig.Values{"enabled": true, "interval": "2s"}
	maps.Copy(podMonitor, more)
	content, err := yaml.Marshal(rig.Values{"metrics": s.metrics, "monitoring": rig.Values{"podMonitor": podMonitor}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	rendered, err := s.HelmAs(s.Cluster.AdminKubeconfig(), "template", "harrier", chart, "--namespace",
		s.SystemNamespace,
		"--values", file, "--show-only", "templates/podmonitor.yaml")
	if err != nil {
		t.Fatal(err)
	}
	monitors, err := prometheus.Monitors(rendered)
	if err != nil {
		t.Fatal(err)
	}
	return monitors
}

// documented returns the page's configuration for a Prometheus without the operator, but with the targets instead of a
// discovery.
func documented(t *testing.T, targets []target) []any {
	t.Helper()
	page, err := os.ReadFile("../../docs/observability.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```yaml\n(scrape_configs:.*?)```").FindSubmatch(page)
	if block == nil {
		t.Fatal("the page shows no scrape_configs")
	}
	var shown struct {
		Configs []map[string]any `json:"scrape_configs"`
	}
	if err := yaml.Unmarshal(block[1], &shown); err != nil || len(shown.Configs) != 1 {
		t.Fatalf("%d scrape_configs, want one: %v", len(shown.Configs), err)
	}
	all := []prometheus.Target{}
	for _, from := range targets {
		all = append(all, prometheus.Target{Pod: from.pod, Address: from.address})
	}
	config := shown.Configs[0]
	delete(config, "kubernetes_sd_configs")
	config["static_configs"] = prometheus.Discovered(all, "metrics")
	return []any{config}
}

// expect waits for a query's value: a scrape is two seconds away.
func (p *observer) expect(t *testing.T, query string, want float64) {
	t.Helper()
	NewWithT(t).Eventually(func() (float64, error) { return p.Value(query) }).
		WithTimeout(rig.Patience).Should(BeNumerically("==", want), query)
}
