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

// situation is all that a decision depends on.
type situation struct {
	runner  *v1alpha1.EphemeralRunner
	pod     outcome
	bound   bool      // the pod has a node
	started time.Time // when the pod could begin to start: created, or bound to a node if that was later
	now     time.Time

	// hadPod: a pod of the present attempt was there.
	hadPod bool
	// counted: the pod's failure is noted already, since when; it is on its way out.
	counted bool
	noted   time.Time
	// terminating is when the pod had to be gone, zero where it is not being deleted; finalizers are what it waits for then.
	terminating time.Time
	finalizers  []string
	// registration is the runner's id on GitHub, 0 where it is not known. Where it is known the JIT config may be stored.
	registration int
	// provisioning is what became of the last registration in this process.
	provisioning progress
	// removal is what GitHub last said to the request to remove the registration.
	removal progress
	// up is when the runner container was first seen to run in the present attempt.
	up time.Time
	// blocked is when the kubelet was first seen to be unable to start it in the present attempt.
	blocked time.Time
	// exited is when the runner was first seen to have exited.
	exited time.Time
	// told is when it was last said why the runner does not run.
	told time.Time
	// sidecarTold: it was said that a sidecar has died.
	sidecarTold bool
	// crowded: other runners wait for their turn to be registered and created, or their finished pods to be deleted.
	crowded bool
}

// ran says that the runner container of this attempt has started, so that its JIT config is used.
func (s *situation) ran() bool {
	status := &s.runner.Status
	return status.Phase == v1alpha1.EphemeralRunnerPhaseRunning || status.HasJob() || !s.up.IsZero()
}

// withPod returns a copy of the situation with another outcome of the pod.
func (s *situation) withPod(pod outcome) *situation {
	other := *s
	other.pod = pod
	return &other
}

// deregistered says that GitHub has removed the registration because we asked, which proves that there is no job.
func (s *situation) deregistered() bool {
	return !s.runner.Status.HasJob() && s.removal.known && !s.removal.running && s.removal.failure == nil
}

// situation gathers what a decision depends on.
func (c *Controller) situation(p *pass) *situation {
	now := c.options.Clock.Now()
	m := p.memory
	s := &situation{
		runner: p.EphemeralRunner, pod: outcomeOf(p.pod, m.clockOf(p.pod, now)), now: now,
		registration: m.registration, up: m.up, blocked: m.blocked, exited: m.exited, told: m.told, sidecarTold: m.sidecarTold,
		provisioning: p.provisioning,
		removal:      progressOf(c.removals.Last(p.key)),
		crowded:      c.crowded(p.EphemeralRunner),
	}
	s.hadPod = p.hadPod()
	if p.pod != nil {
		s.counted = failureNoted(p.EphemeralRunner, m.podUID)
		s.noted = p.Status.Failures[string(m.podUID)].Time
		s.bound = p.pod.Spec.NodeName != ""
		s.started = startedHere(p.pod, s.provisioning)
		s.terminating, s.finalizers = terminationOf(p.pod)
		s.pod.disrupted = s.pod.disrupted && m.podDeleted != p.pod.UID
	}
	return s
}

// crowded says that runners wait for their turn to be registered and created, finished pods to be deleted, or that others
// are telling already. What only tells something has to stand back then: the API server is what all of them wait for.
func (c *Controller) crowded(runner *v1alpha1.EphemeralRunner) bool {
	return c.options.Pool.Waiting(groupOf(runner)) || c.urgencies.any()
}

// hadPod says that a pod of the present attempt was there.
func (p *pass) hadPod() bool {
	return p.memory.podUID != "" && !failureNoted(p.EphemeralRunner, p.memory.podUID)
}

// failureNoted says that the failure of the attempt with this pod is noted.
func failureNoted(runner *v1alpha1.EphemeralRunner, pod types.UID) bool {
	_, noted := runner.Status.Failures[string(pod)]
	return noted
}

// startedHere is startOf by our own clock, where the pod was made by the call that is known: the API server's may differ from it
// by more than a pod may take to run.
func startedHere(pod *corev1.Pod, made progress) time.Time {
	started := startOf(pod)
	if !made.known || made.running {
		return started
	}
	return made.finished.Add(started.Sub(pod.CreationTimestamp.Time))
}

// startOf is when a pod could begin to start: it may have waited for a node for long, which is nobody's fault.
func startOf(pod *corev1.Pod) time.Time {
	scheduled := kube.PodCondition(pod, corev1.PodScheduled)
	if scheduled != nil && scheduled.Status == corev1.ConditionTrue && scheduled.LastTransitionTime.After(pod.CreationTimestamp.Time) {
		return scheduled.LastTransitionTime.Time
	}
	return pod.CreationTimestamp.Time
}

// terminationOf is when a pod that is being deleted had to be gone, zero for any other, and what it waits for.
func terminationOf(pod *corev1.Pod) (due time.Time, finalizers []string) {
	if pod.DeletionTimestamp == nil {
		return time.Time{}, nil
	}
	return pod.DeletionTimestamp.Time, pod.Finalizers
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
	p.due = call.Finished.Add(kube.ExponentialBackoff(firstRetry, longestRetry, call.Failures))
	if p.failure.kind == failureBusy {
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
