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

// recall returns the runner with what is remembered of it, and remembers what is seen now.
func (c *Controller) recall(runner *v1alpha1.EphemeralRunner, pod *corev1.Pod) *pass {
	k := key{client.ObjectKeyFromObject(runner), runner.UID}
	call, known := c.provisions.Last(k)
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.options.Clock.Now()
	p := &pass{key: k, EphemeralRunner: runner, pod: pod, memory: c.memoryOf(k, &runner.Status), provisioning: progressOf(call, known)}
	if p.memory.anew {
		p.memory.anew, p.memory.registration = false, 0
	}
	p.memory.see(p, now)
	p.memory.measure(p, now)
	if call.Result != 0 {
		p.memory.registration = call.Result
	}
	return p
}

// begin notes, once, that this manager leads from now on, and which runners are there: those another one may have registered,
// whenever by the API server's clock they were made.
func (c *Controller) begin(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.began.IsZero() {
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
	c.began = c.options.Clock.Now()
	return nil
}

// memoryOf returns what is remembered of a runner. The caller holds the lock.
func (c *Controller) memoryOf(k key, status *v1alpha1.EphemeralRunnerStatus) *memory {
	if former, known := c.names[k.NamespacedName]; known && former != k.uid {
		c.drop(key{k.NamespacedName, former})
	}
	if c.memories[k.uid] == nil {
		c.memories[k.uid] = &memory{registration: recorded(status)}
		c.names[k.NamespacedName] = k.uid
	}
	return c.memories[k.uid]
}

// recorded is the registration that a status names. That of a runner which waits for a pod may be void: another may have been
// asked for since, whose answer was lost.
func recorded(status *v1alpha1.EphemeralRunnerStatus) int {
	if status.Done() || status.Phase == v1alpha1.EphemeralRunnerPhaseRunning {
		return status.RunnerID
	}
	return 0
}

// see notes what this pass sees for the first time. A pod whose failure is noted says nothing about the present attempt.
func (m *memory) see(p *pass, now time.Time) {
	m.noteDying(p.pod, now)
	if p.pod != nil {
		m.podUID = p.pod.UID
		if !failureNoted(p.EphemeralRunner, p.pod.UID) && !kube.IsStale(p.EphemeralRunner, m.written) {
			// A pod that names none is ARC's, which writes the status before it makes the pod.
			m.registration = registrationOf(p.pod, cmp.Or(m.registration, p.Status.RunnerID))
			m.noteStart(p.pod, now)
		}
	}
	if p.DeletionTimestamp.IsZero() {
		return
	}
	m.abandoned = true
	kube.SetIfZero(&m.deleting, now)
	if outcomeOf(p.pod, m.clockOf(p.pod, now)).state != podRunning {
		kube.SetIfZero(&m.stopped, now)
	} else {
		m.stopped = time.Time{} // it was about to start
	}
	if p.pod == nil || m.podLeft {
		kube.SetIfZero(&m.podGone, now)
	} else {
		m.podGone = time.Time{}
	}
}

// noteDying notes since when the pod, which may be another one than before, is seen to be deleted.
func (m *memory) noteDying(pod *corev1.Pod, now time.Time) {
	switch {
	case pod == nil || pod.DeletionTimestamp == nil:
		m.dying = time.Time{}
	case m.podUID != pod.UID:
		m.dying = now
	default:
		kube.SetIfZero(&m.dying, now)
	}
}

// clockOf is the time by the clock that has dated the deletion of the pod: when that began, and what has passed here since
// it was seen. Our own clock may differ from the API server's or be set, and a busy runner whose pod has been given an hour
// to end must not lose it by that.
func (m *memory) clockOf(pod *corev1.Pod, now time.Time) time.Time {
	if pod == nil || pod.DeletionTimestamp == nil || m.podUID != pod.UID || m.dying.IsZero() {
		return now
	}
	grace := time.Duration(ptr.Deref(pod.DeletionGracePeriodSeconds, 0)) * time.Second
	return pod.DeletionTimestamp.Add(now.Sub(m.dying) - grace)
}

// clockOf is the same before the pass has seen the pod.
func (c *Controller) clockOf(runner *v1alpha1.EphemeralRunner, pod *corev1.Pod) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.options.Clock.Now()
	if m := c.memories[runner.UID]; m != nil && !m.dying.IsZero() {
		return m.clockOf(pod, now)
	}
	return (&memory{podUID: pod.UID, dying: now}).clockOf(pod, now)
}

