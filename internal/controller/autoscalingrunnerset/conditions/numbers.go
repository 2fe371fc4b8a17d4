package conditions

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/capacity/effective"
	"github.com/harrier-ci/harrier/internal/capacity/limits"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// This file tells which numbers of runners are in force, which schedule they come from, and what keeps a set from
// running more jobs.

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
	if current := f.RunnerSet(); current != nil && current.Spec.MaxRunners != nil {
		room = min(room, *current.Spec.MaxRunners) // less the runners of older runner sets
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

// limit names what keeps the set from running more jobs, as the conditions and figures of its status say, in words that
// name whose number is reached.
func (f *Findings) limit(status *v1alpha1.AutoscalingRunnerSetStatus) limits.Limit {
	seen := limits.Seen{
		Conditions: status.Conditions, Drained: f.Numbers.Drained, Max: f.Numbers.Limit(), Asked: f.Numbers.Limit(),
		Assigned: status.AssignedJobs, Announced: status.AdvertisedCapacity,
	}
	if f.Numbers.Max < f.Numbers.Asked.Max {
		seen.Asked = &f.Numbers.Asked.Max
	}
	if current := f.RunnerSet(); current != nil && current.Spec.MaxRunners != nil {
		seen.Max = current.Spec.MaxRunners // less the runners of older runner sets
	}
	limit := limits.Of(seen)
	switch {
	case limit.Kind == limits.None || limit.Message != "":
	case limit.Kind == limits.NoJobs:
		_, limit.Message = f.whyNoJobs()
	default:
		limit.Message = f.mostRunners() + " is reached; further jobs wait on GitHub"
	}
	return limit
}
