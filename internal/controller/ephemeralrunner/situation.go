package ephemeralrunner

import (
	"errors"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
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
	m := r.memory
	s := &situation{
		runner: r.EphemeralRunner, pod: outcomeOf(r.pod, now), now: now,
		registration: m.registration, up: m.up, blocked: m.blocked, exited: m.exited, told: m.told, sidecarTold: m.sidecarTold,
		provisioning: progressOf(c.provisions.Last(r.key)),
		removal:      progressOf(c.removals.Last(r.key)),
		crowded:      c.crowded(),
	}
	s.hadPod = r.hadPod()
	if r.pod != nil {
		s.counted = failureNoted(r.EphemeralRunner, m.podUID)
		s.bound = r.pod.Spec.NodeName != ""
		s.started = startOf(r.pod)
		s.pod.disrupted = s.pod.disrupted && m.podDeleted != r.pod.UID
	}
	return s
}

// crowded says that runners wait for their turn to be registered and created, finished pods to be deleted, or that others
// are telling already. What only tells something has to stand back then: the API server is what all of them wait for.
func (c *Controller) crowded() bool { return c.Pool.Waiting() > 0 || c.urgencies.any() }

// hadPod says that a pod of the present attempt was there.
func (r *run) hadPod() bool {
	return r.memory.podUID != "" && !failureNoted(r.EphemeralRunner, r.memory.podUID)
}

// failureNoted says that the failure of the attempt with this pod is noted.
func failureNoted(runner *v1alpha1.EphemeralRunner, pod types.UID) bool {
	_, noted := runner.Status.Failures[string(pod)]
	return noted
}

// startOf is when a pod could begin to start: it may have waited for a node for long, which is nobody's fault.
func startOf(pod *corev1.Pod) time.Time {
	scheduled := kube.PodCondition(pod, corev1.PodScheduled)
	if scheduled != nil && scheduled.Status == corev1.ConditionTrue && scheduled.LastTransitionTime.After(pod.CreationTimestamp.Time) {
		return scheduled.LastTransitionTime.Time
	}
	return pod.CreationTimestamp.Time
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
	p.due = call.Finished.Add(kube.Doubled(firstRetry, longestRetry, call.Failures))
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
