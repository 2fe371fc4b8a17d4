package conditions

import (
	"cmp"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
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
	// summary is set if the condition summarizes others, or holds by intent. Otherwise it names a cause that keeps jobs
	// waiting or that nobody intended, and the metrics show it as a trouble.
	summary bool
	// ofRunners is set if the condition is the EphemeralRunnerSet's, and the set shows it as its own.
	ofRunners bool
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
	{conditionType: v1alpha1.ConditionRunnerOutdated, status: metav1.ConditionTrue, ofRunners: true},
	// gha_controller_runner_version_end_timestamp_seconds has an alert of its own
	{conditionType: v1alpha1.ConditionRunnerVersionExpires, status: metav1.ConditionTrue, event: report.Warning,
		always: true, reasons: true, summary: true},
	{conditionType: v1alpha1.ConditionPodTemplateRefused, status: metav1.ConditionTrue, event: report.Warning,
		always: true, reasons: true},
	{conditionType: v1alpha1.ConditionJobPodRefused, status: metav1.ConditionTrue, event: report.Warning,
		always: true, reasons: true},
	{conditionType: v1alpha1.ConditionPodsAltered, status: metav1.ConditionTrue, event: report.Warning,
		always: true},
	{conditionType: v1alpha1.ConditionDegraded, status: metav1.ConditionTrue, event: report.Warning, always: true,
		ofRunners: true},
	{conditionType: v1alpha1.ConditionQuotaExceeded, status: metav1.ConditionTrue, event: report.Warning, always: true,
		ofRunners: true},
	{conditionType: v1alpha1.ConditionRunnersPending, status: metav1.ConditionTrue, event: report.Warning, always: true,
		reasons: true, ofRunners: true},
	{conditionType: v1alpha1.ConditionVolumeClaimsReady, status: metav1.ConditionFalse, event: report.Warning,
		always: true, reasons: true, ofRunners: true},
	{conditionType: v1alpha1.ConditionSnapshotsReady, status: metav1.ConditionFalse, event: report.Warning,
		always: true, reasons: true, ofRunners: true},
	{conditionType: v1alpha1.ConditionRunnersUnprotected, status: metav1.ConditionTrue, event: report.Warning,
		always: true, reasons: true},
	{conditionType: v1alpha1.ConditionDeletionBlocked, status: metav1.ConditionTrue, event: report.Warning,
		always: true},
	{conditionType: v1alpha1.ConditionStatisticsDoubtful, status: metav1.ConditionTrue, event: report.Warning,
		always: true, ofRunners: true},
	{conditionType: v1alpha1.ConditionFeedbackPermitted, status: metav1.ConditionFalse, event: report.Warning,
		always: true, ofRunners: true},
	// what keeps more jobs away by intent is told as the set's limit
	{conditionType: v1alpha1.ConditionCapacityLimited, status: metav1.ConditionTrue, summary: true, ofRunners: true},
	{conditionType: v1alpha1.ConditionStartsLimited, status: metav1.ConditionTrue, summary: true, ofRunners: true},
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
