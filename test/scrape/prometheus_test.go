package scrape

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/harrier-ci/harrier/test/prometheus"
	"github.com/harrier-ci/harrier/test/rig"
)

const chart = "../../charts/gha-runner-scale-set-controller"

// observer is a Prometheus that reads the site.
type observer struct{ *prometheus.Server }

// startPrometheus runs the one that is installed, with the chart's alerts and what its monitors say; nil where there is none.
// It ends with the test.
func startPrometheus(t *testing.T, targets []target, token string) *observer {
	t.Helper()
	if _, err := exec.LookPath(prometheus.Program); err != nil {
		return nil
	}
	alerts, err := filepath.Abs(chart + "/rules/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p := &observer{prometheus.Start(t, map[string]any{
		"global": map[string]any{"scrape_interval": "2s"}, "rule_files": []string{alerts}, "scrape_configs": scrapes(targets, token),
	})}
	NewWithT(t).Eventually(func() (float64, error) { return p.Value("count(up == 1)") }).
		WithTimeout(rig.Patience).Should(BeNumerically("==", len(targets)))
	return p
}

// scrapes are what an operator makes of the chart's monitors.
func scrapes(targets []target, token string) (configs []any) {
	for i, from := range targets {
		config := map[string]any{
			"job_name": fmt.Sprint(from.name, i), "honor_labels": true, "static_configs": []any{map[string]any{"targets": []string{from.address}}},
		}
		if from.secure {
			config["scheme"], config["tls_config"] = "https", map[string]any{"insecure_skip_verify": true}
			config["authorization"] = map[string]any{"credentials": token}
		}
		configs = append(configs, config)
	}
	return configs
}

// expect waits for a query's value: a scrape is two seconds away.
func (p *observer) expect(t *testing.T, query string, want float64) {
	t.Helper()
	NewWithT(t).Eventually(func() (float64, error) { return p.Value(query) }).
		WithTimeout(rig.Patience).Should(BeNumerically("==", want), query)
}
