package ephemeralrunner

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/pool"
)

const (
	// minRetryAfter is the pause after the first failed call. It doubles with every further one up to maxRetryAfter.
	// The client itself has repeated the call for 30 s by then.
	minRetryAfter = time.Second
	maxRetryAfter = time.Minute
)

// observation is all that a decision depends on.
type observation struct {
	runner      *v1alpha1.EphemeralRunner
	pod         outcome
	bound       bool      // the pod has a node
	startableAt time.Time // when the pod could begin to start: created, or bound to a node if that was later
	now         time.Time

	attempt
	// hadPod is set when a pod of the present attempt has been seen.
	hadPod bool
	// failureNoted is set when the pod's failure is in the status; its deletion follows.
	failureNoted bool
	// podDueAt is when the pod has to be gone once it has ended, zero where it is not being deleted.
	podDueAt time.Time
	// deletionDueAt is when it should be gone by the API server's clock, and finalizers are what it waits for. Both only serve the
	// message.
	deletionDueAt time.Time
	finalizers    []string
	// runnerID is the runner's id on GitHub, 0 where it is not known.
	runnerID int
	// provisioning is what became of the last registration in this process.
	provisioning progress
	// removal is what became of the last call to remove the registration.
	removal progress
	// deferStatus is set when writes that only report something have to wait: see Controller.deferStatus.
	deferStatus bool
}

// ran reports whether the runner container of this attempt has started, so that its JIT config is used.
func (o *observation) ran() bool {
	status := &o.runner.Status
	return status.Phase == v1alpha1.EphemeralRunnerPhaseRunning || status.HadJob() || !o.startedAt.IsZero()
}

// withPod returns a copy of the observation with another outcome of the pod.
func (o *observation) withPod(pod outcome) *observation {
	other := *o
	other.pod = pod
	return &other
}

// deregistered reports whether GitHub has removed the registration at our request, which proves that there is no job.
func (o *observation) deregistered() bool {
	return !o.runner.Status.HadJob() && o.removal.succeeded()
}

// observe gathers what a decision depends on.
func (c *Controller) observe(p *pass) *observation {
	m := p.memory
	o := &observation{
		runner: p.EphemeralRunner, pod: p.outcome, now: c.options.Clock.Now(),
		attempt: m.attempt, runnerID: m.runnerID,
		provisioning: p.provisioning,
		removal:      c.removal(p),
		deferStatus:  c.deferStatus(p.EphemeralRunner),
	}
	o.hadPod = p.hadPod()
	if p.pod != nil {
		o.failureNoted = failureNoted(p.EphemeralRunner, m.pod.uid)
		o.podDueAt = p.podDueAt(o.now)
		o.bound = p.pod.Spec.NodeName != ""
		o.startableAt = startedHere(p.pod, o.provisioning)
		o.deletionDueAt, o.finalizers = terminationOf(p.pod)
		o.pod.disrupted = o.pod.disrupted && !m.pod.deleted
	}
	return o
}

// hadPod reports whether a pod of the present attempt has been seen.
func (p *pass) hadPod() bool {
	return p.memory.pod.uid != "" && !failureNoted(p.EphemeralRunner, p.memory.pod.uid)
}

// failureNoted reports whether the failure of the attempt with this pod is in the runner's status.
func failureNoted(runner *v1alpha1.EphemeralRunner, pod types.UID) bool {
	_, noted := runner.Status.Failures[string(pod)]
	return noted
}

// startedHere is startOf by our own clock where the pod was made by the call that is known: the API server's clock may
// differ from ours by more than a pod may take to run.
func startedHere(pod *corev1.Pod, made progress) time.Time {
	started := startOf(pod)
	if !made.known || made.running {
		return started
	}
	return made.finishedAt.Add(started.Sub(pod.CreationTimestamp.Time))
}

// startOf returns when a pod could begin to start. It may have waited long for a node before, which counts for
// nothing.
func startOf(pod *corev1.Pod) time.Time {
	scheduled := kube.PodCondition(pod, corev1.PodScheduled)
	if scheduled != nil && scheduled.Status == corev1.ConditionTrue && scheduled.LastTransitionTime.After(pod.CreationTimestamp.Time) {
		return scheduled.LastTransitionTime.Time
	}
	return pod.CreationTimestamp.Time
}

// terminationOf returns when a pod that is being deleted should be gone, zero for any other, and the finalizers that
// it waits for.
func terminationOf(pod *corev1.Pod) (due time.Time, finalizers []string) {
	if pod.DeletionTimestamp == nil {
		return time.Time{}, nil
	}
	return pod.DeletionTimestamp.Time, pod.Finalizers
}

