package rules

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

// The status has the attempts that ended without a job, in two maps by the UID of the attempt's pod: failures are held against the
// runner, and the sixth in a row makes it fail; disruptions are not, of which it has the latest. Both delay the next attempt.

const (
	// UpAfter is how long a runner container must have run for an end from outside, such as an eviction, to start a new row: the next
	// pause is the shortest again. A runner that can't start or register ends within seconds.
	UpAfter = time.Minute
	// LongUpAfter is how long a runner must have been up for its end, whatever its cause, to start a new row of failures. It has
	// worked for longer than all pauses of a row together (155 s), so runners that crash so rarely cost little, while six ends of an
	// idle runner in a day, for example by its liveness probe, say nothing about image or template.
	LongUpAfter = 5 * time.Minute
)

// RetryBackoff holds the pauses after the first to fifth attempts that ended; after the sixth failure the runner has failed, and after
// further disruptions the pause is the last of these.
var RetryBackoff = []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second}

// Attempt is what was seen of the present attempt to run the runner. All of it is forgotten once the attempt has failed: what
// remained would be attributed to the next attempt, and a used JIT config could be used again.
type Attempt struct {
	StartedAt         time.Time       // when the runner container was first seen running
	EndedAt           time.Time       // when it was first seen to have ended, or to have lost its pod after it had started or got a job
	blockedAt         time.Time       // when its kubelet was first seen to be unable to start it
	ExitedAt          time.Time       // when it was first seen to have exited with 0
	PendingReportedAt time.Time       // when the status was last given the reason why the runner does not run
	SidecarReported   bool            // an Event says that a sidecar has died
	Ending            podstatus.Phase // how the container was seen to have ended, Missing if it was not
}

// SeeStart notes what the pod of the present attempt says about its start.
func (a *Attempt) SeeStart(pod *corev1.Pod, now time.Time) {
	if podstatus.Runs(pod, v1alpha1.RunnerContainerName) {
		kube.SetIfZero(&a.StartedAt, now)
		return
	}
	// A container that is blocked later gets the full time to recover.
	a.blockedAt = since(a.blockedAt, podstatus.IsBlocked(pod, v1alpha1.RunnerContainerName), now)
}

// SeeEnd notes how and when the present attempt ended. That the runner exited with 0 is never overwritten.
func (a *Attempt) SeeEnd(status *v1alpha1.EphemeralRunnerStatus, pod Outcome, now time.Time) {
	if pod.Over() && a.Ending != podstatus.Succeeded {
		a.Ending = pod.Phase
	}
	switch {
	case pod.Phase == podstatus.Running:
		a.EndedAt = time.Time{} // the report of its job was seen before its pod
	case pod.Over() || pod.Phase == podstatus.Missing && (!a.StartedAt.IsZero() || status.HadJob()):
		kube.SetIfZero(&a.EndedAt, now)
	}
}

// planRetry retries, or gives up after the sixth failure in a row. Disruptions are no failures, however many there are: a runner that gave
// up because of them would be missing when the cluster is well again.
func planRetry(w *World, how Step) Decision {
	d := w.Pod.decide(how)
	d.Disruption = w.Pod.Fault == podstatus.FaultDisruption
	d.firstInRow = w.wasUpFor(LongUpAfter) || w.wasUpFor(UpAfter) && w.Pod.Outside
	if !d.Disruption && !d.firstInRow && len(w.Runner.Status.Failures) >= len(RetryBackoff) {
		return w.Pod.decide(Fail)
	}
	return d
}

// wasUpFor reports whether the present attempt was up for so long, which shows that the template works. Idle runners may live for
// weeks, and be evicted, reach their pods' deadline or fail their liveness probes many times.
func (w *World) wasUpFor(d time.Duration) bool {
	return !w.StartedAt.IsZero() && !w.EndedAt.Before(w.StartedAt.Add(d))
}

// BackoffAfter returns how long to wait after the n-th attempt.
func BackoffAfter(n int) time.Duration {
	if n == 0 {
		return 0
	}
	return RetryBackoff[min(n, len(RetryBackoff))-1]
}

// AttemptsNoted returns how many attempts the status has.
func AttemptsNoted(status *v1alpha1.EphemeralRunnerStatus) int {
	return len(status.Failures) + len(status.Disruptions)
}

// LastNoted returns when the end of the last attempt was noted, zero if there is none.
func LastNoted(status *v1alpha1.EphemeralRunnerStatus) (last time.Time) {
	for _, noted := range []map[string]metav1.Time{status.Failures, status.Disruptions} {
		for _, at := range noted {
			if at.After(last) {
				last = at.Time
			}
		}
	}
	return last
}

// Noted returns when the end of the attempt with that key was noted in the status, if it was.
func Noted(status *v1alpha1.EphemeralRunnerStatus, attempt string) (at metav1.Time, found bool) {
	if at, found = status.Failures[attempt]; !found {
		at, found = status.Disruptions[attempt]
	}
	return at, found
}

// Note notes the end of an attempt. More disruptions than there are pauses would say nothing more, so the oldest go.
func Note(status *v1alpha1.EphemeralRunnerStatus, attempt string, d Decision, now time.Time) {
	if d.firstInRow {
		clear(status.Failures)
		clear(status.Disruptions)
	}
	if !d.Disruption {
		if status.Failures == nil {
			status.Failures = map[string]metav1.Time{}
		}
		status.Failures[attempt] = metav1.NewTime(now)
		return
	}
	if status.Disruptions == nil {
		status.Disruptions = map[string]metav1.Time{}
	}
	earlier := slices.SortedFunc(maps.Keys(status.Disruptions), func(a, b string) int {
		return status.Disruptions[a].Compare(status.Disruptions[b].Time)
	})
	for _, old := range earlier[:max(0, len(earlier)+1-len(RetryBackoff))] {
		delete(status.Disruptions, old)
	}
	status.Disruptions[attempt] = metav1.NewTime(now)
}

// FailureNoted reports whether the end of the attempt with this pod is in the runner's status.
func FailureNoted(status *v1alpha1.EphemeralRunnerStatus, pod types.UID) bool {
	_, found := Noted(status, string(pod))
	return found
}

// NewKey returns the key of the present attempt's end in the status: the UID of its pod, or a number if no pod was seen. It is the
// key of no attempt that was noted before, by whomever: the number of entries counts the attempts.
func NewKey(status *v1alpha1.EphemeralRunnerStatus, pod types.UID) string {
	if pod != "" {
		return string(pod)
	}
	for n := AttemptsNoted(status) + 1; ; n++ {
		key := fmt.Sprintf("lost-%d", n)
		if _, used := Noted(status, key); !used {
			return key
		}
	}
}
