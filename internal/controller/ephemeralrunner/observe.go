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
	"github.com/harrier-ci/harrier/internal/kube/requeue"
	"github.com/harrier-ci/harrier/internal/podstatus"
	"github.com/harrier-ci/harrier/internal/pool"
)

const (
	// minRetryAfter is the pause after the first failed call. It doubles with every further failure, up to maxRetryAfter. By
	// then the client itself has repeated the call for 30 s. maxAwayRetryAfter replaces it while the API server is away: its
	// return must be noticed within seconds, because a job waits.
	minRetryAfter     = time.Second
	maxRetryAfter     = time.Minute
	maxAwayRetryAfter = 10 * time.Second
)

// observation is all that a decision depends on.
type observation struct {
	runner      *v1alpha1.EphemeralRunner
	pod         outcome
	bound       bool      // the pod has a node
	startableAt time.Time // when the pod could first start: when it was created or, if later, bound to a node
	now         time.Time

	attempt
	// hadPod is set if a pod of the present attempt has been seen.
	hadPod bool
	// failureNoted is set if the pod's failure is in the status; the pod is deleted next.
	failureNoted bool
	// podDueAt is when the pod must be gone once it has ended, zero if it is not being deleted.
	podDueAt time.Time
	// deletionDueAt is when the pod should be gone by the API server's clock, and finalizers are what it waits for. Both
	// serve only the message.
	deletionDueAt time.Time
	finalizers    []string
	// podEnding is what ended the pod while its job ran, as first seen.
	podEnding podstatus.Ending
	// runnerID is the runner's id on GitHub, 0 if not known.
	runnerID int
	// provisioning is the state of the last registration in this process.
	provisioning progress
	// removal is the state of the last call to remove the registration.
	removal progress
	// deferStatus is set if writes that only report something must wait: see Controller.deferStatus.
	deferStatus bool
}

// ran reports whether the runner container of this attempt has started, which uses up its JIT config.
func (o *observation) ran() bool {
	status := &o.runner.Status
	return status.Phase == v1alpha1.EphemeralRunnerPhaseRunning || status.HadJob() || !o.startedAt.IsZero()
}

// withPod returns a copy of the observation in which the pod has another outcome.
func (o *observation) withPod(pod outcome) *observation {
	other := *o
	other.pod = pod
	return &other
}

// deregistered reports whether GitHub has removed the registration at our request, which proves that the runner has no job.
func (o *observation) deregistered() bool {
	return !o.runner.Status.HadJob() && o.removal.succeeded()
}

// observe gathers what a decision depends on.
func (c *Controller) observe(p *pass) *observation {
	m, now := p.memory, c.options.Clock.Now()
	o := &observation{
		runner: p.EphemeralRunner, pod: p.outcome, now: now,
		attempt: m.attempt, runnerID: m.runnerID, podEnding: m.pod.ending,
		provisioning: p.provisioning,
		removal:      c.removal(p),
		deferStatus:  c.deferStatus(p.EphemeralRunner, now.Sub(m.startedAt)),
	}
	o.hadPod = p.hadPod()
	if p.pod != nil {
		o.failureNoted = failureNoted(p.EphemeralRunner, m.pod.uid)
		o.podDueAt = p.podDueAt(o.now)
		o.bound = p.pod.Spec.NodeName != ""
		o.startableAt = startedHere(p.pod, o.provisioning)
		o.deletionDueAt, o.finalizers = terminationOf(p.pod)
	}
	if o.hadPod {
		o.pod.outside, o.pod.fault = m.pod.ending.Outside, m.pod.ending.Fault
	}
	if o.pod.outside && o.pod.reason == "" {
		o.pod.reason, o.pod.message = v1alpha1.ReasonPodLost, m.pod.ending.Message
	}
	return o
}

// hadPod reports whether a pod of the present attempt has been seen.
func (p *pass) hadPod() bool {
	return p.memory.pod.uid != "" && !failureNoted(p.EphemeralRunner, p.memory.pod.uid)
}

// failureNoted reports whether the end of the attempt with this pod is in the runner's status.
func failureNoted(runner *v1alpha1.EphemeralRunner, pod types.UID) bool {
	_, found := noted(&runner.Status, string(pod))
	return found
}

// startedHere returns startOf by our own clock if the pod was created by the last provisioning: the API server's clock may
// differ from ours by more than a pod may take to start.
func startedHere(pod *corev1.Pod, made progress) time.Time {
	started := startOf(pod)
	if !made.known || made.running {
		return started
	}
	return made.finishedAt.Add(started.Sub(pod.CreationTimestamp.Time))
}

