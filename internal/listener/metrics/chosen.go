package metrics

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/config"
)

// chosen is a choice of metrics. Its methods ignore metrics that are not part of it.
type chosen struct {
	configured *v1alpha1.MetricsConfig
	preset     string
	// few is true if metrics of jobs have the default labels, of which only the result is about the job.
	few bool
	// ofSet has the label values that all metrics of the scale set share.
	ofSet prometheus.Labels
	// path is the path at which the metrics are served.
	path       string
	registry   *prometheus.Registry
	gauges     map[string]*prometheus.GaugeVec
	counters   map[string]*prometheus.CounterVec
	histograms map[string]*prometheus.HistogramVec
	// labels holds the label names of each metric, and kinds the kinds of jobs for which one of jobs has series.
	labels map[string][]string
	kinds  map[string]*kinds
}

// choose returns the metrics that the configuration selects, beside those about the listener itself. It logs what it
// leaves out.
func choose(settings *config.Config, o *own, log logr.Logger) *chosen {
	c := &chosen{
		configured: settings.Metrics, preset: settings.MetricsLabels, ofSet: labelsOfSet(settings),
		few:  settings.Metrics == nil && settings.MetricsLabels != config.MetricsLabelsARC,
		path: endpoint(settings), registry: prometheus.NewRegistry(),
		gauges: map[string]*prometheus.GaugeVec{}, counters: map[string]*prometheus.CounterVec{},
		histograms: map[string]*prometheus.HistogramVec{}, labels: map[string][]string{}, kinds: map[string]*kinds{},
	}
	labels := prometheus.Labels{labelName: c.ofSet[labelName], labelNamespace: c.ofSet[labelNamespace]}
	prometheus.WrapRegistererWith(labels, c.registry).MustRegister(
		o.dropped, o.requests, o.decisions, o.remaining, o.reset, o.expires, o.session, o.wanted, o.polled)
	preset := few
	if settings.MetricsLabels == config.MetricsLabelsARC {
		preset = arc
	}
	known, wanted := defaults(preset), settings.Metrics
	if wanted == nil {
		wanted = known
	}
	for name, metric := range wanted.Gauges {
		if _, ok := known.Gauges[name]; isUsable(log, name, ok, metric != nil) {
			logRefused(log, name, c.addGauge(name, metric.Labels))
		}
	}
	for name, metric := range wanted.Counters {
		if _, ok := known.Counters[name]; isUsable(log, name, ok, metric != nil) {
			logRefused(log, name, c.addCounter(name, metric.Labels))
		}
	}
	for name, metric := range wanted.Histograms {
		if base, ok := known.Histograms[name]; isUsable(log, name, ok, metric != nil) {
			logRefused(log, name, c.addHistogram(name, metric, base.Buckets))
		}
	}
	return c
}

// endpoint returns the path at which metrics are served: ARC's default unless the configuration has a path.
func endpoint(settings *config.Config) string {
	if !strings.HasPrefix(settings.MetricsEndpoint, "/") {
		return "/metrics"
	}
	return settings.MetricsEndpoint
}

// isUsable reports whether the configuration describes a metric that exists. It logs a metric that does not.
func isUsable(log logr.Logger, name string, known, given bool) bool {
	if !known {
		log.Info(
			"listenerMetrics names a metric that does not exist as this kind of metric, skipping it",
			"metric", name,
		)
	}
	return known && given
}

// logRefused logs why a metric could not be registered: a label's name is invalid or occurs twice, or its buckets don't
// ascend.
func logRefused(log logr.Logger, name string, err error) {
	if err != nil {
		log.Error(err, "A metric can't be exported, correct it in listenerMetrics", "metric", name)
	}
}

func (c *chosen) addGauge(name string, labels []string) error {
	gauge := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help[name]}, labels)
	if err := c.registry.Register(gauge); err != nil {
		return err
	}
	c.gauges[name], c.labels[name] = gauge, labels
	return nil
}

func (c *chosen) addCounter(name string, labels []string) error {
	counter := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help[name]}, labels)
	if err := c.registry.Register(counter); err != nil {
		return err
	}
	c.counters[name], c.labels[name], c.kinds[name] = counter, labels, &kinds{}
	return nil
}

// addHistogram adds a histogram. It has the given buckets unless its configuration names others.
func (c *chosen) addHistogram(name string, metric *v1alpha1.HistogramMetric, buckets []float64) error {
	if len(metric.Buckets) > 0 {
		buckets = metric.Buckets
	}
	if err := errors.Join(ascending(buckets), notReserved(metric.Labels)); err != nil {
		return err
	}
	histogram := prometheus.NewHistogramVec(
		prometheus.HistogramOpts{Name: name, Help: help[name], Buckets: buckets}, metric.Labels,
	)
	if err := c.registry.Register(histogram); err != nil {
		return err
	}
	c.histograms[name], c.labels[name], c.kinds[name] = histogram, metric.Labels, &kinds{}
	return nil
}

func (c *chosen) set(name string, value float64) {
	if gauge, ok := c.gauges[name]; ok {
		gauge.With(pick(c.ofSet, c.labels[name])).Set(value)
	}
}

func (c *chosen) count(name string, job *actions.JobMessageBase, result string) {
	if counter, ok := c.counters[name]; ok {
		labels := pick(labelsOfJob(c.ofSet, c.few, job, result), c.labels[name])
		counter.With(labels).Inc()
		c.kinds[name].use(labels, counter)
	}
}

// measure observes a duration in whole seconds, as ARC does.
func (c *chosen) measure(name string, job *actions.JobMessageBase, result string, duration time.Duration) {
	if histogram, ok := c.histograms[name]; ok {
		seconds := max(0, duration.Truncate(time.Second).Seconds())
		labels := pick(labelsOfJob(c.ofSet, c.few, job, result), c.labels[name])
		histogram.With(labels).Observe(seconds)
		c.kinds[name].use(labels, histogram)
	}
}

// notReserved refuses the label le, which a histogram's buckets use. The Prometheus library panics on it, as it does on
// buckets that don't ascend.
func notReserved(labels []string) error {
	if slices.Contains(labels, "le") {
		return errors.New("label le is reserved in histograms")
	}
	return nil
}

func ascending(buckets []float64) error {
	if len(buckets) > maxBuckets {
		return fmt.Errorf("a histogram can have %d buckets, not %d", maxBuckets, len(buckets))
	}
	for i := 1; i < len(buckets); i++ {
		if buckets[i] <= buckets[i-1] {
			return fmt.Errorf("buckets must ascend, but %g comes after %g", buckets[i], buckets[i-1])
		}
	}
	return nil
}
