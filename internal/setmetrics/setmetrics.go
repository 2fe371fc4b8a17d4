// Package setmetrics creates the manager's metrics that have series for every scale set, and deletes the series with
// the last object that they describe. Several controllers measure, each of its own objects, and whoever may write these
// chooses the names of the sets that they belong to: without a common list one would keep, or make again, the series
// that another has deleted, and the alerts on them.
package setmetrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Labels of all metrics of this package, before their own.
const (
	labelName      = "name"
	labelNamespace = "namespace"
)

// StartupBuckets are in seconds. They distinguish pods on a node that has the image (seconds) from pods whose image is
// pulled (tens of seconds) and pods that need a new node (minutes). With +Inf there are ten.
var StartupBuckets = []float64{1, 2.5, 5, 10, 20, 40, 80, 160, 640}

// vector has the methods that all types of metrics share.
type vector interface {
	prometheus.Collector
	DeletePartialMatch(prometheus.Labels) int
}

var (
	mu      sync.Mutex
	vectors []vector
	// holders counts the objects that are measured by the scale set that they belong to.
	holders = map[types.NamespacedName]int{}
)

// Gauge registers a gauge gha_controller_<name> with the labels name and namespace of a scale set, followed by its own.
// Like Counter and Histogram it panics if the name is taken, which can't depend on input because names are constants.
func Gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return keep(prometheus.NewGaugeVec(prometheus.GaugeOpts{Subsystem: subsystem, Name: name, Help: help}, all(labels)))
}

// Counter registers a counter like Gauge does.
func Counter(name, help string, labels ...string) *prometheus.CounterVec {
	return keep(prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: subsystem, Name: name, Help: help},
		all(labels)))
}

// Begin makes series of a counter with one label of its own, before anything is counted: the rise from no series to 1
// would be none to Prometheus.
func Begin(counter *prometheus.CounterVec, scaleSet types.NamespacedName, values ...string) {
	for _, value := range values {
		counter.WithLabelValues(scaleSet.Name, scaleSet.Namespace, value)
	}
}

// Histogram registers a histogram like Gauge does, with the given buckets.
func Histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return keep(prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Subsystem: subsystem,
		Name:      name,
		Help:      help,
		Buckets:   buckets,
	}, all(labels)))
}

const subsystem = "gha_controller"

func all(labels []string) []string { return append([]string{labelName, labelNamespace}, labels...) }

func keep[V vector](v V) V {
	metrics.Registry.MustRegister(v)
	mu.Lock()
	defer mu.Unlock()
	vectors = append(vectors, v)
	return v
}

// Hold keeps the series of a scale set until Release, once for each object that is measured.
func Hold(set types.NamespacedName) {
	mu.Lock()
	defer mu.Unlock()
	holders[set]++
}

// Release undoes a Hold of an object that is gone and is measured no more. With the last one, all series of the scale
// set are deleted.
func Release(set types.NamespacedName) {
	mu.Lock()
	defer mu.Unlock()
	if holders[set]--; holders[set] > 0 {
		return
	}
	delete(holders, set)
	deleteSeries(set)
}

// Delete deletes all series of a scale set at once, whoever holds them.
func Delete(set types.NamespacedName) {
	mu.Lock()
	defer mu.Unlock()
	deleteSeries(set)
}

func deleteSeries(set types.NamespacedName) {
	for _, v := range vectors {
		v.DeletePartialMatch(prometheus.Labels{labelName: set.Name, labelNamespace: set.Namespace})
	}
}
