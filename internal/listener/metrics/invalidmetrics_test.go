package metrics

import (
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// Whatever is wrong with a metric, the log names it, what is wrong, and the field to correct.
func TestAMetricThatCannotBeExportedIsNamed(t *testing.T) {
	const name = "gha_job_execution_duration_seconds"
	for cause, metric := range map[string]*v1alpha1.HistogramMetric{
		"buckets must ascend": {Buckets: []float64{3, 2}},
		"duplicate label":     {Labels: []string{"event_name", "event_name"}},
	} {
		var lines []string
		log := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
		New(settings(&v1alpha1.MetricsConfig{Histograms: map[string]*v1alpha1.HistogramMetric{name: metric}}), log)
		said := strings.Join(lines, "\n")
		for _, part := range []string{cause, name, "correct it in listenerMetrics"} {
			if !strings.Contains(said, part) {
				t.Errorf("%s: the log does not say %q:\n%s", cause, part, said)
			}
		}
	}
}
