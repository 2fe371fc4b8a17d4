package scrape

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/internal/testkube/process"
)

const chart = "../../charts/gha-runner-scale-set-controller"

// prometheus is a running one.
type prometheus struct{ address string }

// startPrometheus runs the one that is installed, with the chart's alerts and what its PodMonitors say; nil where there is
// none. It ends with the test.
func startPrometheus(t *testing.T, targets map[string]string) *prometheus {
	t.Helper()
	program, err := exec.LookPath("prometheus")
	if err != nil {
		return nil
	}
	directory := t.TempDir()
	alerts, err := filepath.Abs(chart + "/rules/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	scrapes := []any{}
	for name, target := range targets {
		scrapes = append(scrapes, map[string]any{
			"job_name": name, "honor_labels": true, "static_configs": []any{map[string]any{"targets": []string{target}}},
		})
	}
	settings, err := yaml.Marshal(map[string]any{
		"global": map[string]any{"scrape_interval": "1s"}, "rule_files": []string{alerts}, "scrape_configs": scrapes,
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(directory, "prometheus.yml")
	if err := os.WriteFile(file, settings, 0o600); err != nil {
		t.Fatal(err)
	}
	p := &prometheus{address: freeAddress(t)}
	started, err := process.Start(exec.Command(program, "--config.file="+file, "--storage.tsdb.path="+directory, "--web.listen-address="+p.address))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = started.Stop(5 * time.Second) })
	NewWithT(t).Eventually(func() (float64, error) { return p.ask("count(up == 1)") }).
		WithTimeout(time.Minute).Should(BeNumerically("==", len(targets)))
	return p
}

// freeAddress is one that nobody listens at for the moment.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// answer is that of Prometheus' HTTP API to a query.
type answer struct {
	Status, Error string
	Data          struct {
		Result []struct{ Value [2]any }
	}
}

// query sends one.
func (p *prometheus) query(text string) (*answer, error) {
	got, err := http.Get("http://" + p.address + "/api/v1/query?query=" + url.QueryEscape(text))
	if err != nil {
		return nil, err
	}
	defer got.Body.Close()
	a := &answer{}
	if err := json.NewDecoder(got.Body).Decode(a); err != nil {
		return nil, err
	}
	if a.Status != "success" {
		return nil, fmt.Errorf("%s: %s", text, a.Error)
	}
	return a, nil
}

// ask returns a query's first value; it fails where there is none.
func (p *prometheus) ask(text string) (float64, error) {
	a, err := p.query(text)
	if err != nil {
		return 0, err
	}
	if len(a.Data.Result) == 0 {
		return 0, fmt.Errorf("%s: no series", text)
	}
	return strconv.ParseFloat(fmt.Sprint(a.Data.Result[0].Value[1]), 64)
}

// expect waits for a query's value: a scrape is a second away.
func (p *prometheus) expect(t *testing.T, query string, want float64) {
	t.Helper()
	NewWithT(t).Eventually(func() (float64, error) { return p.ask(query) }).
		WithTimeout(30*time.Second).Should(BeNumerically("==", want), query)
}

// askAll has Prometheus answer all queries of the dashboards. A rate needs two scrapes.
func (p *prometheus) askAll(t *testing.T) {
	t.Helper()
	NewWithT(t).Eventually(func() (float64, error) { return p.ask("min(count_over_time(up[1m]))") }).
		WithTimeout(30 * time.Second).Should(BeNumerically(">=", 3))
	files, err := filepath.Glob(chart + "/dashboards/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("dashboards: %v, %v", files, err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var board struct {
			Panels []struct{ Targets []struct{ Expr string } }
		}
		if err := json.Unmarshal(content, &board); err != nil {
			t.Fatal(err)
		}
		for _, panel := range board.Panels {
			for _, target := range panel.Targets {
				p.askOne(t, target.Expr)
			}
		}
	}
}

// variables are what Grafana would put in their place.
var variables = strings.NewReplacer("$__rate_interval", "1m", `namespace="$namespace"`, `namespace!=""`, `name="$name"`, `name!=""`)

// empty are parts of queries about what did not happen here: failures, and headers that the fake GitHub does not send.
var empty = []string{`state="failed"`, "dropped_reports", "rate_limit_remaining", "credential_expiry"}

func (p *prometheus) askOne(t *testing.T, query string) {
	t.Helper()
	a, err := p.query(variables.Replace(query))
	if err != nil {
		t.Error(err)
		return
	}
	if len(a.Data.Result) == 0 && !slices.ContainsFunc(empty, func(part string) bool { return strings.Contains(query, part) }) {
		t.Errorf("no series: %s", query)
	}
}
