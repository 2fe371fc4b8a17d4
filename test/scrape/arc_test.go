package scrape

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/harrier-ci/harrier/hack/dashboards"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/test/prometheus"
	"github.com/harrier-ci/harrier/test/rig"
)

// panel is a panel of a dashboard made for actions-runner-controller: a query, and the labels in its legend.
type panel struct {
	query  string
	legend []string
}

// Selectors by which such dashboards choose scale sets and jobs, without braces.
var (
	byName = []string{
		``,
		`name="$name", namespace="$namespace"`,
		`name=~"$name|other", namespace=~".+"`,
	}
	byPod = []string{
		`actions_github_com_scale_set_name="$name"`,
		`actions_github_com_scale_set_name=~"$name", actions_github_com_scale_set_namespace=~"$namespace"`,
		`organization="org", pod=~"$name-.+-listener"`,
	}
	byNameAndPod = []string{`actions_github_com_scale_set_name=~".+", namespace=~"$namespace"`}
	byJob        = []string{
		`repository="web"`,
		`repository=~".+", job_name="build", event_name=~"push|pull_request"`,
		`actions_github_com_scale_set_name="$name", repository="web"`,
	}
)

// labelled has the selectors that work for metrics of jobs, and the labels to group them by.
type labelled struct{ selectors, groups []string }

var (
	fromPod = []string{"actions_github_com_scale_set_name", "actions_github_com_scale_set_namespace", "organization"}
	few     = labelled{slices.Concat(byName, byPod, byNameAndPod),
		slices.Concat(fromPod, []string{"name", "namespace"})}
	arc = labelled{slices.Concat(few.selectors, byJob),
		slices.Concat(few.groups, []string{"repository", "job_name", "event_name"})}
	written = labelled{slices.Concat(byPod, byJob),
		slices.Concat(fromPod, []string{"repository", "job_name", "event_name", "job_workflow_name",
			"job_workflow_target"})}
)

// panelsOf returns panels for everything that actions-runner-controller exports.
func panelsOf(jobs labelled) []panel {
	all := controllerPanels()
	for _, of := range few.selectors {
		for _, gauge := range gauges {
			all = append(all, gaugePanels("gha_"+gauge, of)...)
		}
	}
	for _, of := range jobs.selectors {
		for _, counter := range []string{"gha_started_jobs_total", "gha_completed_jobs_total"} {
			all = append(all, counterPanels(counter, of, jobs.groups)...)
		}
		all = append(all, panel{`sum by (job_result) (increase(gha_completed_jobs_total{` + of + `}[$__range]))`,
			[]string{"job_result"}},
			panel{query: `sum(rate(gha_completed_jobs_total{job_result="succeeded"` + and(of) +
				`}[$__range])) / sum(rate(gha_completed_jobs_total{` + of + `}[$__range]))`})
		for _, histogram := range []string{"gha_job_startup_duration_seconds", "gha_job_execution_duration_seconds"} {
			all = append(all, histogramPanels(histogram, of, jobs.groups)...)
		}
	}
	return all
}

// gauges are the listener's gauges, without gha_.
var gauges = []string{
	"assigned_jobs", "running_jobs", "registered_runners", "busy_runners", "idle_runners", "min_runners", "max_runners",
	"desired_runners",
}

// and returns a part of a selector that follows another.
func and(of string) string {
	if of == "" {
		return ""
	}
	return ", " + of
}

func gaugePanels(gauge, of string) []panel {
	return []panel{
		{query: `sum(` + gauge + `{` + of + `}) + 1`},
		{`max by (namespace, name) (` + gauge + `{` + of + `})`, []string{"namespace", "name"}},
		{`sum by (organization) (` + gauge + `{` + of + `})`, []string{"organization"}},
		{`sum by (actions_github_com_scale_set_name) (` + gauge + `{` + of + `})`, []string{"actions_github_com_scale_set_name"}},
	}
}

func counterPanels(counter, of string, groups []string) []panel {
	found := []panel{{query: `sum(rate(` + counter + `{` + of + `}[$__range])) * 60`}}
	for _, group := range groups {
		found = append(found,
			panel{`sum by (` + group + `) (increase(` + counter + `{` + of + `}[$__range]))`, []string{group}})
	}
	return found
}

