package autoscalingrunnerset

import (
	"cmp"
	"context"
	"fmt"
	"time"

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

// transitionEvents returns the Events for a change of conditions: the set is stuck, can't reach GitHub, has lost its listener, has
// runners that fail or are refused, or is ready.
func transitionEvents(before, after []metav1.Condition) []report.Event {
	var events []report.Event
	stalled := meta.FindStatusCondition(after, v1alpha1.ConditionStalled)
	for _, t := range announcedTransitions {
		was, is := meta.FindStatusCondition(before, t.conditionType), meta.FindStatusCondition(after, t.conditionType)
		if is == nil || is.Status != t.to || !t.news(was, is) {
			continue
		}
		if t.conditionType != v1alpha1.ConditionStalled && stalled != nil && stalled.Status == metav1.ConditionTrue && stalled.Reason == is.Reason {
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

// scalingEventPeriod is the shortest time between two Events about scaling. An Event is kept for an hour, so there are at most 60 per
// set, however its jobs come and go. One Event at the end of the period covers all changes in it.
const scalingEventPeriod = time.Minute

// scaling is a set's size as last recorded: by an Event at recordedAt, or, without an Event, as the manager found it when it started.
type scaling struct {
	runners    int
	recordedAt time.Time
}

// recordScaling records an Event if the number of runners that the listener asks for has changed.
func (c *Controller) recordScaling(ctx context.Context, p *pass) {
	runnerSet := p.runnerSet()
	if runnerSet == nil || p.deleting() {
		return
	}
	last, spec := p.memory.size, &runnerSet.Spec
	if last == nil {
		// The previous manager recorded the Event about what this one finds when it starts.
		p.memory.size = &scaling{runners: spec.Replicas}
		return
	}
	if last.runners == spec.Replicas {
		return
	}
	if wait := last.recordedAt.Add(scalingEventPeriod).Sub(p.now); wait > 0 {
		p.requeue.After(wait)
		return
	}
	p.memory.size = &scaling{runners: spec.Replicas, recordedAt: p.now}
	report.RecordEvent(ctx, c.options.Recorder, p.set, nil, scaledFrom(last.runners, spec))
}

// scaledFrom returns the Event about the change from a number of runners to the spec's, for the spec's number of jobs.
func scaledFrom(before int, spec *v1alpha1.EphemeralRunnerSetSpec) report.Event {
	reason := "ScaledUp"
	if spec.Replicas < before {
		reason = "ScaledDown"
	}
	limit := ""
	if spec.MaxRunners != nil && spec.Replicas >= *spec.MaxRunners {
		limit = fmt.Sprintf("; maxRunners of %d allows no more", *spec.MaxRunners)
	}
	return report.Normal(reason, "Scale",
		fmt.Sprintf("From %d to %d runners for %d assigned jobs%s", before, spec.Replicas, spec.AssignedJobs, limit))
}
