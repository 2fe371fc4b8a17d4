// Package jobreports says until when the report about a runner's job may still come. GitHub keeps it for the set's
// listener, which may be away when the job ends; afterwards nobody has an object to write it to.
package jobreports

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

const (
	// The report about a job may come until grace after its runner's end, or after its listener has come back. Usually it
	// comes within a second; a listener that has just come back has a queue to read.
	grace = time.Minute
	// longestGrace is the same while the listener does not listen, after its last word: longer than its restart on
	// another node takes.
	longestGrace = 5 * time.Minute
	// A listener that has come back for less than settled when a runner ends may still read its queue.
	settled = 10 * time.Second
)

// Due reports whether the report about the job of a runner that ended at a time may still come, and until when. It can't
// come if the runner was not seen to end (endedAt is zero), and the listener of a set that is being deleted goes first. A
// set that takes no jobs has no session, and GitHub keeps the reports for its next one: until then there is no end, and
// due is zero. If the listener is said to have come back after now, a clock ahead of ours wrote that, and it does not
// count.
func Due(set *v1alpha1.AutoscalingRunnerSet, endedAt, now time.Time) (due time.Time, comes bool) {
	listens := listening(set)
	switch {
	case endedAt.IsZero() || set.DeletionTimestamp != nil:
		return time.Time{}, false
	case kube.TakesNoJobs(set) || kube.SessionClosed(listens):
		return time.Time{}, true
	case listens == nil || (listens.Status == metav1.ConditionTrue && listens.LastTransitionTime.After(now)):
		due = endedAt.Add(grace)
	case listens.Status != metav1.ConditionTrue && listens.LastTransitionTime.After(now):
		due = endedAt.Add(longestGrace)
	case listens.Status != metav1.ConditionTrue: // since its set takes jobs again, it may be
		due = kube.LaterOf(endedAt, listens.LastTransitionTime.Time).Add(longestGrace)
	default:
		due = kube.LaterOf(endedAt, listens.LastTransitionTime.Time).Add(grace)
	}
	return due, now.Before(due)
}

// Delayed reports whether the report may still come because the listener is away, or was when the runner ended, and until
// when: what a listener that is there has to say, it says within seconds. It is false for a set that takes no jobs: its
// next session may be days away.
func Delayed(set *v1alpha1.AutoscalingRunnerSet, endedAt, now time.Time) (due time.Time, delayed bool) {
	listens := listening(set)
	there := listens == nil || (listens.Status == metav1.ConditionTrue &&
		(endedAt.Sub(listens.LastTransitionTime.Time) >= settled || listens.LastTransitionTime.After(now)))
	if due, delayed = Due(set, endedAt, now); there || due.IsZero() {
		return time.Time{}, false
	}
	return due, delayed
}

func listening(set *v1alpha1.AutoscalingRunnerSet) *metav1.Condition {
	return meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionListenerReady)
}
