// Package catalog lists the metrics that manager, listeners and ledger export, from the code that registers them.
// hack/metricsdoc writes the reference from it, and tests check that dashboards and alerts use only metrics that exist.
package catalog

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/harrier-ci/harrier/internal/listener/config"
	"github.com/harrier-ci/harrier/internal/listener/metrics"
	_ "github.com/harrier-ci/harrier/internal/manager" // registers what the manager exports
	"github.com/harrier-ci/harrier/operations/history/server"
	"github.com/harrier-ci/harrier/operations/history/watch"
)

// Metric is one family.
type Metric struct {
	Name, Help string
	Labels     []string
	// Source is "manager", "listener" or "ledger".
	Source string
}

// Type derives counter, summary, histogram or gauge from the name, by Prometheus' naming rules. A test checks with
// promlint that the names follow them.
func (m *Metric) Type() string {
	switch {
	case strings.HasSuffix(m.Name, "_total"):
		return "counter"
	case m.Name == "go_gc_duration_seconds":
		return "summary"
	case strings.HasSuffix(m.Name, "_seconds") && !strings.HasSuffix(m.Name, "_timestamp_seconds") &&
		!slices.Contains(runtimeGauges, m.Name):
		return "histogram"
	}
	return "gauge"
}

// runtimeGauges are metrics of controller-runtime and Go that are named like histograms and aren't.
var runtimeGauges = []string{
	"workqueue_unfinished_work_seconds", "workqueue_longest_running_processor_seconds", "process_start_time_seconds",
}

// All returns every metric, the manager's first, and sorted by name.
func All() []Metric {
	listeners := metrics.New(&config.Config{}, logr.Discard())
	ledger := prometheus.NewRegistry()
	watch.NewMetrics(ledger)
	server.Handler(server.Options{Registry: ledger})
	all := slices.Concat(of("manager", ctrlmetrics.Registry.(describer)), of("listener", listeners),
		of("ledger", ledger))
	slices.SortFunc(all, func(a, b Metric) int {
		return cmp.Or(cmp.Compare(b.Source, a.Source), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// Own reports whether the metric is the product's own, not a library's.
func (m *Metric) Own() bool { return strings.HasPrefix(m.Name, "gha_") }

// describer is a registry or something that contains one.
type describer interface{ Describe(chan<- *prometheus.Desc) }

func of(source string, described describer) []Metric {
	descriptions := make(chan *prometheus.Desc)
	go func() {
		described.Describe(descriptions)
		close(descriptions)
	}()
	var list []Metric
	for description := range descriptions {
		metric := parse(description.String())
		metric.Source = source
		list = append(list, metric)
	}
	return list
}

// A description has no accessors, only a text: Desc{fqName: "…", help: "…", constLabels: {a="b"}, variableLabels:
// {c,d}}.
var (
	form       = regexp.MustCompile(`(?s)^Desc\{fqName: "(.*?)", help: "(.*?)", constLabels: \{(.*?)\}, variableLabels: \{(.*?)\}\}$`)
	constLabel = regexp.MustCompile(`(\w+)="`)
)

func parse(description string) Metric {
	parts := form.FindStringSubmatch(description)
	if parts == nil {
		return Metric{Name: description} // a test finds it
	}
	metric := Metric{Name: parts[1], Help: parts[2]}
	for _, label := range constLabel.FindAllStringSubmatch(parts[3], -1) {
		metric.Labels = append(metric.Labels, label[1])
	}
	if parts[4] != "" {
		metric.Labels = append(metric.Labels, strings.Split(parts[4], ",")...)
	}
	return metric
}
