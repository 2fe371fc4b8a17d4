package ephemeralrunner

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

// memory is what the controller remembers of a runner between passes. All of it except shared belongs to the one worker that
// reconciles the runner at the time. Times are by the manager's own clock.
type memory struct {
	uid       types.UID // of the runner: a later runner of the same name has its own memory
	inherited bool      // the runner existed when this manager took over, so another manager may have registered it
	runnerID  int       // id on GitHub, 0 if not known

	attempt
	deletion

	pod                lastPod
	failed             *failedAttempt // attempt whose failure may have been written although no answer came, else nil
	unansweredReported bool           // an Event says why GitHub has not removed the registration yet
	writtenVersion     string         // resourceVersion of the last status written
	waiting            *waiting       // nil if no pod is waiting to run

	// What has been deleted, so that a stale cache doesn't have it deleted again.
	secretDeleted     bool
	hooksDeleted      bool // what container hooks created
	runnerDeleted     bool // the EphemeralRunner object
	abandoned         bool // the same, because it has no set
	mayVanish         bool // it had no finalizer of ours when it was last seen
	finalizersRemoved bool // of the EphemeralRunner object

	hooksRefusedAt time.Time // when the API server first refused to delete what container hooks created
	deniedAt       time.Time // when a policy or webhook last denied patching the pod
	busy           bool      // GitHub has refused to remove the registration because of a job

	shared provisionMemory
}

// lastPod is what the controller remembers of the last pod seen. All of it is forgotten when another pod is seen.
type lastPod struct {
	uid        types.UID // empty if no pod has been seen
	deletingAt time.Time // first seen with a deletionTimestamp
	deleted    bool      // at the controller's request
	removed    bool      // the same, without a grace period or finalizers: there is no pod, whatever the cache shows
	left       bool      // the controller may not delete it: garbage collection does once the runner is gone
	// ending is what ended the pod while its job ran, or is about to. It is remembered because the pod may be gone by the next pass.
	ending podstatus.Ending
	// That the runner is busy, its job and the job's result have been written on the pod: a stale cache must not have any of
	// them written again.
	busyWritten, jobWritten, resultWritten bool
}

// attempt is what was seen of the present attempt to run the runner. All of it is forgotten once the attempt has failed: what
// remained would be attributed to the next attempt, and a used JIT config could be used again.
type attempt struct {
	startedAt         time.Time // when the runner container was first seen running
	endedAt           time.Time // when it was first seen to have ended, or to have lost its pod after it had started or got a job
	blockedAt         time.Time // when its kubelet was first seen to be unable to start it
	exitedAt          time.Time // when it was first seen to have exited with 0
	pendingReportedAt time.Time // when the status was last given the reason why the runner does not run
	sidecarReported   bool      // an Event says that a sidecar has died
	ending            podState  // how the container was seen to have ended, podMissing if it was not
}

// deletion is what was seen of a runner that is being deleted.
type deletion struct {
	deletingAt time.Time // when it was first seen with a deletionTimestamp
	stoppedAt  time.Time // since when it has been seen without a running container
	podGoneAt  time.Time // since when it has been seen without a pod
	heldAt     time.Time // since when it waits for its set to count its lost job
	forced     bool      // its pod was deleted without GitHub's consent, after GitHub had its time to answer
}

// failedAttempt is an attempt that failed: why, and the key in the status under which the failure was to be noted.
type failedAttempt struct {
	key string
	decision
}

// newPass returns the runner with what the controller remembers of it, after adding what is seen now.
func (c *Controller) newPass(runner *v1alpha1.EphemeralRunner, pod *corev1.Pod, m *memory) *pass {
	k := key{client.ObjectKeyFromObject(runner), runner.UID}
	call, known := c.provisions.Last(k)
	now := c.options.Clock.Now()
	p := &pass{key: k, EphemeralRunner: runner, pod: pod, memory: m, provisioning: progressOf(call, known)}
	if m.shared.takeAsked() {
		m.runnerID = 0
	}
	m.see(p, c.removedPods.take(p), now)
	m.measure(p, now)
	if call.Result != 0 {
		m.runnerID = call.Result
	}
	return p
}

