package conditions

import (
	"cmp"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// transition is a change of a condition that an Event is recorded for.
type transition struct {
	conditionType string
	to            metav1.ConditionStatus
	newEvent      func(reason, action, note string) report.Event
	// always is set if the transition counts even if the condition was absent or Unknown before.
	always bool
	// reasons is set if a change of the reason alone counts, too.
	reasons bool
}

// announcedTransitions are all transitions with an Event. The cause of a stalled set has a single Event, for Stalled.
var announcedTransitions = []transition{
	{conditionType: v1alpha1.ConditionStalled, to: metav1.ConditionTrue, newEvent: report.Warning, always: true, reasons: true},
	{conditionType: v1alpha1.ConditionScaleSetRegistered, to: metav1.ConditionFalse, newEvent: report.Warning, always: true, reasons: true},
	{conditionType: v1alpha1.ConditionLabelsInSync, to: metav1.ConditionFalse, newEvent: report.Warning, always: true},
	{conditionType: v1alpha1.ConditionListenerTemplateAccepted, to: metav1.ConditionFalse, newEvent: report.Warning, always: true},
	{conditionType: v1alpha1.ConditionListenerReady, to: metav1.ConditionFalse, newEvent: report.Warning, reasons: true},
	{conditionType: v1alpha1.ConditionPodTemplateRefused, to: metav1.ConditionTrue, newEvent: report.Warning, always: true, reasons: true},
	{conditionType: v1alpha1.ConditionDegraded, to: metav1.ConditionTrue, newEvent: report.Warning, always: true},
	{conditionType: v1alpha1.ConditionQuotaExceeded, to: metav1.ConditionTrue, newEvent: report.Warning, always: true},
	{conditionType: v1alpha1.ConditionRunnersPending, to: metav1.ConditionTrue, newEvent: report.Warning, always: true, reasons: true},
	{conditionType: v1alpha1.ConditionRunnersUnprotected, to: metav1.ConditionTrue, newEvent: report.Warning, always: true, reasons: true},
	{conditionType: v1alpha1.ConditionDeletionBlocked, to: metav1.ConditionTrue, newEvent: report.Warning, always: true},
	{conditionType: v1alpha1.ConditionStatisticsDoubtful, to: metav1.ConditionTrue, newEvent: report.Warning, always: true},
	{conditionType: v1alpha1.ConditionReady, to: metav1.ConditionTrue, newEvent: report.Normal, always: true},
}

// Transitions returns the Events for a change of conditions: the set is stuck, can't reach GitHub, has lost its listener, has
// runners that fail or are refused, or is ready.
func Transitions(before, after []metav1.Condition) []report.Event {
	var events []report.Event
	stalled := withStatus(after, v1alpha1.ConditionStalled, metav1.ConditionTrue)
	for _, t := range announcedTransitions {
		was, is := meta.FindStatusCondition(before, t.conditionType), withStatus(after, t.conditionType, t.to)
		if is == nil || !t.news(was, is) || stalled != nil && stalled != is && stalled.Reason == is.Reason {
			continue
		}
		events = append(events, t.newEvent(is.Reason, "Reconcile", cmp.Or(is.Message, "The scale set is registered and its listener polls")))
	}
	return events
}

// news reports whether a condition with the transition's status did not have it before, or not for this reason.
func (t *transition) news(was, is *metav1.Condition) bool {
	switch {
	case was == nil || was.Status == metav1.ConditionUnknown:
		return t.always || t.reasons && !ordinary(is.Reason)
	case was.Status != t.to:
		return true
	default:
		return t.reasons && was.Reason != is.Reason && !ordinary(is.Reason)
	}
}

// ordinary reports whether the reason names a step on the way to a first session, not a trouble.
func ordinary(reason string) bool {
	return reason == reasonWaitingForScaleSet || reason == v1alpha1.ReasonListenerPodStarting ||
		reason == v1alpha1.ReasonListenerNotListening || reason == string(v1alpha1.ListenerStateStarting)
}