func histogramPanels(name, of string, groups []string) []panel {
	found := []panel{
		{`sum by (le) (increase(` + name + `_bucket{` + of + `}[$__range]))`, []string{"le"}},
		{query: `histogram_quantile(0.95, sum by (le) (rate(` + name + `_bucket{` + of + `}[$__range])))`},
		{query: `histogram_quantile(0.5, rate(` + name + `_bucket{` + of + `}[$__range]))`},
		{query: `sum(rate(` + name + `_sum{` + of + `}[$__range])) / sum(rate(` + name + `_count{` + of + `}[$__range]))`},
	}
	for _, seconds := range []string{"30", "60", "120", "300", "600", "1800"} {
		// Prometheus 3 writes 60.0.
		le := `le=~"` + seconds + `|` + seconds + `[.]0"`
		found = append(found, panel{query: `sum(rate(` + name + `_bucket{` + le + and(of) +
			`}[$__range])) / sum(rate(` +
			name + `_count{` + of + `}[$__range]))`})
	}
	for _, group := range groups {
		found = append(found, panel{`histogram_quantile(0.9, sum by (le, ` + group + `) (rate(` + name +
			`_bucket{` + of +
			`}[$__range])))`, []string{group}})
	}
	return found
}

func controllerPanels() (found []panel) {
	for _, gauge := range []string{"pending", "running", "failed"} {
		for _, of := range []string{``, `name=~"$name", namespace=~"$namespace"`, `organization="org"`} {
			found = append(found,
				panel{`sum by (name) (gha_controller_` + gauge + `_ephemeral_runners{` + of + `})`, []string{"name"}})
		}
	}
	for _, of := range []string{``, `namespace=~"$system"`, `name=~"$name-.+"`} {
		found = append(found,
			panel{`sum by (namespace) (gha_controller_running_listeners{` + of + `})`, []string{"namespace"}})
	}
	for _, library := range []string{
		`rate(controller_runtime_reconcile_time_seconds_sum{namespace="$system"}[$__range])`, `controller_runtime_active_workers`,
		`rate(workqueue_queue_duration_seconds_sum{namespace="$system"}[$__range])`,
		`rate(controller_runtime_reconcile_errors_total{namespace="$system"}[$__range])`,
	} {
		found = append(found, panel{library, []string{"controller"}})
	}
	return append(found,
		panel{`sum by (name) (workqueue_depth{namespace="$system"})`, []string{"name"}},
		panel{`sum by (method, code) (rate(rest_client_requests_total{namespace="$system"}[$__range]))`,
			[]string{"method", "code"}},
		panel{`scrape_duration_seconds`, []string{"job"}},
	)
}

// suggested returns the listenerMetrics that the values of actions-runner-controller suggest, shortened: no metric of a
// job has the labels name and namespace, and the buckets are the user's.
func suggested() rig.Values {
	started := []string{
		"repository", "organization", "enterprise", "job_name", "event_name", "job_workflow_ref", "job_workflow_name",
		"job_workflow_target",
	}
	completed := append(slices.Clone(started), "job_result")
	buckets := []float64{0.5, 1, 30, 60, 120, 300, 600, 1800, 3600}
	ofSet := rig.Values{}
	for _, gauge := range gauges {
		ofSet["gha_"+gauge] = rig.Values{"labels": []string{"name", "namespace", "repository", "organization",
			"enterprise"}}
	}
	return rig.Values{
		"gauges": ofSet,
		"counters": rig.Values{"gha_started_jobs_total": rig.Values{"labels": started},
			"gha_completed_jobs_total": rig.Values{"labels": completed}},
		"histograms": rig.Values{
			"gha_job_startup_duration_seconds":   rig.Values{"labels": started, "buckets": buckets},
			"gha_job_execution_duration_seconds": rig.Values{"labels": completed, "buckets": buckets},
		},
	}
}

// writtenSet is the name of the scale set beside the rig's own.
const writtenSet = "written"

