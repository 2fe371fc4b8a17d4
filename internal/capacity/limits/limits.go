// Package limits names what keeps a scale set from running more jobs at a moment, by one rule for everything that shows
// it: the status of the set, from which doctor, plugin and ledger read it, its metric and Events, and the check runs about
// jobs that wait. It is pure, and reads what the set's conditions say already.
package limits

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// Kinds of limits, in the order of Order.
const (
	// None: nothing keeps the set from running more jobs.
	None v1alpha1.LimitKind = ""
	// NoJobs: the set is drained, or may have no runner.
	NoJobs v1alpha1.LimitKind = "NoJobs"
	// Outdated: GitHub refuses the version of the runners.
	Outdated v1alpha1.LimitKind = "Outdated"
	// Nodes: pods wait for a node, or for a queue that lets them through.
	Nodes v1alpha1.LimitKind = "Nodes"
	// Quota: a ResourceQuota refuses objects.
	Quota v1alpha1.LimitKind = "Quota"
	// Claims: runners wait for volume claims, or their pods for volumes.
	Claims v1alpha1.LimitKind = "Claims"
	// Starts: runners don't come up for another reason, such as a registration that GitHub doesn't give.
	Starts v1alpha1.LimitKind = "Starts"
	// Failures: runners fail or can't be created.
	Failures v1alpha1.LimitKind = "Failures"
	// Pace: maxStartsPerMinute holds runners back.
	Pace v1alpha1.LimitKind = "Pace"
	// Announced: GitHub has assigned as many jobs as it was told that there is room for, which is less than the
	// maximum.
	Announced v1alpha1.LimitKind = "Announced"
	// Ceiling: the manager allows no more, or runners of a former template are left.
	Ceiling v1alpha1.LimitKind = "Ceiling"
	// Maximum: the spec, or a schedule that is open, allows no more.
	Maximum v1alpha1.LimitKind = "Maximum"
)

// Order has the limits in the order in which they count: raising a later one gains nothing while an earlier one holds.
// A set that takes no jobs comes first, then the way back from a runner's pod to GitHub.
var Order = []v1alpha1.LimitKind{
	NoJobs, Outdated, Nodes, Quota, Claims, Starts, Failures, Pace, Announced, Ceiling, Maximum,
}

// reported are the limits that a condition reports, with the status that the condition has then. If reasons are listed,
// only these count. A limit with a reason of its own has that, whatever the condition's reason is.
var reported = map[v1alpha1.LimitKind]struct {
	condition string
	status    metav1.ConditionStatus
	reasons   []string
	reason    string
}{
	Outdated: {condition: v1alpha1.ConditionRunnerOutdated, status: metav1.ConditionTrue},
	Nodes: {
		condition: v1alpha1.ConditionRunnersPending, status: metav1.ConditionTrue,
		reasons: []string{corev1.PodReasonUnschedulable, corev1.PodReasonSchedulingGated},
	},
	Quota: {
		condition: v1alpha1.ConditionQuotaExceeded, status: metav1.ConditionTrue, reason: v1alpha1.ReasonQuotaExceeded,
	},
	Claims:   {condition: v1alpha1.ConditionVolumeClaimsReady, status: metav1.ConditionFalse},
	Starts:   {condition: v1alpha1.ConditionRunnersPending, status: metav1.ConditionTrue},
	Failures: {condition: v1alpha1.ConditionDegraded, status: metav1.ConditionTrue},
	Pace:     {condition: v1alpha1.ConditionStartsLimited, status: metav1.ConditionTrue},
	// The condition holds as soon as less than the maximum is announced. The set is limited only when as many jobs as
	// announced are assigned.
	Announced: {condition: v1alpha1.ConditionCapacityLimited, status: metav1.ConditionTrue},
}

// Seen has all that a set's limit follows from.
type Seen struct {
	Conditions []metav1.Condition
	Drained    bool
	// Assigned counts the jobs that GitHub has given to the set.
	Assigned int
	// Max is the number of runners that the set may have, and Asked the one that its spec, or a schedule that is open,
	// asks for. nil means any number.
	Max, Asked *int
	// Announced is the number of jobs for which GitHub is told that there is room; nil means any number.
	Announced *int
}

// Limit names one thing that keeps a set from running more jobs. The zero value names none.
type Limit struct {
	Kind v1alpha1.LimitKind
	// Reason names it: the condition's, or one of the constants of the API.
	Reason string
	// Message is the condition's, "" for limits that none reports.
	Message string
}

// Of returns the first limit that holds.
func Of(seen Seen) Limit {
	for _, kind := range Order {
		if limit := seen.limit(kind); limit.Kind != None {
			return limit
		}
	}
	return Limit{}
}

// limit returns the limit of a kind, if it holds.
func (seen *Seen) limit(kind v1alpha1.LimitKind) Limit {
	switch kind {
	case NoJobs:
		if seen.Drained {
			return Limit{Kind: kind, Reason: v1alpha1.ReasonDrained}
		}
		// not if runners of a former template leave no room for others
		if most := cmp.Or(seen.Asked, seen.Max); most != nil && *most == 0 {
			return Limit{Kind: kind, Reason: v1alpha1.ReasonMaxRunnersZero}
		}
		return Limit{}
	case Announced:
		if seen.Announced == nil || seen.Assigned < *seen.Announced {
			return Limit{}
		}
	case Ceiling, Maximum:
		lowered := seen.Max != nil && seen.Asked != nil && *seen.Max < *seen.Asked
		if seen.Max != nil && seen.Assigned >= *seen.Max && lowered == (kind == Ceiling) {
			return Limit{Kind: kind, Reason: v1alpha1.ReasonMaxRunnersReached}
		}
		return Limit{}
	}
	return seen.reported(kind)
}

// reported returns the limit of a kind that a condition reports, if one does.
func (seen *Seen) reported(kind v1alpha1.LimitKind) Limit {
	by, known := reported[kind]
	if kind == Claims {
		unbound := meta.FindStatusCondition(seen.Conditions, v1alpha1.ConditionRunnersPending)
		if unbound != nil && unbound.Status == metav1.ConditionTrue && unbound.Reason == v1alpha1.ReasonVolumeUnbound {
			return Limit{kind, unbound.Reason, unbound.Message}
		}
	}
	c := meta.FindStatusCondition(seen.Conditions, by.condition)
	if !known || c == nil || c.Status != by.status || (by.reasons != nil && !slices.Contains(by.reasons, c.Reason)) {
		return Limit{}
	}
	return Limit{kind, cmp.Or(by.reason, c.Reason), c.Message}
}