// podDueAt returns the deadline, by our clock, for an ended pod to disappear: pendingTimeout after its deletion, or after its failure
// was noted, and at least its grace period and stuckAfter. It is zero for a pod that isn't being deleted. When the failure is noted
// the pod may have been on its way out for long, or the cache may still show one that was deleted by force a moment ago. A failure
// dated later than now was noted by another clock.
func (p *pass) podDueAt(now time.Time) time.Time {
	if p.pod == nil || p.pod.DeletionTimestamp == nil {
		return time.Time{}
	}
	deleting := p.memory.pod.deletingAt
	start := deleting
	if noted, known := p.Status.Failures[string(p.pod.UID)]; known && !noted.After(now) {
		start = noted.Time
	}
	return kube.LaterOf(start.Add(pendingTimeout(p.EphemeralRunner)), deleting.Add(kube.GracePeriod(p.pod)+stuckAfter))
}

// progressOf returns what became of a call.
func progressOf[R any](call pool.Call[R], known bool) progress {
	p := progress{known: known, running: call.Running(), finishedAt: call.Finished}
	if call.Err == nil || p.running {
		return p
	}
	if !errors.As(call.Err, &p.failure) {
		p.failure = &failure{reason: "CallFailed", message: call.Err.Error()}
	}
	p.retryAt = call.Finished.Add(kube.ExponentialBackoff(minRetryAfter, maxRetryAfter, call.Failures))
	if p.busy() {
		p.retryAt = call.Finished.Add(busyRetryAfter)
	}
	if p.failure.allowedAt.After(p.retryAt) {
		p.retryAt = p.failure.allowedAt
	}
	return p
}

// runnerIDOf returns the runner's id on GitHub from its pod's annotation, or fallback if the annotation is missing.
func runnerIDOf(pod *corev1.Pod, fallback int) int {
	if id, err := strconv.Atoi(pod.Annotations[v1alpha1.AnnotationRunnerID]); err == nil && id > 0 {
		return id
	}
	return fallback
}

// pod returns the runner's pod, nil where there is none of its own. It reads the API server instead of the cache where a
// late cache would cost a job.
func (c *Controller) pod(ctx context.Context, runner *v1alpha1.EphemeralRunner, m *memory) (*corev1.Pod, error) {
	pod, err := ownPod(ctx, c.options.Client, runner)
	switch {
	case err != nil:
		return nil, err
	case pod == nil && m.missesPod(runner):
		return c.missedPod(ctx, runner)
	case pod != nil && needsLivePod(runner, pod, m.apiServerTime(pod, c.options.Clock.Now())):
		return kube.LivePod(ctx, c.options.Client, pod)
	default:
		return pod, nil
	}
}

// needsLivePod reports whether what the cache shows has consequences that a late cache must not have: the JIT config of a
// pod that never started is used again, and a pod that hangs in its deletion is given up, with its job.
func needsLivePod(runner *v1alpha1.EphemeralRunner, pod *corev1.Pod, now time.Time) bool {
	if failureNoted(runner, pod.UID) || runner.Status.Done() {
		return false
	}
	return stuck(pod, now) || outcomeOf(pod, now).state == podNeverStarted
}

// ownPod reads the runner's pod, nil where there is none of its own.
func ownPod(ctx context.Context, reader client.Reader, runner *v1alpha1.EphemeralRunner) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	if err := reader.Get(ctx, client.ObjectKeyFromObject(runner), pod, client.UnsafeDisableDeepCopy); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("get pod: %w", err)
	}
	if !metav1.IsControlledBy(pod, runner) {
		return nil, nil
	}
	return pod, nil
}

// missesPod reports whether, according to the cache, a runner at work has lost its pod, which this manager has not deleted.
// Runners and pods come by two watches; a manager that has just become the leader may have one and wait for the other. And a pod
// that has lost the label by which the cache selects is in none. One that is being deleted is at work if GitHub says so.
func (m *memory) missesPod(runner *v1alpha1.EphemeralRunner) bool {
	status := &runner.Status
	atWork := status.Phase == v1alpha1.EphemeralRunnerPhaseRunning || status.HadJob()
	if !runner.DeletionTimestamp.IsZero() {
		atWork = atWork || m.busy
	}
	if !atWork || status.JobCompleted() || status.Done() {
		return false
	}
	return m.exitedAt.IsZero() && !m.pod.left && !m.pod.deleted
}

// missedPod reads the pod from the API server. If reading is forbidden while the runner is being deleted, the cache is trusted: the
// right to read pods goes with the scale set's Role, which may be deleted first, and the deletion has its own deadline.
func (c *Controller) missedPod(ctx context.Context, runner *v1alpha1.EphemeralRunner) (*corev1.Pod, error) {
	pod, err := ownPod(ctx, c.options.Reader, runner)
	if apierrors.IsForbidden(err) && !runner.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	return pod, err
}