// Dashboards made for actions-runner-controller show something, and so do our own. Metrics are read by the chart's
// monitors and by the page's configuration for a Prometheus without the operator, with each of the two presets and with
// the metrics that ARC's values suggest.
func TestDashboardsMadeForARC(t *testing.T) {
	for preset, labels := range map[string]labelled{"few": few, "arc": arc} {
		t.Run(preset, func(t *testing.T) {
			s := startWith(t, rig.Options{}, rig.Values{"listenerLabels": preset})
			s.InstallSet(writtenSet, rig.Values{"listenerMetrics": suggested()})
			s.AwaitListening(writtenSet)
			targets := s.targets(t)
			added := rig.Values{
				"relabelings": []rig.Values{{"targetLabel": "cluster", "replacement": "production"}},
				"metricRelabelings": []rig.Values{
					{"sourceLabels": []string{"namespace"}, "targetLabel": "exported_namespace"}},
			}
			monitors := startPrometheus(t, s.monitored(t, targets, added), len(targets))
			page := startPrometheus(t, documented(t, targets), len(targets))
			s.runAlike(t, monitors, page)
			for _, p := range []*observer{monitors, page} {
				p.showAll(t, s.variables(rig.DefaultSet), panelsOf(labels))
				p.showAll(t, s.variables(writtenSet), panelsOf(written))
			}
			monitors.showAll(t, s.variables(rig.DefaultSet), ownPanels(t))
			monitors.showAll(t, s.variables(rig.DefaultSet), []panel{
				{`sum by (exported_namespace) (gha_running_jobs{cluster="production", exported_namespace="$namespace"})`, []string{"exported_namespace"}},
			})
		})
	}
}

// runAlike runs equal jobs in both scale sets, and again after the first were scraped: the first value of a series is
// no increase.
func (s *site) runAlike(t *testing.T, observers ...*observer) {
	t.Helper()
	const each = 2
	for round := range 2 {
		for _, set := range []string{rig.DefaultSet, writtenSet} {
			s.WaitDone(s.Queue(fakegithub.JobRequest{
				ScaleSet: set, Count: each, Repository: "web", Name: "build", Event: "push",
				WorkflowRef: "org/web/.github/workflows/ci.yml@refs/heads/main",
			}))
		}
		for _, p := range observers {
			p.expect(t, "sum(gha_completed_jobs_total)", float64((round+1)*2*each))
		}
	}
}

// ownPanels returns the panels of the chart's dashboards that ask for metrics of jobs.
func ownPanels(t *testing.T) (found []panel) {
	t.Helper()
	for _, board := range boards(t) {
		for _, own := range board.Panels {
			for _, target := range own.Targets {
				if strings.Contains(target.Expr, "gha_job_") || strings.Contains(target.Expr, "gha_completed_") {
					found = append(found, panel{query: target.Expr})
				}
			}
		}
	}
	return found
}

func (s *site) variables(set string) map[string]string {
	return map[string]string{
		"__range":         "10m",
		"__rate_interval": "10m",
		"name":            set,
		"namespace":       s.RunnerNamespace,
		"system":          s.SystemNamespace,
	}
}

// showAll waits until no panel is empty.
func (p *observer) showAll(t *testing.T, variables map[string]string, panels []panel) {
	t.Helper()
	NewWithT(t).Eventually(func() (queries []string, err error) {
		var empty []panel
		for _, shown := range panels {
			found, err := p.Query(dashboards.Resolve(shown.query, variables))
			if err != nil {
				return nil, err
			}
			if !slices.ContainsFunc(found, shown.shows) {
				empty, queries = append(empty, shown), append(queries, shown.query)
			}
		}
		panels = empty
		return queries, nil
	}).WithTimeout(rig.Patience).WithPolling(time.Second).Should(BeEmpty(), "empty panels of %v", variables)
}

// shows reports whether a series has a value, and a text in the legend.
func (p panel) shows(series prometheus.Series) bool {
	named := !slices.ContainsFunc(p.legend, func(label string) bool { return series.Metric[label] == "" })
	return named && fmt.Sprint(series.Value[1]) != "NaN"
}
