package conditions

import (
	"cmp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/capacity/limits"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// announcement says what is told, besides the set's status, of a condition that has a certain status.
type announcement struct {
	conditionType string
	status        metav1.ConditionStatus
	// event makes the Event about it, nil if there is none.
	event func(reason, action, note string) report.Event
	// always is set if the Event is recorded even if the condition was absent or Unknown before, and reasons if it is
	// for a change of the reason alone, too.
	always, reasons bool
	// summary is set if the condition summarizes others. Otherwise it names a cause that keeps jobs waiting or that
	// nobody intended, and the metrics show it as a trouble.
	summary bool
}

// announcements are all that is told. The cause of a stalled set has a single Event, for Stalled.
var announcements = []announcement{
	{conditionType: v1alpha1.ConditionStalled, status: metav1.ConditionTrue, event: report.Warning, always: true,
		reasons: true, summary: true},
	{conditionType: v1alpha1.ConditionVersionSupported, status: metav1.ConditionFalse},
	{conditionType: v1alpha1.ConditionCredentialsValid, status: metav1.ConditionFalse},
	{conditionType: v1alpha1.ConditionScaleSetRegistered, status: metav1.ConditionFalse, event: report.Warning,
		always: true, reasons: true},
	{conditionType: v1alpha1.ConditionLabelsInSync, status: metav1.ConditionFalse, event: report.Warning, always: true},
	{conditionType: v1alpha1.ConditionListenerTemplateAccepted, status: metav1.ConditionFalse, event: report.Warning,
		always: true},
	{conditionType: v1alpha1.ConditionSchedulesAccepted, status: metav1.ConditionFalse, event: report.Warning,
		always: true},
	{conditionType: v1alpha1.ConditionListenerReady, status: metav1.ConditionFalse, event: report.Warning,
		reasons: true},
	{conditionType: v1alpha1.ConditionRunnerOutdated, status: metav1.ConditionTrue},
	// gha_controller_runner_version_end_timestamp_seconds has an alert of its own
	{conditionType: v1alpha1.ConditionRunnerVersionExpires, status: metav1.ConditionTrue, event: report.Warning,
		always: true, reasons: true, summary: true},
	{conditionType: v1alpha1.ConditionPodTemplateRefused, status: metav1.ConditionTrue, event: report.Warning,
		always: true, reasons: true},
	{conditionType: v1alpha1.ConditionDegraded, status: metav1.ConditionTrue, event: report.Warning, always: true},
	{conditionType: v1alpha1.ConditionQuotaExceeded, status: metav1.ConditionTrue, event: report.Warning, always: true},
	{conditionType: v1alpha1.ConditionRunnersPending, status: metav1.ConditionTrue, event: report.Warning, always: true,
		reasons: true},
	{conditionType: v1alpha1.ConditionVolumeClaimsReady, status: metav1.ConditionFalse, event: report.Warning,
		always: true, reasons: true},
	{conditionType: v1alpha1.ConditionRunnersUnprotected, status: metav1.ConditionTrue, event: report.Warning,
		always: true, reasons: true},
	{conditionType: v1alpha1.ConditionDeletionBlocked, status: metav1.ConditionTrue, event: report.Warning,
		always: true},
	{conditionType: v1alpha1.ConditionStatisticsDoubtful, status: metav1.ConditionTrue, event: report.Warning,
		always: true},
	{conditionType: v1alpha1.ConditionFeedbackPermitted, status: metav1.ConditionFalse, event: report.Warning,
		always: true},
	{conditionType: v1alpha1.ConditionDrained, status: metav1.ConditionTrue, event: report.Normal, always: true,
		summary: true},
	{conditionType: v1alpha1.ConditionReady, status: metav1.ConditionTrue, event: report.Normal, always: true,
		summary: true},
}

// Transitions returns the Events for a change of conditions: the set is stuck, can't reach GitHub, has lost its
// listener, has runners that fail or are refused, or is ready.
func Transitions(before, after []metav1.Condition) []report.Event {
	var events []report.Event
	stalled := withStatus(after, v1alpha1.ConditionStalled, metav1.ConditionTrue)
	for _, a := range announcements {
		was, is := meta.FindStatusCondition(before, a.conditionType), withStatus(after, a.conditionType, a.status)
		if a.event == nil || is == nil || !a.isNews(was, is) ||
			(stalled != nil && stalled != is && stalled.Reason == is.Reason) {
			continue
		}
		events = append(events, a.event(is.Reason, "Reconcile",
			cmp.Or(is.Message, "The scale set is registered and its listener polls")))
	}
	return events
}

// isNews reports whether a condition with the announced status did not have that status before, or not for this reason.
func (a *announcement) isNews(was, is *metav1.Condition) bool {
	switch {
	case was == nil || was.Status == metav1.ConditionUnknown:
		return a.always || (a.reasons && !ordinary(is.Reason))
	case was.Status != a.status:
		return true
	default:
		return a.reasons && was.Reason != is.Reason && !ordinary(is.Reason)
	}
}

// ordinary reports whether the reason names a step on the way to a first session, not a trouble.
func ordinary(reason string) bool {
	return reason == reasonWaitingForScaleSet || reason == v1alpha1.ReasonListenerPodStarting ||
		reason == v1alpha1.ReasonListenerNotListening || reason == string(v1alpha1.ListenerStateStarting)
}

// ready has one series per scale set, troubles one per trouble of a set, so none for a healthy set. All are deleted
// with the set.
var (
	ready = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "gha_controller_scale_set_ready",
		Help: "1 while the scale set is registered, its listener polls and its runners start; 0 otherwise.",
	}, []string{"name", "namespace"})
	troubles = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "gha_controller_scale_set_trouble",
		Help: "1 while a condition of the scale set reports a problem, by condition and reason; no series while " +
			"none does.",
	}, []string{"name", "namespace", "condition", "reason"})
)

func init() { metrics.Registry.MustRegister(ready, troubles) }

// trouble is a condition as the metrics show it.
type trouble struct{ condition, reason string }

// Shown has the series of one set between passes. The zero value has none.
type Shown struct {
	troubles  []trouble
	schedules []string
	// settled is the limit of the set that was told last, nil before the first pass.
	settled *limits.Settled
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
	ready.WithLabelValues(set.Name, set.Namespace).Set(value)
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
	for _, gauge := range []*prometheus.GaugeVec{ready, troubles, limited, effectiveMin, effectiveMax, untilSeconds,
		scheduleOpen} {
		gauge.DeletePartialMatch(prometheus.Labels{"name": set.Name, "namespace": set.Namespace})
	}
}
