// Package limits names what keeps a scale set from running more jobs at a moment, by one rule for everything that shows
// it: the set's metric and Events, the check runs about jobs that wait, and the doctor. It is pure, and reads what the
// set's conditions say already.
package limits

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// Kind is the sort of a limit.
type Kind int

// Kinds of limits, in the order of Order.
const (
	// None: nothing keeps the set from running more jobs.
	None Kind = iota
	// NoJobs: the set is drained, or may have no runner.
	NoJobs
	// Outdated: GitHub refuses the version of the runners.
	Outdated
	// Nodes: pods wait for a node, or for a queue that lets them through.
	Nodes
	// Quota: a ResourceQuota refuses objects.
	Quota
	// Claims: runners wait for volume claims.
	Claims
	// Starts: runners don't come up for another reason, such as a registration that GitHub doesn't give.
	Starts
	// Failures: runners fail or can't be created.
	Failures
	// Pace: maxStartsPerMinute holds runners back.
	Pace
	// Announced: GitHub has assigned as many jobs as it was told that there is room for, which is less than the
	// maximum.
	Announced
	// Ceiling: the manager allows no more, or runners of a former template are left.
	Ceiling
	// Maximum: the spec, or a schedule that is open, allows no more.
	Maximum
)

// Order has the limits in the order in which they count: raising a later one gains nothing while an earlier one holds.
// A set that takes no jobs comes first, then the way back from a runner's pod to GitHub.
var Order = []Kind{NoJobs, Outdated, Nodes, Quota, Claims, Starts, Failures, Pace, Announced, Ceiling, Maximum}

// reported are the limits that a condition reports, with the status that the condition has then. If reasons are listed,
// only these count. A limit with a reason of its own has that, whatever the condition's reason is.
var reported = map[Kind]struct {
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
	// Assigned counts the jobs that GitHub has given to the set. Max limits its runners; nil means any number.
	Assigned int
	Max      *int
	// Announced is the number of jobs for which GitHub is told that there is room; nil means any number.
	Announced *int
	// Full says that the set has as many runners, or jobs, as it may have runners.
	Full bool
}

// Limit names one thing that keeps a set from running more jobs. The zero value names none.
type Limit struct {
	Kind Kind
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

// OfSet returns the limit that the status of a set shows.
func OfSet(set *v1alpha1.AutoscalingRunnerSet) Limit {
	status := &set.Status
	most := status.EffectiveMaxRunners
	return Of(Seen{
		Conditions: status.Conditions, Drained: set.Drained(), Max: most,
		Assigned: status.AssignedJobs, Announced: status.AdvertisedCapacity,
		Full: most != nil && status.AssignedJobs >= *most,
	})
}

// limit returns the limit of a kind, if it holds.
func (seen *Seen) limit(kind Kind) Limit {
	switch kind {
	case NoJobs:
		if seen.Drained {
			return Limit{Kind: kind, Reason: v1alpha1.ReasonDrained}
		}
		if seen.Max != nil && *seen.Max == 0 {
			return Limit{Kind: kind, Reason: v1alpha1.ReasonMaxRunnersZero}
		}
		return Limit{}
	case Announced:
		if seen.Announced == nil || seen.Assigned < *seen.Announced {
			return Limit{}
		}
	case Maximum:
		if seen.Full {
			return Limit{Kind: kind, Reason: v1alpha1.ReasonMaxRunnersReached}
		}
		return Limit{}
	}
	return seen.reported(kind)
}

// reported returns the limit of a kind that a condition reports, if one does.
func (seen *Seen) reported(kind Kind) Limit {
	by, known := reported[kind]
	c := meta.FindStatusCondition(seen.Conditions, by.condition)
	if !known || c == nil || c.Status != by.status || (by.reasons != nil && !slices.Contains(by.reasons, c.Reason)) {
		return Limit{}
	}
	return Limit{kind, cmp.Or(by.reason, c.Reason), c.Message}
}
