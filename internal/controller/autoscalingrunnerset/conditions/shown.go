package conditions

import (
	"cmp"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/capacity/limits"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// This file has the series of a set, and the Event that goes with the one about its limit.

// readiness has one series per scale set, troubles one per trouble of a set, so none for a healthy set. All are deleted
// with the set.
var (
	readiness = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "gha_controller_scale_set_ready",
		Help: "1 while the scale set is registered, its listener polls and its runners start; 0 otherwise.",
	}, []string{"name", "namespace"})
	troubles = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "gha_controller_scale_set_trouble",
		Help: "1 while a condition of the scale set reports a problem, by condition and reason; no series while " +
			"none does.",
	}, []string{"name", "namespace", "condition", "reason"})
)

func init() { metrics.Registry.MustRegister(readiness, troubles) }

// trouble is a condition as the metrics show it.
type trouble struct{ condition, reason string }

// Shown has the series of one set between passes. The zero value has none.
type Shown struct {
	troubles  []trouble
	schedules []string
	// settled is the reason of the limit that Event and series told last, nil before the first pass. limit is the limit
	// that held last, with the time since when.
	settled *limits.Settled
	limit   v1alpha1.Limit
}

// Show sets the series of the set's conditions. A set that has never been ready has a series with 0, and one that is
// being deleted has none, so that no alert fires for it. Series of causes that are over are deleted one by one, so that
// no scrape misses a cause that lasts.
func (s *Shown) Show(set types.NamespacedName, conditions []metav1.Condition, deleting bool) {
	before := s.troubles
	s.troubles = nil
	if deleting {
		Unpublish(set)
		return
	}
	value := 0.0
	if meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionReady) {
		value = 1
	}
	readiness.WithLabelValues(set.Name, set.Namespace).Set(value)
	for _, a := range announcements {
		c := withStatus(conditions, a.conditionType, a.status)
		// what the listener waits for is a trouble already
		if c == nil || a.summary || c.Reason == reasonWaitingForScaleSet {
			continue
		}
		t := trouble{c.Type, report.KnownReason(c.Reason)}
		s.troubles = append(s.troubles, t)
		troubles.WithLabelValues(set.Name, set.Namespace, t.condition, t.reason).Set(1)
	}
	for _, t := range before {
		if !slices.Contains(s.troubles, t) {
			troubles.DeleteLabelValues(set.Name, set.Namespace, t.condition, t.reason)
		}
	}
}

// Unpublish deletes all series of a set that is gone.
func Unpublish(set types.NamespacedName) {
	for _, gauge := range []*prometheus.GaugeVec{readiness, troubles, limited, effectiveMin, effectiveMax, untilSeconds,
		scheduleOpen} {
		gauge.DeletePartialMatch(prometheus.Labels{"name": set.Name, "namespace": set.Namespace})
	}
}

var (
	effectiveMin = numberGauge("effective_min_runners",
		"Idle runners that are kept: minRunners of the spec or of an open schedule, within limits.")
	effectiveMax = numberGauge("effective_max_runners",
		"Most runners of the scale set: maxRunners of the spec or of an open schedule, within limits; 2147483647 "+
			"if there is no limit.")
	untilSeconds = numberGauge("effective_until_timestamp_seconds",
		"When a schedule may change these numbers next, as Unix time; no series if none will.")
	scheduleOpen = numberGauge("schedule_open", "1 while the window of a schedule is open, 0 while it is closed.",
		"schedule")
)

func numberGauge(name, help string, labels ...string) *prometheus.GaugeVec {
	gauge := prometheus.NewGaugeVec(prometheus.GaugeOpts{Subsystem: "gha_controller", Name: name, Help: help},
		append([]string{"name", "namespace"}, labels...))
	metrics.Registry.MustRegister(gauge)
	return gauge
}

// ShowNumbers sets the series of the numbers in force. A set that is being deleted has none; see Show.
func (s *Shown) ShowNumbers(set types.NamespacedName, f *Findings) {
	before := s.schedules
	s.schedules = nil
	if f.Deleting() {
		return
	}
	n := &f.Numbers
	effectiveMin.WithLabelValues(set.Name, set.Namespace).Set(float64(n.Min))
	effectiveMax.WithLabelValues(set.Name, set.Namespace).Set(float64(n.Max))
	if n.Until.IsZero() {
		untilSeconds.DeleteLabelValues(set.Name, set.Namespace)
	} else {
		untilSeconds.WithLabelValues(set.Name, set.Namespace).Set(float64(n.Until.Unix()))
	}
	for _, schedule := range f.Set.Spec.Schedules {
		open := 0.0
		if slices.Contains(n.Open, schedule.Name) {
			open = 1
		}
		s.schedules = append(s.schedules, schedule.Name)
		scheduleOpen.WithLabelValues(set.Name, set.Namespace, schedule.Name).Set(open)
	}
	for _, name := range before {
		if !slices.Contains(s.schedules, name) {
			scheduleOpen.DeleteLabelValues(set.Name, set.Namespace, name)
		}
	}
}

// reasonLimitChanged is the reason of all Events about a change of the limit, so that somebody can wait for it.
const reasonLimitChanged = "LimitChanged"

var limited = numberGauge("scale_set_limited",
	"1 for what keeps the scale set from running more jobs, by reason; no series while nothing does. "+
		"It follows within a minute.", "reason")

// ShowLimit writes what limits a set into the status that is about to be written, sets the series about it, and returns
// the Event about a change of it, if there is one. It also returns the time to look again; zero means never. Series and
// Event leave out what passes within a minute. A manager that has just started goes on with what the status says.
func (s *Shown) ShowLimit(
	set types.NamespacedName, f *Findings, status *v1alpha1.AutoscalingRunnerSetStatus,
) (event *report.Event, again time.Time) {
	if f.Deleting() {
		s.settled, status.LimitedBy = nil, nil
		return nil, time.Time{}
	}
	if s.settled == nil {
		s.settled = limits.SettledOn("")
		if known := f.Set.Status.LimitedBy; known != nil {
			s.settled, s.limit = limits.SettledOn(report.KnownReason(known.Reason)), *known
		}
		s.showLimit(set, "", s.settled.Told())
	}
	limit, before := f.limit(status), s.settled.Told()
	seen := report.KnownReason(limit.Reason)
	told, again := s.settled.Note(seen, f.ObservedAt)
	status.LimitedBy = nil
	switch {
	case limit.Kind != limits.None:
		if s.limit.Reason != limit.Reason {
			s.limit.Since = metav1.Time{Time: f.ObservedAt.Truncate(time.Second)} // as the API server keeps it
		}
		s.limit.Kind, s.limit.Reason, s.limit.Message = limit.Kind, limit.Reason, limit.Message
		status.LimitedBy = s.limit.DeepCopy()
	case told != report.KnownReason(s.limit.Reason): // it didn't end for a moment only
		s.limit = v1alpha1.Limit{}
	}
	if told == before {
		return nil, again
	}
	s.showLimit(set, before, told)
	note := "Nothing limits the scale set any more"
	if told != "" {
		note = "What limits the scale set now is " + told + ": " + report.Abridged(cmp.Or(limit.Message, told))
	}
	if before != "" {
		note += "; until now: " + before
	}
	event = new(report.Normal(reasonLimitChanged, "Scale", note))
	return event, again
}

// showLimit moves the series from one reason to another.
func (s *Shown) showLimit(set types.NamespacedName, before, told string) {
	if before != "" {
		limited.DeleteLabelValues(set.Name, set.Namespace, before)
	}
	if told != "" {
		limited.WithLabelValues(set.Name, set.Namespace, told).Set(1)
	}
}
