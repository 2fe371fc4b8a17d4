package controllertest

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Series returns the series of a metric with these labels, and perhaps others, as the manager serves them.
func Series(t testing.TB, name string, labels prometheus.Labels) (found []*dto.Metric) {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			shown := Labels(metric)
			same := true
			for label, want := range labels {
				value, named := shown[label]
				same = same && named && value == want
			}
			if same {
				found = append(found, metric)
			}
		}
	}
	return found
}

// Labels returns the labels of a series.
func Labels(series *dto.Metric) prometheus.Labels {
	labels := prometheus.Labels{}
	for _, label := range series.GetLabel() {
		labels[label.GetName()] = label.GetValue()
	}
	return labels
}

// Value returns the value of a gauge or counter, or the number of observations of a histogram; of several series with
// these labels the sum, 0 if there is none.
func Value(t testing.TB, name string, labels prometheus.Labels) (sum float64) {
	t.Helper()
	for _, series := range Series(t, name, labels) {
		sum += series.GetGauge().GetValue() + series.GetCounter().GetValue() +
			float64(series.GetHistogram().GetSampleCount())
	}
	return sum
}