func (m *memory) noteStart(pod *corev1.Pod, now time.Time) {
	status := runnerStatus(pod)
	if status != nil && status.State.Running != nil {
		kube.SetIfZero(&m.up, now)
	}
	if _, found := blocked(status); found {
		kube.SetIfZero(&m.blocked, now)
	}
}

// newAttempt forgets what was seen of the attempt that failed; with anew its registration is gone too.
func (m *memory) newAttempt(anew bool) {
	m.up, m.blocked, m.exited, m.told, m.sidecarTold = time.Time{}, time.Time{}, time.Time{}, time.Time{}, false
	if anew {
		m.registration, m.secretDeleted = 0, false
	}
}

// abandoned says that the runner is being deleted, so that nothing more is to be made for it.
func (c *Controller) abandoned(k key) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.memories[k.uid]
	return m == nil || m.abandoned
}

// noteAsked remembers that GitHub may have a registration of the runner, whatever becomes of the answer.
func (c *Controller) noteAsked(k key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.memories[k.uid]; m != nil {
		m.asked, m.anew = true, true
	}
}

// noteSecret remembers that the Secret with this UID is the runner's; an empty one says that nothing is known of it.
func (c *Controller) noteSecret(k key, secret types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.memories[k.uid]; m != nil {
		m.secret, m.unstored = secret, nil
	}
}

// keepUnstored remembers a registration for which no Secret could be made. No pod is made before there is one, so its JIT
// config is unused until then, and another registration would cost GitHub four calls for each try.
func (c *Controller) keepUnstored(k key, registered *registration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.memories[k.uid]; m != nil {
		m.unstored = registered
	}
}

// unstored returns the registration with that id where no Secret could be made for it, else nil.
func (c *Controller) unstored(k key, id int) *registration {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.memories[k.uid]
	if m == nil || m.unstored == nil || m.unstored.id != id {
		return nil
	}
	return m.unstored
}

func (c *Controller) knownSecret(p *pass) types.UID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return p.memory.secret
}

// clockSkew is how far the API server's clock, which dates objects, may be from ours.
const clockSkew = time.Minute

// unregistered says that GitHub can't have a registration: nobody has asked for one since the runner was made. Of a
// runner that another manager may have seen nobody knows.
func (c *Controller) unregistered(p *pass) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := p.memory
	return m.registration == 0 && !m.asked && !m.inherited && p.CreationTimestamp.After(c.began.Add(clockSkew))
}

// spent says that the registration has had its job. The report of a job's end may be late, and about an earlier registration of
// the same name, so it counts only where there can have been no other: no attempt has failed, and what another manager may
// have begun this one has found with its pod.
func (c *Controller) spent(p *pass) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	alone := !p.memory.inherited || p.hadPod() && !p.memory.asked
	return p.Status.JobCompleted() && len(p.Status.Failures) == 0 && alone
}

// forget drops the memory of the runner of that name that is gone.
func (c *Controller) forget(name types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if uid, known := c.names[name]; known {
		c.drop(key{name, uid})
	}
}

// drop forgets everything about a runner. The caller holds the lock.
func (c *Controller) drop(k key) {
	if m := c.memories[k.uid]; m != nil {
		m.waiting.end(c.options.Clock.Now())
	}
	delete(c.names, k.NamespacedName)
	delete(c.memories, k.uid)
	c.provisions.Forget(k)
	c.removals.Forget(k)
}