// startOf returns when a pod could first start. Time spent waiting for a node does not count.
func startOf(pod *corev1.Pod) time.Time {
	scheduled := kube.PodCondition(pod, corev1.PodScheduled)
	if scheduled != nil && scheduled.Status == corev1.ConditionTrue && scheduled.LastTransitionTime.After(pod.CreationTimestamp.Time) {
		return scheduled.LastTransitionTime.Time
	}
	return pod.CreationTimestamp.Time
}

// terminationOf returns when a pod that is being deleted should be gone, and the finalizers that it waits for. It returns
// zero and nil for any other pod.
func terminationOf(pod *corev1.Pod) (due time.Time, finalizers []string) {
	if pod.DeletionTimestamp == nil {
		return time.Time{}, nil
	}
	return pod.DeletionTimestamp.Time, pod.Finalizers
}

// podDueAt returns the deadline, by our clock, for an ended pod to disappear: pendingTimeout after its deletion or after its
// failure was noted, and no earlier than the end of its grace period plus stuckAfter. It returns zero for a pod that isn't
// being deleted. By the time a failure is noted, the deletion may have lasted for long, or the cache may still show a pod
// that was force-deleted a moment ago. A failure dated later than now was noted by another clock and is ignored.
func (p *pass) podDueAt(now time.Time) time.Time {
	if p.pod == nil || p.pod.DeletionTimestamp == nil {
		return time.Time{}
	}
	deleting := p.memory.pod.deletingAt
	start := deleting
	if at, found := noted(&p.Status, string(p.pod.UID)); found && !at.After(now) {
		start = at.Time
	}
	return kube.LaterOf(start.Add(pendingTimeout(p.EphemeralRunner)), deleting.Add(kube.GracePeriod(p.pod)+stuckAfter))
}

// progressOf returns the state of a call.
func progressOf[R any](call pool.Call[R], known bool) progress {
	p := progress{known: known, running: call.Running(), finishedAt: call.Finished}
	if call.Err == nil || p.running {
		return p
	}
	if !errors.As(call.Err, &p.failure) {
		p.failure = &failure{reason: "CallFailed", message: call.Err.Error()}
	}
	longest := maxRetryAfter
	if p.failure.kind == failureAway {
		longest = maxAwayRetryAfter
	}
	p.retryAt = call.Finished.Add(requeue.Backoff(minRetryAfter, longest, call.Failures))
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

// pod returns the runner's pod, nil if it has none. It reads from the API server instead of the cache if a stale cache would
// cost a job.
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

// needsLivePod reports whether the cached pod calls for a step that a stale cache must not cause: reusing the JIT config of a
// pod that never started, or giving up a pod that hangs in its deletion, with its job.
func needsLivePod(runner *v1alpha1.EphemeralRunner, pod *corev1.Pod, now time.Time) bool {
	if failureNoted(runner, pod.UID) || runner.Status.Done() {
		return false
	}
	return stuck(pod, now) || outcomeOf(pod, now).state == podNeverStarted
}

// ownPod reads the runner's pod. It returns nil if there is none or it belongs to somebody else.
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

// missesPod reports whether, according to the cache, a runner at work has lost its pod without this manager having deleted
// it. Runners and pods arrive on separate watches, so a manager that has just become the leader may see one before the other.
// A pod that has lost the label by which the cache selects is never in it. A runner that is being deleted is also at work if
// GitHub says so.
func (m *memory) missesPod(runner *v1alpha1.EphemeralRunner) bool {
	status := &runner.Status
	atWork := status.Phase == v1alpha1.EphemeralRunnerPhaseRunning || status.HadJob()
	if !runner.DeletionTimestamp.IsZero() {
		atWork = atWork || m.busy
	}
	if !atWork || status.Done() || status.JobCompleted() && !m.goneUnseen(status) {
		return false
	}
	return m.exitedAt.IsZero() && !m.pod.left && !m.pod.deleted
}

// missedPod reads the pod from the API server. If reading is forbidden while the runner is being deleted, or has no set, it trusts the
// cache: the right to read pods comes from the scale set's Role, which may be deleted first. The deletion has its own deadline, and asks
// GitHub before anything is killed.
func (c *Controller) missedPod(ctx context.Context, runner *v1alpha1.EphemeralRunner) (*corev1.Pod, error) {
	pod, err := ownPod(ctx, c.options.Reader, runner)
	if !apierrors.IsForbidden(err) {
		return pod, err
	}
	if runner.DeletionTimestamp.IsZero() {
		set, setErr := c.runnerSet(ctx, runner)
		if setErr != nil || set != nil {
			return nil, errors.Join(err, setErr)
		}
	}
	return nil, nil
}
