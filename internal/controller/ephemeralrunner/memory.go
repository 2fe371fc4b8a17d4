package ephemeralrunner

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// memory is what is remembered of a runner between passes. All but shared belongs to the one worker that reconciles
// the runner at the time. Moments are by the manager's own clock.
type memory struct {
	inherited bool // the runner was there when this manager began, so another one may have asked GitHub for a registration
	runnerID  int  // id on GitHub, 0 where it is not known

	podUID             types.UID      // of the last pod seen
	startedAt          time.Time      // runner container first seen to run in the present attempt
	blockedAt          time.Time      // its kubelet first seen to be unable to start that
	exitedAt           time.Time      // first seen to have exited with 0
	ending             podState       // how its container was seen to have ended, podMissing where it was not
	failed             *failedAttempt // nil unless its failure may have been written without an answer
	pendingReportedAt  time.Time      // when the status last got the reason why the runner does not run
	sidecarReported    bool           // an Event says that a sidecar has died
	unansweredReported bool           // an Event says why GitHub has not removed the registration yet
	writtenVersion     string         // resourceVersion of the last status written
	waiting            *waiting       // nil while no pod waits to run
	annotated          annotated      // what was written on the pod about its job

	// What has been deleted, lest a late cache have it deleted again.
	podDeleted        types.UID
	secretDeleted     bool
	hooksDeleted      bool // what container hooks made
	runnerDeleted     bool // the runner's object
	finalizersRemoved bool // those of the runner's object

	podDeletingAt  time.Time // its pod first seen with a deletionTimestamp
	deletingAt     time.Time // the runner first seen with a deletionTimestamp
	stoppedAt      time.Time // first seen without a running container since then
	podGoneAt      time.Time // first seen without a pod since then
	hooksRefusedAt time.Time // the API server first refused to have what container hooks made deleted
	podLeft        bool      // may not be deleted by us: garbage collection does it once the runner is gone
	deniedAt       time.Time // a policy or webhook last denied to have the pod patched
	busy           bool      // GitHub has refused to remove the registration, because of a job
	forced         bool      // the pod was deleted though GitHub had not answered

	// shared is also used by calls in the pool; Controller.mu guards it.
	shared struct {
		abandoned bool          // a registration under way is not to be followed by Secret and Pod
		asked     bool          // this manager has asked GitHub for a registration
		anew      bool          // it has since the last pass, so the registration known before is void
		secret    types.UID     // of the Secret that is known to be the runner's, empty where none is
		unstored  *registration // for which no Secret could be made, nil where there is none
	}
}

// failedAttempt is an attempt whose failure was to be written to the status under that key, and why it failed.
type failedAttempt struct {
	key string
	decision
}

// recall returns the runner with what is remembered of it, and remembers what is seen now.
func (c *Controller) recall(runner *v1alpha1.EphemeralRunner, pod *corev1.Pod) *pass {
	k := key{client.ObjectKeyFromObject(runner), runner.UID}
	call, known := c.provisions.Last(k)
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.options.Clock.Now()
	m := c.memoryOf(k, &runner.Status)
	p := &pass{key: k, EphemeralRunner: runner, pod: pod, memory: m, provisioning: progressOf(call, known)}
	if m.shared.anew {
		m.shared.anew, m.runnerID = false, 0
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
		runner := &there.Items[i]
		c.memoryOf(key{client.ObjectKeyFromObject(runner), runner.UID}, &runner.Status).inherited = true
	}
	c.beganAt = c.options.Clock.Now()
	return nil
}

// memoryOf returns what is remembered of a runner. The caller holds the lock.
func (c *Controller) memoryOf(k key, status *v1alpha1.EphemeralRunnerStatus) *memory {
	if former, known := c.names[k.NamespacedName]; known && former != k.uid {
		c.forgetLocked(key{k.NamespacedName, former})
	}
	if c.memories[k.uid] == nil {
		c.memories[k.uid] = &memory{runnerID: recordedRunnerID(status)}
		c.names[k.NamespacedName] = k.uid
	}
	return c.memories[k.uid]
}

// recordedRunnerID returns the runner's id on GitHub by its status, 0 where that may be void: while a runner waits for a
// pod another registration may have been asked for, whose answer was lost.
func recordedRunnerID(status *v1alpha1.EphemeralRunnerStatus) int {
	if status.Done() || status.Phase == v1alpha1.EphemeralRunnerPhaseRunning {
		return status.RunnerID
	}
	return 0
}

// see notes what this pass sees for the first time. A pod whose failure is noted says nothing about the present attempt.
// The caller holds the lock.
func (m *memory) see(p *pass, now time.Time) {
	m.notePodDeletion(p.pod, now)
	if p.pod != nil {
		m.podUID = p.pod.UID
		if !failureNoted(p.EphemeralRunner, p.pod.UID) && !kube.IsStale(p.EphemeralRunner, m.writtenVersion) {
			// A pod that names none is ARC's, which writes the status before it makes the pod.
			m.runnerID = runnerIDOf(p.pod, cmp.Or(m.runnerID, p.Status.RunnerID))
			m.noteStart(p.pod, now)
		}
	}
	p.outcome = outcomeOf(p.pod, m.apiServerTime(p.pod, now))
	if p.outcome.over() && m.ending != podSucceeded {
		m.ending = p.outcome.state
	}
	if p.DeletionTimestamp.IsZero() {
		return
	}
	m.shared.abandoned = true
	kube.SetIfZero(&m.deletingAt, now)
	if p.outcome.state != podRunning {
		kube.SetIfZero(&m.stoppedAt, now)
	} else {
		m.stoppedAt = time.Time{} // it was about to start
	}
	if p.pod == nil || m.podLeft {
		kube.SetIfZero(&m.podGoneAt, now)
	} else {
		m.podGoneAt = time.Time{}
	}
}