// begin notes, once, when this manager took over and which runners existed by then. Another manager may have registered
// those, even if the API server's clock dates them later than ours dates this.
func (c *Controller) begin(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.beganAt.IsZero() {
		return nil
	}
	var there v1alpha1.EphemeralRunnerList
	if err := c.options.Client.List(ctx, &there, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list EphemeralRunners: %w", err)
	}
	for i := range there.Items {
		c.memoryOfLocked(&there.Items[i]).inherited = true
	}
	c.beganAt = c.options.Clock.Now()
	return nil
}

// memoryOf returns what the controller remembers of a runner. Whatever belonged to an earlier runner of the same name is
// forgotten.
func (c *Controller) memoryOf(runner *v1alpha1.EphemeralRunner) *memory {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.memoryOfLocked(runner)
}

// memoryOfLocked is memoryOf for a caller that holds the lock.
func (c *Controller) memoryOfLocked(runner *v1alpha1.EphemeralRunner) *memory {
	name := client.ObjectKeyFromObject(runner)
	m := c.memories[name]
	if m != nil && m.uid == runner.UID {
		return m
	}
	c.forgetLocked(name)
	m = &memory{uid: runner.UID, runnerID: recordedRunnerID(&runner.Status)}
	c.memories[name] = m
	return m
}

// recordedRunnerID returns the runner's id on GitHub according to its status, or 0 if that id may be outdated. While a runner
// waits for a pod, another registration may have been requested and its answer lost. Nobody knows whether a JIT config left
// by another manager was used, so such a runner is registered again.
func recordedRunnerID(status *v1alpha1.EphemeralRunnerStatus) int {
	if status.Done() || status.Phase == v1alpha1.EphemeralRunnerPhaseRunning {
		return status.RunnerID
	}
	return 0
}

// see notes what this pass sees for the first time. removed is the pod as it was when it was removed, nil if there is a pod or that
// is not known.
func (m *memory) see(p *pass, removed *corev1.Pod, now time.Time) {
	if removed != nil && !failureNoted(p.EphemeralRunner, removed.UID) {
		m.pod.see(removed, now)
		m.seeEnd(p, outcomeOf(removed, now), now)
		m.pod.seeEnding(removed, &p.Status, false)
	}
	m.pod.see(p.pod, now)
	m.seeStart(p, now)
	serverTime := m.apiServerTime(p.pod, now)
	p.outcome = outcomeOf(p.pod, serverTime)
	if p.pod == nil || !failureNoted(p.EphemeralRunner, p.pod.UID) {
		m.seeEnd(p, p.outcome, now)
	}
	if p.pod != nil {
		m.pod.seeEnding(p.pod, &p.Status, stuck(p.pod, serverTime))
	} else {
		m.seeGone(&p.Status)
	}
	if !p.DeletionTimestamp.IsZero() {
		m.shared.abandon()
		m.deletion.see(p.outcome.state == podRunning, p.pod == nil || m.pod.passedOver(), now)
	}
}

// seeStart notes what the pod says about the start of the present attempt, unless the failure of that pod is already noted.
func (m *memory) seeStart(p *pass, now time.Time) {
	if p.pod == nil || failureNoted(p.EphemeralRunner, p.pod.UID) || kube.IsStale(p.EphemeralRunner, m.writtenVersion) {
		return
	}
	// A pod without the annotation is ARC's, which writes the status before it creates the pod.
	m.runnerID = runnerIDOf(p.pod, cmp.Or(m.runnerID, p.Status.RunnerID))
	status := runnerStatus(p.pod)
	if isRunning(p.pod, status) {
		kube.SetIfZero(&m.startedAt, now)
		return
	}
	_, found := blocked(p.pod, status)
	m.blockedAt = since(m.blockedAt, found, now) // a container that is blocked later gets the full time to recover
}

// seeEnd notes how and when the present attempt ended. That the runner exited with 0 is never overwritten.
func (a *attempt) seeEnd(p *pass, o outcome, now time.Time) {
	if o.over() && a.ending != podSucceeded {
		a.ending = o.state
	}
	switch {
	case o.state == podRunning:
		a.endedAt = time.Time{} // the report of its job was seen before its pod
	case o.over() || o.state == podMissing && (!a.startedAt.IsZero() || p.Status.HadJob()):
		kube.SetIfZero(&a.endedAt, now)
	}
}

