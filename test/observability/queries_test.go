// Package observability tests dashboards, alerts and metrics without a cluster. Dashboards and alerts ask for metrics
// and labels that the programs export, alerts lead to a runbook, and the metrics keep Prometheus' own rules.
package observability

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/harrier-ci/harrier/hack/dashboards"
	"github.com/harrier-ci/harrier/hack/metricsdoc/catalog"
)

const (
	chart  = "../../charts/gha-runner-scale-set-controller"
	docs   = "../../docs"
	alerts = chart + "/rules/alerts.yaml"
)

var (
	// metricName finds the metrics of a query; Prometheus functions and labels have other beginnings.
	metricName = regexp.MustCompile(`\b(gha|controller_runtime|workqueue|rest_client|process|go)_[a-z0-9_]+`)
	// selected finds a metric with its matchers, and matcher the labels among them.
	selected = regexp.MustCompile(`\b((?:gha|controller_runtime|workqueue|rest_client|process|go)_[a-z0-9_]+)\{([^}]*)\}`)
	matcher  = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)`)
	grouping = regexp.MustCompile(`\bby \(([^)]*)\)`)
)

// known returns the metrics by name. A histogram is under all names that queries use for it.
func known() map[string]catalog.Metric {
	names := map[string]catalog.Metric{}
	for _, metric := range catalog.All() {
		names[metric.Name] = metric
		if metric.Type() == "histogram" {
			metric.Labels = append(slices.Clone(metric.Labels), "le")
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				names[metric.Name+suffix] = metric
			}
		}
	}
	return names
}

// checkQuery fails the test if a query asks for a metric or label that no program exports.
func checkQuery(t *testing.T, names map[string]catalog.Metric, query string) {
	t.Helper()
	asked := metricName.FindAllString(query, -1)
	if len(asked) == 0 {
		t.Errorf("%q asks for no metric", query)
	}
	labels := []string{}
	for _, name := range asked {
		metric, exported := names[name]
		if !exported {
			t.Errorf("%q asks for %s, which nobody exports", query, name)
		}
		labels = append(labels, metric.Labels...)
	}
	if foreign(asked) && !strings.Contains(query, "gha_controller_build_info") {
		t.Errorf("%q asks for metrics that other programs have too, and doesn't say which it means", query)
	}
	for _, match := range selected.FindAllStringSubmatch(query, -1) {
		for _, label := range matcher.FindAllStringSubmatch(match[2], -1) {
			if !slices.Contains(names[match[1]].Labels, label[1]) {
				t.Errorf("%q asks for label %s, which %s lacks", query, label[1], match[1])
			}
		}
	}
	for _, group := range grouping.FindAllStringSubmatch(query, -1) {
		for _, label := range strings.Split(group[1], ",") {
			if !slices.Contains(labels, strings.TrimSpace(label)) {
				t.Errorf("%q groups by %s, which no metric in it has", query, label)
			}
		}
	}
}

// foreign reports whether a metric is a library's: every controller of a cluster may export it.
func foreign(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return !strings.HasPrefix(name, "gha_") })
}

func TestDashboardsAskForWhatThereIs(t *testing.T) {
	boards, err := dashboards.Load(chart + "/dashboards")
	if err != nil || len(boards) != 3 {
		t.Fatalf("%d dashboards, %v; want three", len(boards), err)
	}
	names := known()
	for _, board := range boards {
		if board.UID == "" || board.Title == "" || len(board.Panels) == 0 {
			t.Errorf("%s lacks uid, title or panels", board.Name)
		}
		seen := map[int]bool{}
		for _, panel := range board.Panels {
			if panel.Title == "" || panel.Description == "" || seen[panel.ID] || len(panel.Targets) == 0 {
				t.Errorf("%s: panel %d %q has no title, description or query, or its id twice", board.Name, panel.ID,
					panel.Title)
			}
			seen[panel.ID] = true
			for _, target := range panel.Targets {
				checkQuery(t, names, target.Expr)
			}
		}
		for _, variable := range board.Templating.List {
			if variable.Type == "query" {
				checkQuery(t, names, fmt.Sprint(variable.Query))
			}
		}
	}
}

// GitHub was seen to count idle, busy and registered runners wrongly, so alerts and dashboards ask the manager.
func TestNobodyTrustsGitHubsFiguresOfRunners(t *testing.T) {
	gitHubs := regexp.MustCompile(`\bgha_(idle|busy|registered)_runners\b`)
	files, err := filepath.Glob(chart + "/dashboards/*.json")
	if err != nil || len(files) != 3 {
		t.Fatalf("%d dashboards, %v; want three", len(files), err)
	}
	for _, file := range append(files, alerts) {
		for _, line := range strings.Split(string(read(t, file)), "\n") {
			if asks := strings.TrimSpace(line); gitHubs.MatchString(asks) && !strings.HasPrefix(asks, "#") {
				t.Errorf("%s: %s", file, asks)
			}
		}
	}
}

// The rules of `promtool check metrics`, for all metrics whether they have series or not.
func TestMetricsKeepPrometheusRules(t *testing.T) {
	exposed, families := &strings.Builder{}, 0
	for _, metric := range catalog.All() {
		if !metric.Own() {
			continue
		}
		families++
		fmt.Fprintf(exposed, "# HELP %s %s\n# TYPE %[1]s %[3]s\n", metric.Name, metric.Help, metric.Type())
		if metric.Type() == "histogram" {
			fmt.Fprintf(exposed, "%s_bucket{le=\"+Inf\"} 1\n%[1]s_sum 1\n%[1]s_count 1\n", metric.Name)
		} else {
			fmt.Fprintf(exposed, "%s 1\n", metric.Name)
		}
	}
	if families < 35 {
		t.Errorf("%d families of our own, want all of them", families)
	}
	problems, err := promlint.New(strings.NewReader(exposed.String())).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
}

func TestReferenceIsOfThisCode(t *testing.T) {
	reference := string(read(t, docs+"/metrics.md"))
	for _, metric := range catalog.All() {
		if metric.Own() && !strings.Contains(reference,
			"| `"+metric.Name+"` | "+metric.Type()+" | "+strings.Join(metric.Labels, ", ")+" | "+metric.Help+" |") {
			t.Errorf("docs/metrics.md lacks %s as it is; run make generate", metric.Name)
		}
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
