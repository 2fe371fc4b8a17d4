package setmetrics_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/internal/setmetrics"
)

// The series of a set end with the last object that is measured, and those of others stay.
func TestSeriesEndWithTheLastObjectOfASet(t *testing.T) {
	gauge := setmetrics.Gauge("test_gauge", "For a test.", "reason")
	counter := setmetrics.Counter("test_total", "For a test.")
	histogram := setmetrics.Histogram("test_seconds", "For a test.", setmetrics.StartupBuckets)
	for _, namespace := range []string{"a", "b"} {
		gauge.WithLabelValues("set", namespace, "why").Set(1)
		counter.WithLabelValues("set", namespace).Inc()
		histogram.WithLabelValues("set", namespace).Observe(1)
	}
	of := types.NamespacedName{Namespace: "a", Name: "set"}
	setmetrics.Hold(of)
	setmetrics.Hold(of)
	for _, want := range []int{2, 1} {
		setmetrics.Release(of)
		for name, count := range map[string]int{
			"gauge": testutil.CollectAndCount(gauge), "counter": testutil.CollectAndCount(counter),
			"histogram": testutil.CollectAndCount(histogram),
		} {
			if count != want {
				t.Errorf("%s: %d sets have series, want %d", name, count, want)
			}
		}
	}
}
