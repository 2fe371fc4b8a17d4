package ephemeralrunner

import (
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

// The status has the attempts that ended without a job, in two maps by the UID of the attempt's pod: failures are held against the
// runner, and the sixth in a row makes it fail; disruptions are not, of which it has the latest. Both delay the next attempt.

const (
	// upAfter is how long a runner container must have run for an end from outside, such as an eviction, to start a new row: the next
	// pause is the shortest again. A runner that can't start or register ends within seconds.
	upAfter = time.Minute
	// longUpAfter is how long a runner must have been up for its end, whatever its cause, to start a new row of failures. It has
	// worked for longer than all pauses of a row together (155 s), so runners that crash so rarely cost little, while six ends of an
	// idle runner in a day, for example by its liveness probe, say nothing about image or template.
	longUpAfter = 5 * time.Minute
)

// retryBackoff holds the pauses after the first to fifth attempts that ended; after the sixth failure the runner has failed, and after
// further disruptions the pause is the last of these.
var retryBackoff = []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second}

// attempt is what was seen of the present attempt to run the runner. All of it is forgotten once the attempt has failed: what
// remained would be attributed to the next attempt, and a used JIT config could be used again.
type attempt struct {
	startedAt         time.Time       // when the runner container was first seen running
	endedAt           time.Time       // when it was first seen to have ended, or to have lost its pod after it had started or got a job
	blockedAt         time.Time       // when its kubelet was first seen to be unable to start it
	exitedAt          time.Time       // when it was first seen to have exited with 0
	pendingReportedAt time.Time       // when the status was last given the reason why the runner does not run
	sidecarReported   bool            // an Event says that a sidecar has died
	ending            podstatus.Phase // how the container was seen to have ended, Missing if it was not
}

// seeEnd notes how and when the present attempt ended. That the runner exited with 0 is never overwritten.
func (a *attempt) seeEnd(status *v1alpha1.EphemeralRunnerStatus, pod outcome, now time.Time) {
	if pod.Over() && a.ending != podstatus.Succeeded {
		a.ending = pod.Phase
	}
	switch {
	case pod.Phase == podstatus.Running:
		a.endedAt = time.Time{} // the report of its job was seen before its pod
	case pod.Over() || pod.Phase == podstatus.Missing && (!a.startedAt.IsZero() || status.HadJob()):
		kube.SetIfZero(&a.endedAt, now)
	}
}

// planRetry retries, or gives up after the sixth failure in a row. Disruptions are no failures, however many there are: a runner that gave
// up because of them would be missing when the cluster is well again.
func planRetry(o *observation, how step) decision {
	d := o.pod.decide(how)
	d.disruption = o.pod.fault == podstatus.FaultDisruption
	d.firstInRow = o.wasUpFor(longUpAfter) || o.wasUpFor(upAfter) && o.pod.outside
	if !d.disruption && !d.firstInRow && len(o.runner.Status.Failures) >= len(retryBackoff) {
		return o.pod.decide(stepFail)
	}
	return d
}

// wasUpFor reports whether the present attempt was up for so long, which shows that the template works. Idle runners may live for
// weeks, and be evicted, reach their pods' deadline or fail their liveness probes many times.
func (o *observation) wasUpFor(d time.Duration) bool {
	return !o.startedAt.IsZero() && !o.endedAt.Before(o.startedAt.Add(d))
}

// nextAttemptAt returns when the pause after the last attempt is over. It returns now if the end of that is dated in the future:
// the clock was set back since, perhaps by hours, and the pause must not become that long.
func nextAttemptAt(o *observation) time.Time {
	last := lastNoted(&o.runner.Status)
	if last.After(o.now) {
		return o.now
	}
	return last.Add(backoffAfter(attemptsNoted(&o.runner.Status)))
}

// backoffAfter returns how long to wait after the n-th attempt.
func backoffAfter(n int) time.Duration {
	if n == 0 {
		return 0
	}
	return retryBackoff[min(n, len(retryBackoff))-1]
}

// attemptsNoted returns how many attempts the status has.
func attemptsNoted(status *v1alpha1.EphemeralRunnerStatus) int {
	return len(status.Failures) + len(status.Disruptions)
}

// lastNoted returns when the end of the last attempt was noted, zero if there is none.
func lastNoted(status *v1alpha1.EphemeralRunnerStatus) (last time.Time) {
	for _, noted := range []map[string]metav1.Time{status.Failures, status.Disruptions} {
		for _, at := range noted {
			if at.After(last) {
				last = at.Time
			}
		}
	}
	return last
}

// noted returns when the end of the attempt with that key was noted in the status, if it was.
func noted(status *v1alpha1.EphemeralRunnerStatus, attempt string) (at metav1.Time, found bool) {
	if at, found = status.Failures[attempt]; !found {
		at, found = status.Disruptions[attempt]
	}
	return at, found
}

// note notes the end of an attempt. More disruptions than there are pauses would say nothing more, so the oldest go.
func note(status *v1alpha1.EphemeralRunnerStatus, attempt string, d decision, now time.Time) {
	if d.firstInRow {
		clear(status.Failures)
		clear(status.Disruptions)
	}
	if !d.disruption {
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
	for _, old := range earlier[:max(0, len(earlier)+1-len(retryBackoff))] {
		delete(status.Disruptions, old)
	}
	status.Disruptions[attempt] = metav1.NewTime(now)
}

// failureNoted reports whether the end of the attempt with this pod is in the runner's status.
func failureNoted(status *v1alpha1.EphemeralRunnerStatus, pod types.UID) bool {
	_, found := noted(status, string(pod))
	return found
}

// newKey returns the key of the present attempt's end in the status: the UID of its pod, or a number if no pod was seen. It is the
// key of no attempt that was noted before, by whomever: the number of entries counts the attempts.
func newKey(status *v1alpha1.EphemeralRunnerStatus, pod types.UID) string {
	if pod != "" {
		return string(pod)
	}
	for n := attemptsNoted(status) + 1; ; n++ {
		key := fmt.Sprintf("lost-%d", n)
		if _, used := noted(status, key); !used {
			return key
		}
	}
}
