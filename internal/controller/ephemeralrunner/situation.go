package ephemeralrunner

import (
	"errors"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/pool"
)

const (
	// firstRetry doubles with every failed call up to longestRetry. The client itself has repeated the call for 30 s.
	firstRetry   = time.Second
	longestRetry = time.Minute
)

// situation gathers what a decision depends on.
func (c *Controller) situation(r *run) *situation {
	now := c.Clock.Now()
	s := &situation{
		runner: r.EphemeralRunner, pod: outcomeOf(r.pod, now), now: now,
		exited: r.memory.exited, reported: r.memory.reported, reportedReady: r.memory.reportedReady,
		provisioning: progressOf(c.provisions.Last(r.key)),
		removal:      progressOf(c.removals.Last(r.key)),
	}
	_, counted := r.Status.Failures[string(r.memory.podUID)]
	s.hadPod = r.memory.podUID != "" && !counted
	if r.pod != nil {
		s.counted = counted
		s.bound = r.pod.Spec.NodeName != ""
		s.created = r.pod.CreationTimestamp.Time
	}
	return s
}

// progressOf reads what became of a call.
func progressOf[R any](call pool.Call[R], known bool) progress {
	p := progress{known: known, running: known && call.Running(), finished: call.Finished}
	if call.Err == nil || p.running {
		return p
	}
	if !errors.As(call.Err, &p.failure) {
		p.failure = &failure{reason: "CallFailed", message: call.Err.Error()}
	}
	p.due = call.Finished.Add(min(longestRetry, firstRetry<<min(call.Failures-1, 10)))
	if p.failure.kind == busy {
		p.due = call.Finished.Add(busyRetry)
	}
	if p.failure.until.After(p.due) {
		p.due = p.failure.until
	}
	return p
}

// registrationOf reads the runner's id on GitHub from its pod.
func registrationOf(pod *corev1.Pod, otherwise int) int {
	if id, err := strconv.Atoi(pod.Annotations[v1alpha1.AnnotationRunnerID]); err == nil && id > 0 {
		return id
	}
	return otherwise
}
