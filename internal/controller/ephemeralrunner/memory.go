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
)

// memory is what is remembered of a runner between passes. All but shared belongs to the one worker that reconciles
// the runner at the time. Moments are by the manager's own clock.
type memory struct {
	uid       types.UID // the runner's: a later one of its name has a memory of its own
	inherited bool      // the runner was there when this manager began, so another one may have asked GitHub for a registration
	runnerID  int       // id on GitHub, 0 where it is not known

	attempt
	deletion

	pod                lastPod
	failed             *failedAttempt // nil unless its failure may have been written without an answer
	unansweredReported bool           // an Event says why GitHub has not removed the registration yet
	writtenVersion     string         // resourceVersion of the last status written
	waiting            *waiting       // nil while no pod waits to run

	// What has been deleted, lest a late cache have it deleted again.
	secretDeleted     bool
	hooksDeleted      bool // what container hooks made
	runnerDeleted     bool // the runner's object
	finalizersRemoved bool // those of the runner's object

	hooksRefusedAt time.Time // the API server first refused to have what container hooks made deleted
	deniedAt       time.Time // a policy or webhook last denied to have the pod patched
	busy           bool      // GitHub has refused to remove the registration, because of a job

	shared provisionMemory
}

// lastPod is what is remembered of the last pod seen. It is forgotten as a whole when another one is seen.
type lastPod struct {
	uid        types.UID // empty where none was seen
	deletingAt time.Time // first seen with a deletionTimestamp
	deleted    bool      // at our request
	left       bool      // may not be deleted by us: garbage collection does it once the runner is gone
	// Its job was written on it, and the job's result: a late cache must not have either written again.
	jobWritten, resultWritten bool
}

// attempt is what was seen of the present attempt to run the runner. It is forgotten as a whole once that has failed: what
// stayed would be taken for the next attempt's, and a JIT config that is used be used again.
type attempt struct {
	startedAt         time.Time // runner container first seen to run
	endedAt           time.Time // first seen to have ended after that, or without its pod
	blockedAt         time.Time // its kubelet first seen to be unable to start it
	exitedAt          time.Time // first seen to have exited with 0
	pendingReportedAt time.Time // when the status last got the reason why the runner does not run
	sidecarReported   bool      // an Event says that a sidecar has died
	ending            podState  // how the container was seen to have ended, podMissing where it was not
}

// deletion is what was seen of a runner that is being deleted.
type deletion struct {
	deletingAt time.Time // first seen with a deletionTimestamp
	stoppedAt  time.Time // first seen without a running container since then
	podGoneAt  time.Time // first seen without a pod since then
	forced     bool      // its pod was deleted without GitHub's consent: GitHub had its time to answer
}

// failedAttempt is an attempt whose failure was to be written to the status under that key, and why it failed.
type failedAttempt struct {
	key string
	decision
}

// newPass returns the runner with what is remembered of it, and remembers what is seen now.
func (c *Controller) newPass(runner *v1alpha1.EphemeralRunner, pod *corev1.Pod, m *memory) *pass {
	k := key{client.ObjectKeyFromObject(runner), runner.UID}
	call, known := c.provisions.Last(k)
	now := c.options.Clock.Now()
	p := &pass{key: k, EphemeralRunner: runner, pod: pod, memory: m, provisioning: progressOf(call, known)}
	if m.shared.takeAnew() {
		m.runnerID = 0
	}
	m.see(p, now)
	m.measure(p, now)
	if call.Result != 0 {
		m.runnerID = call.Result
	}
	return p
}

// begin notes, once, that this manager leads from now on, and which runners are there: another manager may have
// registered those, even where the API server's clock dates them later than ours dates this.
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

// memoryOf returns what is remembered of a runner. What is remembered of a former one of its name is forgotten.
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

// recordedRunnerID returns the runner's id on GitHub by its status, 0 where that may be void: while a runner waits for a
// pod another registration may have been asked for, whose answer was lost. So a runner that is to be provisioned has an id only
// where this manager has registered it, or has seen that its pod never started: nobody knows whether a container has started
// with a JIT config that another manager has left.
func recordedRunnerID(status *v1alpha1.EphemeralRunnerStatus) int {
	if status.Done() || status.Phase == v1alpha1.EphemeralRunnerPhaseRunning {
		return status.RunnerID
	}
	return 0
}

// see notes what this pass sees for the first time.
func (m *memory) see(p *pass, now time.Time) {
	m.pod.see(p.pod, now)
	m.seeStart(p, now)
	p.outcome = outcomeOf(p.pod, m.apiServerTime(p.pod, now))
	m.seeEnd(p.outcome, now)
	if !p.DeletionTimestamp.IsZero() {
		m.shared.abandon()
		m.deletion.see(p.outcome.state == podRunning, p.pod == nil || m.pod.left, now)
	}
}

// seeStart notes what the pod says about the start of the present attempt: nothing once its failure is noted.
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
func (a *attempt) seeEnd(o outcome, now time.Time) {
	if o.over() && a.ending != podSucceeded {
		a.ending = o.state
	}
	if !a.startedAt.IsZero() && (o.over() || o.state == podMissing) {
		kube.SetIfZero(&a.endedAt, now)
	}
}

// see notes since when the runner is being deleted, its container does not run, and its pod is gone. The container may have
// been about to start, and a pod may appear late.
func (d *deletion) see(running, gone bool, now time.Time) {
	kube.SetIfZero(&d.deletingAt, now)
	d.stoppedAt = since(d.stoppedAt, !running, now)
	d.podGoneAt = since(d.podGoneAt, gone, now)
}

// since returns when a condition that holds began: now if it is new. It returns zero if the condition does not hold.
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

// see notes which pod is seen, and since when it is being deleted.
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

// apiServerTime estimates the API server's current time from the pod's deletionTimestamp; it returns now if the pod isn't being
// deleted. The deletion began at deletionTimestamp minus the grace period, by the API server's clock, and was first seen at
// pod.deletingAt by ours. Our clock may differ, or be set: a busy runner whose pod has an hour to end must not lose its job by that.
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

// newAttempt forgets what was seen of the attempt that failed; with anew its registration is gone too.
func (m *memory) newAttempt(anew bool) {
	m.attempt = attempt{}
	if anew {
		m.runnerID, m.secretDeleted = 0, false
	}
}

// clockSkew is how far the API server's clock, which dates objects, may be from ours.
const clockSkew = time.Minute

// unregistered reports whether GitHub can't have a registration: nobody has asked for one since the runner was made. It
// is false for a runner that another manager may have seen.
func (c *Controller) unregistered(p *pass) bool {
	m := p.memory
	return m.runnerID == 0 && !m.shared.wasAsked() && !m.inherited && p.CreationTimestamp.After(c.beganAt.Add(clockSkew))
}

// spent reports whether the registration has had its job. The report of a job's end may be late, and about an earlier
// registration of the same name, so it counts only where there can have been no other: no attempt has failed, and if an earlier
// manager may have registered the runner, this one found it with a pod and asked for no registration itself.
func (p *pass) spent() bool {
	alone := !p.memory.inherited || p.hadPod() && !p.memory.shared.wasAsked()
	return p.Status.JobCompleted() && len(p.Status.Failures) == 0 && alone
}

// died reports whether the runner ended without having exited with 0, or lost its pod to somebody else. Then it has told GitHub
// nothing, which may keep its record for a day although the job has ended.
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

// forget drops the memory of the runner of that name that is gone.
func (c *Controller) forget(name types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgetLocked(name)
}

// forgetLocked forgets everything about the runner of that name, if one is known. The caller holds the lock.
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