// notePodDeletion notes since when the pod is seen to be deleted. It may be another pod than that of the last pass.
func (m *memory) notePodDeletion(pod *corev1.Pod, now time.Time) {
	switch {
	case pod == nil || pod.DeletionTimestamp == nil:
		m.podDeletingAt = time.Time{}
	case m.podUID != pod.UID:
		m.podDeletingAt = now
	default:
		kube.SetIfZero(&m.podDeletingAt, now)
	}
}

// apiServerTime returns the current time by the API server's clock, as far as the pod's deletion shows it; now for a pod that
// is not being deleted.
func (m *memory) apiServerTime(pod *corev1.Pod, now time.Time) time.Time {
	if pod == nil || m.podUID != pod.UID || m.podDeletingAt.IsZero() {
		return now
	}
	return apiServerTime(pod, m.podDeletingAt, now)
}

// apiServerTime is for a pod that the pass has not noted yet.
func (c *Controller) apiServerTime(runner *v1alpha1.EphemeralRunner, pod *corev1.Pod) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.options.Clock.Now()
	if m := c.memories[runner.UID]; m != nil && !m.podDeletingAt.IsZero() {
		return m.apiServerTime(pod, now)
	}
	return apiServerTime(pod, now, now)
}

// apiServerTime returns the current time by the API server's clock, of which a pod's deletion shows a moment: it began at
// deletionTimestamp minus the grace period, and was first seen at deletingAt. Our own clock may differ, or be set; a busy runner
// whose pod has been given an hour to end must not lose its job by that.
func apiServerTime(pod *corev1.Pod, deletingAt, now time.Time) time.Time {
	if pod.DeletionTimestamp == nil {
		return now
	}
	grace := time.Duration(ptr.Deref(pod.DeletionGracePeriodSeconds, 0)) * time.Second
	return pod.DeletionTimestamp.Add(now.Sub(deletingAt) - grace)
}

func (m *memory) noteStart(pod *corev1.Pod, now time.Time) {
	status := runnerStatus(pod)
	if isRunning(pod, status) {
		kube.SetIfZero(&m.startedAt, now)
	}
	if _, found := blocked(status); found {
		kube.SetIfZero(&m.blockedAt, now)
	}
}

// newAttempt forgets what was seen of the attempt that failed; with anew its registration is gone too.
func (m *memory) newAttempt(anew bool) {
	m.startedAt, m.blockedAt, m.exitedAt = time.Time{}, time.Time{}, time.Time{}
	m.pendingReportedAt, m.sidecarReported, m.ending = time.Time{}, false, podMissing
	if anew {
		m.runnerID, m.secretDeleted = 0, false
	}
}

// abandoned reports whether the runner is being deleted, so that nothing more is to be made for it.
func (c *Controller) abandoned(k key) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.memories[k.uid]
	return m == nil || m.shared.abandoned
}

// noteAsked remembers that GitHub may have a registration of the runner, whatever becomes of the answer.
func (c *Controller) noteAsked(k key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.memories[k.uid]; m != nil {
		m.shared.asked, m.shared.anew = true, true
	}
}

// noteSecret remembers the UID of the runner's Secret; an empty one where it is not known, or there is none.
func (c *Controller) noteSecret(k key, secret types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.memories[k.uid]; m != nil {
		m.shared.secret, m.shared.unstored = secret, nil
	}
}

// keepUnstored remembers a registration for which no Secret could be made. No pod is made before there is one, so its JIT
// config is unused until then, and another registration would cost GitHub four calls for each try.
func (c *Controller) keepUnstored(k key, registered *registration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.memories[k.uid]; m != nil {
		m.shared.unstored = registered
	}
}

// unstored returns the registration with that id where no Secret could be made for it, else nil.
func (c *Controller) unstored(k key, id int) *registration {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.memories[k.uid]
	if m == nil || m.shared.unstored == nil || m.shared.unstored.id != id {
		return nil
	}
	return m.shared.unstored
}

// knownSecret returns the UID of the runner's Secret, empty where it is not known.
func (c *Controller) knownSecret(p *pass) types.UID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return p.memory.shared.secret
}

// clockSkew is how far the API server's clock, which dates objects, may be from ours.
const clockSkew = time.Minute

// unregistered reports whether GitHub can't have a registration: nobody has asked for one since the runner was made. It
// is false for a runner that another manager may have seen.
func (c *Controller) unregistered(p *pass) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := p.memory
	return m.runnerID == 0 && !m.shared.asked && !m.inherited && p.CreationTimestamp.After(c.beganAt.Add(clockSkew))
}

// spent reports whether the registration has had its job. The report of a job's end may be late, and about an earlier
// registration of the same name, so it counts only where there can have been no other: no attempt has failed, and where
// another manager may have registered the runner this one has found it with its pod, and has not asked itself.
func (c *Controller) spent(p *pass) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	alone := !p.memory.inherited || p.hadPod() && !p.memory.shared.asked
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
		return p.outcome.state == podMissing && m.podUID != "" && m.podDeleted != m.podUID
	}
}

// forget drops the memory of the runner of that name that is gone.
func (c *Controller) forget(name types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if uid, known := c.names[name]; known {
		c.forgetLocked(key{name, uid})
	}
}

// forgetLocked forgets everything about a runner. The caller holds the lock.
func (c *Controller) forgetLocked(k key) {
	if m := c.memories[k.uid]; m != nil {
		m.waiting.end(c.options.Clock.Now())
	}
	delete(c.names, k.NamespacedName)
	delete(c.memories, k.uid)
	c.provisions.Forget(k)
	c.deregistrations.Forget(k)
}
