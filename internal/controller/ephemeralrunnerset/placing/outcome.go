package placing

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/capacity/placement"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/pass"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// announcing is the action of the Events.
const announcing = "AnnounceCapacity"

// Outcome is what a pass has decided.
type Outcome struct {
	placement.Decision
	most int
	// refusal is the reason for which pods are refused, "" if none is. oldest says why the pod with the longest wait
	// waits.
	refusal, oldest string
	// Began and Ended are set if the cluster has placed nothing more from this pass on, or has again.
	Began, Ended bool
}

// Condition says why GitHub is told of less room than the set may have runners, if it is.
func (o *Outcome) Condition() metav1.Condition {
	const conditionType = v1alpha1.ConditionCapacityLimited
	if o.Announced >= o.most {
		return report.False(conditionType, "AllAnnounced",
			"GitHub is told of room for as many jobs as the set may have runners")
	}
	return report.True(conditionType, o.reason(), o.numbers()+o.why())
}

// reason returns the condition's reason.
func (o *Outcome) reason() string {
	switch o.Cause {
	case placement.RunnersFail:
		return v1alpha1.ReasonRunnersFail
	case placement.PodsRefused:
		return o.refusal
	case placement.PodsWait:
		return v1alpha1.ReasonPodsUnschedulable
	default:
		return v1alpha1.ReasonCapacityUnproven
	}
}

// numbers says what was seen and decided.
func (o *Outcome) numbers() string {
	var text strings.Builder
	fmt.Fprintf(&text, "GitHub is told of room for %s", counted(o.Announced, "job"))
	if o.most < v1alpha1.MaxRunnersUnlimited {
		fmt.Fprintf(&text, ", of the %d that the set may have at a time", o.most)
	}
	fmt.Fprintf(&text, ": %s on nodes, %d waiting for one", counted(o.Placed, "runner pod"), o.Waiting)
	if o.Stuck > 0 {
		fmt.Fprintf(&text, ", %d more that younger ones have overtaken", o.Stuck)
	}
	fmt.Fprintf(&text, "; the cluster has held %d at a time", o.Mark)
	return text.String()
}

// why says what keeps the number low, and whose step is next.
func (o *Outcome) why() string {
	switch o.Cause {
	case placement.RunnersFail:
		return "; runners fail before they get a job: Degraded or RunnerOutdated says why, and what to correct"
	case placement.PodsRefused:
		if o.refusal == v1alpha1.ReasonQuotaExceeded {
			return "; pods are refused: the condition QuotaExceeded says by what. The number rises by itself when " +
				"there is room"
		}
		return "; runners wait for a claim: the condition VolumeClaimsReady says why. The number rises by " +
			"itself when they have one"
	case placement.PodsWait:
		text := "; the number rises by itself when pods find nodes: add nodes if there are to be more"
		if !o.ProbeAt.IsZero() {
			text += ". One more job is tried at " + o.ProbeAt.UTC().Format(time.RFC3339)
		}
		if o.oldest != "" {
			text += ". The oldest pod waits: " + o.oldest
		}
		return text
	default:
		return "; no pod waits, and the number rises by itself as pods find nodes"
	}
}

// counted returns the words for a number of things.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Event returns the Event about a cluster that from now on places nothing more, or places pods again; false if neither
// is news.
func (o *Outcome) Event() (report.Event, bool) {
	switch {
	case o.Began && o.refusal != "":
		return report.Warning(o.refusal, announcing, o.numbers()+o.why()), true
	case o.Began:
		return report.Warning(v1alpha1.ReasonPodsUnschedulable, announcing, o.numbers()+o.why()), true
	case o.Ended:
		return report.Normal("PodsPlaced", announcing, o.numbers()+"; none is too late any more"), true
	}
	return report.Event{}, false
}

// Describe writes into the status the number of jobs for which GitHub is told that there is room, and returns the
// condition about it. A condition that was never true is left out. Nil is the outcome of a set that doesn't announce what
// its cluster places.
func (o *Outcome) Describe(p *pass.Pass) []metav1.Condition {
	status := &p.Set.Status
	limited := report.False(v1alpha1.ConditionCapacityLimited, "AllAnnounced",
		"capacity.mode is Static: GitHub is told of room for maxRunners jobs")
	if o != nil {
		status.Capacity, status.Placement = &o.Announced, o.Status(status.Placement)
		limited = o.Condition()
	} else {
		status.Placement = nil
	}
	if p.Drained() {
		limited = report.True(v1alpha1.ConditionCapacityLimited, v1alpha1.ReasonDrained,
			"GitHub gives the set no jobs, because its AutoscalingRunnerSet has the "+
				"annotation "+v1alpha1.AnnotationDrained)
	}
	if o != nil || meta.FindStatusCondition(status.Conditions, limited.Type) != nil {
		return []metav1.Condition{limited}
	}
	return nil
}

// The time at which the mark was last reached is written to the status every reachedInterval at most: a set that is
// full reaches it with each pass, and a write of its status costs more than the creation of a runner.
const reachedInterval = time.Hour

// Status returns the status' part about the decision. before is the present one.
func (o *Outcome) Status(before *v1alpha1.PlacementStatus) *v1alpha1.PlacementStatus {
	after := &v1alpha1.PlacementStatus{Mark: o.Mark, Window: o.Window, ReachedAt: metav1.NewTime(o.ReachedAt)}
	if before != nil {
		if passed := o.ReachedAt.Sub(before.ReachedAt.Time); passed >= 0 && passed < reachedInterval {
			after.ReachedAt = before.ReachedAt
		}
	}
	return after
}
