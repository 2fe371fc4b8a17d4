package autoscalingrunnerset

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// ready has one series per scale set, which goes with it.
var ready = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "gha_controller_scale_set_ready",
	Help: "1 while the scale set is registered, its listener polls and its runners start; 0 otherwise.",
}, []string{"name", "namespace"})

func init() { metrics.Registry.MustRegister(ready) }

// publishReady makes the series, so that a set that never was ready has one, too.
func publishReady(set types.NamespacedName, isReady bool) {
	value := 0.0
	if isReady {
		value = 1
	}
	ready.WithLabelValues(set.Name, set.Namespace).Set(value)
}

func unpublish(set types.NamespacedName) { ready.DeleteLabelValues(set.Name, set.Namespace) }
