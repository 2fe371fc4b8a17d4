package setmetrics_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/internal/setmetrics"
)

func TestDeleteEndsTheSeriesOfOneSet(t *testing.T) {
	gauge := setmetrics.Gauge("test_gauge", "For a test.", "reason")
	counter := setmetrics.Counter("test_total", "For a test.")
	histogram := setmetrics.Histogram("test_seconds", "For a test.", setmetrics.StartupBuckets)
	for _, namespace := range []string{"a", "b"} {
		gauge.WithLabelValues("set", namespace, "why").Set(1)
		counter.WithLabelValues("set", namespace).Inc()
		histogram.WithLabelValues("set", namespace).Observe(1)
	}
	setmetrics.Delete(types.NamespacedName{Namespace: "a", Name: "set"})
	for name, count := range map[string]int{
		"gauge": testutil.CollectAndCount(gauge), "counter": testutil.CollectAndCount(counter),
		"histogram": testutil.CollectAndCount(histogram),
	} {
		if count != 1 {
			t.Errorf("%s: %d sets have series, want the one that is left", name, count)
		}
	}
}
