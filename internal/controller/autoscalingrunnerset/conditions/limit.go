package conditions

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/capacity/limits"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// This file tells what keeps a set from running more jobs, by a metric and by an Event about each change. The doctor
// has the same in more words.

// reasonLimitChanged is the reason of all these Events, so that somebody can wait for it.
const reasonLimitChanged = "LimitChanged"

var limited = numberGauge("scale_set_limited",
	"1 for what keeps the scale set from running more jobs, by reason; no series while nothing does. "+
		"It follows within a minute.", "reason")

// ShowLimit sets the series of what limits a set whose status is to be after, and returns the Event about a change of
// it, if there is one. It also returns when to look again; zero means never. settled is what is remembered of the set:
// a manager that has just started goes on with what the status of its set has said so far.
func (s *Shown) ShowLimit(
	set types.NamespacedName, f *Findings, after *v1alpha1.AutoscalingRunnerSet,
) (event *report.Event, again time.Time) {
	if f.Deleting() {
		s.settled = nil
		return nil, time.Time{}
	}
	if s.settled == nil {
		s.settled = limits.SettledOn(report.KnownReason(limits.OfSet(f.Set).Reason))
		s.showLimit(set, "", s.settled.Told())
	}
	limit := limits.OfSet(after)
	seen, before := report.KnownReason(limit.Reason), s.settled.Told()
	told, again := s.settled.Note(seen, f.ObservedAt)
	if told == before {
		return nil, again
	}
	s.showLimit(set, before, told)
	note := "Nothing limits the scale set any more"
	if told != "" {
		why := report.Abridged(cmp.Or(limit.Message, f.whyLimited(limit.Kind)))
		note = "What limits the scale set now is " + told + ": " + why
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

// whyLimited says what no condition says: whose number is reached.
func (f *Findings) whyLimited(kind limits.Kind) string {
	if kind == limits.NoJobs {
		_, message := f.whyNoJobs()
		return message
	}
	if f.RunnerSet() == nil {
		return "the set may have no more runners"
	}
	return f.mostRunners() + " is reached; further jobs wait on GitHub"
}
