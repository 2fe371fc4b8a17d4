package conditions

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/capacity/effective"
	"github.com/harrier-ci/harrier/internal/capacity/limits"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// This file tells which numbers of runners are in force, which schedule they come from, and what keeps a set from
// running more jobs.

// takesJobs reports whether the set may be given jobs. If not, its listener has no session.
func (f *Findings) takesJobs() bool { return f.Numbers.Accepted() > 0 }

// whyNoJobs says why a set is given no jobs, as reason and message.
func (f *Findings) whyNoJobs() (reason, message string) {
	switch of := f.Numbers.MaxOf; {
	case f.Numbers.Drained:
		return v1alpha1.ReasonDrained, "the annotation " + v1alpha1.AnnotationDrained +
			" is on the AutoscalingRunnerSet"
	case of != "":
		return v1alpha1.ReasonMaxRunnersZero, fmt.Sprintf("schedule %s sets maxRunners to 0%s", of, until(&f.Numbers))
	}
	return v1alpha1.ReasonMaxRunnersZero, "maxRunners is 0"
}

// drainedCondition says what is left of a set that is to take no more jobs, nil for a set that was never told to take
// none. A listener that still has its session, or has not said whether it has, may bring jobs.
func drainedCondition(f *Findings) *metav1.Condition {
	const conditionType = v1alpha1.ConditionDrained
	if !f.Numbers.Drained {
		if meta.FindStatusCondition(f.Set.Status.Conditions, conditionType) == nil {
			return nil
		}
		return new(report.False(conditionType, v1alpha1.ReasonTakesJobs, "the annotation "+v1alpha1.AnnotationDrained+
			" is not on the set"))
	}
	runners, jobs, closed := 0, 0, true
	for _, runnerSet := range f.RunnerSets {
		runners += runnerSet.Status.PendingEphemeralRunners + runnerSet.Status.RunningEphemeralRunners
	}
	if current := f.RunnerSet(); current != nil {
		jobs = max(0, current.Spec.AssignedJobs-current.Status.DoubtedJobs)
		closed = current.Status.Listener != nil && current.Status.Listener.State == v1alpha1.ListenerStateClosed
	}
	again := "; to take jobs again, remove the annotation " + v1alpha1.AnnotationDrained
	switch {
	case !closed:
		return new(report.False(conditionType, reasonDraining,
			"the listener has not closed its session with GitHub yet"+
				again))
	case jobs+runners > 0:
		return new(report.False(conditionType, reasonDraining,
			fmt.Sprintf("assigned jobs: %d, runners: %d; they finish%s", jobs, runners, again)))
	}
	return new(report.True(conditionType, v1alpha1.ReasonDrained, "no jobs and no runners are left"+again))
}

// reasonDraining is the reason of a set that is not drained yet.
const reasonDraining = "DrainingRunners"

// whoseCeiling names the limit for each set and who decides it.
const whoseCeiling = "the controller's limit for each scale set (flags.maxRunnersPerSet of its chart, which the " +
	"cluster's administrator decides)"

// mostRunners names the limit on the set's runners, and who has set it.
func (f *Findings) mostRunners() string {
	n, room := &f.Numbers, f.Numbers.Max
	if limit := f.RunnerSet().Spec.MaxRunners; limit != nil {
		room = min(room, *limit) // less the runners of older runner sets
	}
	switch {
	case n.Max < n.Asked.Max: // whoever can raise maxRunners can't raise that
		return fmt.Sprintf("the limit of %d runners, %s,", room, whoseCeiling)
	case n.MaxOf != "":
		return fmt.Sprintf("maxRunners of %d, of schedule %s%s,", room, n.MaxOf, until(n))
	}
	return fmt.Sprintf("maxRunners of %d", room)
}

// until names the time until which the numbers hold, if a schedule may change them.
func until(n *effective.Numbers) string {
	if n.Until.IsZero() {
		return ""
	}
	return " until " + n.Until.UTC().Format(time.RFC3339)
}

// maxRefusalsTold limits the refused schedules that a message quotes.
const maxRefusalsTold = 3

// schedulesCondition says which schedules can't be followed and, if all can, which are open, and until what time. It
// returns nil for a set that has never had any.
func schedulesCondition(f *Findings) *metav1.Condition {
	const conditionType = v1alpha1.ConditionSchedulesAccepted
	n := &f.Numbers
	switch {
	case len(n.Refused) > 0:
		var messages []string
		for _, refused := range n.Refused[:min(len(n.Refused), maxRefusalsTold)] {
			messages = append(messages, refused.Error())
		}
		if more := len(n.Refused) - len(messages); more > 0 {
			messages = append(messages, fmt.Sprintf("and %d more", more))
		}
		return new(report.False(conditionType, v1alpha1.ReasonScheduleRefused,
			report.Abridged(strings.Join(messages, "; "))+
				"; other schedules are followed: correct the field in the values of the scale set"))
	case len(f.Set.Spec.Schedules) == 0 && meta.FindStatusCondition(f.Set.Status.Conditions, conditionType) == nil:
		return nil
	case len(f.Set.Spec.Schedules) == 0:
		return new(report.True(conditionType, "NoSchedules", "the numbers of the spec are in force"))
	case len(n.Open) == 0:
		return new(report.True(conditionType, "NoScheduleOpen", "the numbers of the spec are in force"+until(n)))
	}
	return new(report.True(conditionType, "ScheduleOpen", windows(n)))
}

// windows names the open schedules, the numbers in force, and the time until which they are.
func windows(n *effective.Numbers) string {
	most := "no maxRunners"
	if n.Limited() {
		most = fmt.Sprintf("maxRunners %d", n.Max)
	}
	numbers := fmt.Sprintf("minRunners %d and %s are in force%s", n.Min, most, until(n))
	switch len(n.Open) {
	case 0:
		return "no schedule is open; " + numbers
	case 1:
		return fmt.Sprintf("schedule %s is open; %s", n.Open[0], numbers)
	}
	return fmt.Sprintf("schedules %s are open; %s", strings.Join(n.Open, ", "), numbers)
}

// Edges returns the Events about windows that have opened and closed since the status was written that way: a manager
// that was away meanwhile tells of them when it is back.
func (f *Findings) Edges(before, after []string) []report.Event {
	var events []report.Event
	tell := func(reason, did string, these, those []string) {
		for _, name := range these {
			if !slices.Contains(those, name) {
				events = append(events, report.Normal(reason, "Scale",
					fmt.Sprintf("Schedule %s has %s: %s", name, did, windows(&f.Numbers))))
			}
		}
	}
	tell("ScheduleEnded", "ended", before, after)
	tell("ScheduleStarted", "started", after, before)
	return events
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

// A metric tells what keeps a set from running more jobs, and an Event each change of that. The doctor says the same in
// more words.

// reasonLimitChanged is the reason of all these Events, so that somebody can wait for it.
const reasonLimitChanged = "LimitChanged"

var limited = numberGauge("scale_set_limited",
	"1 for what keeps the scale set from running more jobs, by reason; no series while nothing does. "+
		"It follows within a minute.", "reason")

// ShowLimit sets the series of what limits a set, and returns the Event about a change of the limit, if there is one.
// after is the set with the status that is about to be written. ShowLimit also returns the time to look again; zero
// means never. A manager that has just started goes on with the limit that the set's present status shows.
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