// see notes since when the runner is being deleted, its container does not run, and its pod is gone. A container that was
// about to start, or a pod that appears late, resets its clock.
func (d *deletion) see(running, gone bool, now time.Time) {
	kube.SetIfZero(&d.deletingAt, now)
	d.stoppedAt = since(d.stoppedAt, !running, now)
	d.podGoneAt = since(d.podGoneAt, gone, now)
}

// since returns when a condition that holds began: now if it is new, zero if it does not hold.
func since(began time.Time, holds bool, now time.Time) time.Time {
	switch {
	case !holds:
		return time.Time{}
	case began.IsZero():
		return now
	default:
		return began
	}
}

// see notes which pod exists, and since when it is being deleted.
func (l *lastPod) see(pod *corev1.Pod, now time.Time) {
	if pod != nil && l.uid != pod.UID {
		*l = lastPod{uid: pod.UID}
	}
	if pod == nil || pod.DeletionTimestamp == nil {
		l.deletingAt = time.Time{}
		return
	}
	kube.SetIfZero(&l.deletingAt, now)
}

// passedOver reports whether a runner that is being deleted need not wait until the cache shows no pod.
func (l *lastPod) passedOver() bool { return l.left || l.removed }

// apiServerTime estimates the API server's current time from the pod's deletionTimestamp; it returns now if the pod isn't
// being deleted. By the API server's clock the deletion began at deletionTimestamp minus the grace period; by ours it was
// first seen at pod.deletingAt. Our clock may be wrong or be adjusted, and that must not cost a busy runner, whose pod may
// have an hour to end, its job.
func (m *memory) apiServerTime(pod *corev1.Pod, now time.Time) time.Time {
	if pod == nil || pod.DeletionTimestamp == nil {
		return now
	}
	deletingAt := now
	if m.pod.uid == pod.UID && !m.pod.deletingAt.IsZero() {
		deletingAt = m.pod.deletingAt
	}
	return pod.DeletionTimestamp.Add(now.Sub(deletingAt) - kube.GracePeriod(pod))
}

// newAttempt forgets what was seen of the attempt that failed, and its registration if that is gone too.
func (m *memory) newAttempt(reregister bool) {
	m.attempt = attempt{}
	if reregister {
		m.runnerID, m.secretDeleted = 0, false
	}
}

// clockSkew is how far the API server's clock, which dates objects, may differ from ours.
const clockSkew = time.Minute

// unregistered reports whether GitHub can't have a registration: nobody has requested one since the runner was created. It is
// false for a runner that another manager may have seen.
func (c *Controller) unregistered(p *pass) bool {
	m := p.memory
	return m.runnerID == 0 && !m.shared.wasAsked() && !m.inherited && p.CreationTimestamp.After(c.beganAt.Add(clockSkew))
}

// spent reports whether the registration has had its one job. A report of the job's end may be late and belong to an earlier
// registration of the same name, so it counts only if there was none: no attempt has ended, and either no other manager can
// have registered the runner, or this one found it with a pod and has requested no registration itself.
func (p *pass) spent() bool {
	alone := !p.memory.inherited || p.hadPod() && !p.memory.shared.wasAsked()
	return p.Status.JobCompleted() && attemptsNoted(&p.Status) == 0 && alone
}

// died reports whether the runner ended without exiting with 0, or lost its pod to somebody else. It then had no chance to
// tell GitHub, which may keep its record for a day even though the job has ended.
func (p *pass) died() bool {
	m := p.memory
	switch {
	case m.ending == podSucceeded || p.Status.Phase == v1alpha1.EphemeralRunnerPhaseSucceeded:
		return false
	case m.ending != podMissing || p.Status.Phase == v1alpha1.EphemeralRunnerPhaseFailed:
		return true
	default:
		return p.outcome.state == podMissing && m.pod.uid != "" && !m.pod.deleted
	}
}

// forget drops what the controller remembers of a runner that is gone.
func (c *Controller) forget(name types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgetLocked(name)
}

// forgetLocked forgets everything about the runner of that name, if there was one. The caller holds the lock.
func (c *Controller) forgetLocked(name types.NamespacedName) {
	m := c.memories[name]
	if m == nil {
		return
	}
	m.shared.abandon()
	m.waiting.end(c.options.Clock.Now())
	delete(c.memories, name)
	k := key{name, m.uid}
	c.provisions.Forget(k)
	c.deregistrations.Forget(k)
}
