package autoscalingrunnerset

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// transition is a change of a condition that people hear of.
type transition struct {
	about string
	to    metav1.ConditionStatus
	tell  func(reason, action, note string) kube.Event
	// always: also where the condition was absent or unknown before.
	always bool
	// reasons: also where only the reason changed.
	reasons bool
}

// announcedTransitions are all there are. What makes a set stalled is told once, by that.
var announcedTransitions = []transition{
	{about: v1alpha1.ConditionStalled, to: metav1.ConditionTrue, tell: kube.Warning, always: true, reasons: true},
	{about: v1alpha1.ConditionScaleSetRegistered, to: metav1.ConditionFalse, tell: kube.Warning, always: true, reasons: true},
	{about: v1alpha1.ConditionLabelsInSync, to: metav1.ConditionFalse, tell: kube.Warning, always: true},
	{about: v1alpha1.ConditionListenerReady, to: metav1.ConditionFalse, tell: kube.Warning, reasons: true},
	{about: v1alpha1.ConditionDegraded, to: metav1.ConditionTrue, tell: kube.Warning, always: true},
	{about: v1alpha1.ConditionQuotaExceeded, to: metav1.ConditionTrue, tell: kube.Warning, always: true},
	{about: v1alpha1.ConditionRunnersPending, to: metav1.ConditionTrue, tell: kube.Warning, always: true, reasons: true},
	{about: v1alpha1.ConditionReady, to: metav1.ConditionTrue, tell: kube.Normal, always: true},
}

// transitionEvents returns the Events that a change of conditions is worth: the set got stuck, can't reach GitHub, lost its
// listener, has runners that fail or are refused, or is ready.
func transitionEvents(before, after []metav1.Condition) []kube.Event {
	var events []kube.Event
	stalled := meta.FindStatusCondition(after, v1alpha1.ConditionStalled)
	for _, t := range announcedTransitions {
		was, is := meta.FindStatusCondition(before, t.about), meta.FindStatusCondition(after, t.about)
		if is == nil || is.Status != t.to || !t.news(was, is) {
			continue
		}
		if t.about != v1alpha1.ConditionStalled && stalled != nil && stalled.Status == metav1.ConditionTrue && stalled.Reason == is.Reason {
			continue
		}
		events = append(events, t.tell(is.Reason, "Reconcile", cmp.Or(is.Message, "The scale set is registered and its listener polls")))
	}
	return events
}

// news says that a condition, being what the transition is to, was not so before.
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

// ordinary says that a reason is a station on the way to a first session and no trouble.
func ordinary(reason string) bool {
	return reason == reasonWaitingForScaleSet || reason == v1alpha1.ReasonListenerPodStarting ||
		reason == v1alpha1.ReasonListenerNotListening || reason == string(v1alpha1.ListenerStateStarting)
}

// scalingPause is the shortest time between two Events about scaling: at most 60 are kept of a set, for an Event lives an
// hour, however its jobs come and go. What a burst does within the pause is summed up at its end.
const scalingPause = time.Minute

// scaling is what was last told of a set's size.
type scaling struct {
	runners int
	at      time.Time
}

// tellScaling says how many runners the listener asks for now, and for how many jobs, when that has changed.
func (c *Controller) tellScaling(ctx context.Context, p *pass) {
	runnerSet := p.runnerSet()
	if runnerSet == nil || p.deleting() {
		return
	}
	last, known := c.memory.scaled(p.key)
	spec := &runnerSet.Spec
	if !known {
		// What a manager finds when it starts was told by the one before it.
		c.memory.noteScaled(p.key, scaling{runners: spec.Replicas})
		return
	}
	if last.runners == spec.Replicas {
		return
	}
	if wait := last.at.Add(scalingPause).Sub(p.now); wait > 0 {
		p.again.After(wait)
		return
	}
	c.memory.noteScaled(p.key, scaling{runners: spec.Replicas, at: p.now})
	kube.RecordEvent(ctx, c.options.Recorder, p.set, nil, scaledFrom(last.runners, spec))
}

// scaledFrom tells of a change from a number of runners to what the spec asks for.
func scaledFrom(before int, spec *v1alpha1.EphemeralRunnerSetSpec) kube.Event {
	reason := "ScaledUp"
	if spec.Replicas < before {
		reason = "ScaledDown"
	}
	limit := ""
	if spec.MaxRunners != nil && spec.Replicas >= *spec.MaxRunners {
		limit = fmt.Sprintf("; more are not allowed by maxRunners of %d", *spec.MaxRunners)
	}
	return kube.Normal(reason, "Scale",
		fmt.Sprintf("From %d to %d runners for %d assigned jobs%s", before, spec.Replicas, spec.AssignedJobs, limit))
}
