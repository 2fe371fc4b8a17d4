package ephemeralrunner

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

const (
	// failedGracePeriod is how long after the end of a pod that failed, or was ended from outside, the report of its job's result may
	// come. A report takes a second or two from the runner over GitHub and the listener.
	failedGracePeriod = 5 * time.Second
	// silentGracePeriod is the same for a runner that exited with 0, or that ended unseen: it most probably told GitHub, and the
	// report waits only while the listener does not listen.
	silentGracePeriod = 30 * time.Second
	// countedTimeout is how long a runner that is being deleted waits for its set to count its lost job. The set needs a second.
	countedTimeout = 30 * time.Second
)

// jobEnd is all that decides whether a runner's job was lost: its pod ended before GitHub had a result from the runner, or was
// ended from outside while the job ran.
type jobEnd struct {
	status  *v1alpha1.EphemeralRunnerStatus
	ended   bool             // the pod has ended or is gone
	exited  bool             // its runner container is known to have exited with 0
	ending  podstatus.Ending // what ended it before the end of the job was reported, as first seen
	endedAt time.Time
	now     time.Time
}

// loss returns what the job was lost to, zero if it was not. While that can't be known yet, it returns when it can.
func (e *jobEnd) loss() (lost podstatus.Ending, due time.Time) {
	unknown := e.ending.Cause == "" || e.ending.Cause == v1alpha1.LostCauseUnknown
	switch {
	case !e.ended || !e.status.HadJob() || e.status.Done():
		return podstatus.Ending{}, time.Time{}
	case e.status.JobCompleted() && (e.ending.Cause == "" || !givenUp(e.status.JobResult)):
		return podstatus.Ending{}, time.Time{}
	case e.status.JobCompleted():
		return e.ending, time.Time{}
	case e.exited && !e.ending.Outside:
		return podstatus.Ending{}, time.Time{}
	case e.exited || unknown:
		due = e.endedAt.Add(silentGracePeriod)
	default:
		due = e.endedAt.Add(failedGracePeriod)
	}
	if e.now.Before(due) {
		return podstatus.Ending{}, due
	}
	return e.cause(), time.Time{}
}

// cause returns why the pod ended, Unknown if nobody saw it.
func (e *jobEnd) cause() podstatus.Ending {
	if e.ending.Cause == "" {
		return unseenEnding
	}
	return e.ending
}

// unseenEnding is the ending of a pod that is gone.
var unseenEnding = podstatus.Ending{
	Cause: v1alpha1.LostCauseUnknown, Fault: podstatus.FaultDisruption, Message: "the pod was gone before the manager saw why",
}

// givenUp reports whether a result says only that the job did not run to its end. GitHub gives it to a job whose runner is gone, and
// a runner that is told to stop reports it, too; a person's cancellation is reported before the pod ends.
func givenUp(result string) bool {
	return slices.Contains([]string{"canceled", "cancelled", "abandoned"}, strings.ToLower(result))
}

func (o *observation) jobEnd() *jobEnd {
	return &jobEnd{
		status: &o.runner.Status, ended: o.pod.over() || o.pod.state == podMissing, exited: o.ending == podSucceeded || !o.exitedAt.IsZero(),
		ending: o.podEnding, endedAt: o.endedAt, now: o.now,
	}
}

// withLoss returns the last decision about a runner whose pod has ended. If its job was lost, the runner has failed with it; while
// that can't be known yet, nothing is decided.
func (o *observation) withLoss(d decision) decision {
	lost, due := o.jobEnd().loss()
	switch {
	case !due.IsZero():
		return decision{requeueAt: due}
	case lost.Cause == "":
		return d
	case d.step != stepOutdate:
		d.step = stepFail
	}
	return d.lose(lost)
}

// lostBusy returns the last decision about a runner that, as only GitHub's refusal tells, had a job when its pod ended.
func (o *observation) lostBusy(d decision) decision { return d.lose(o.jobEnd().cause()) }

func (d decision) lose(lost podstatus.Ending) decision {
	d.lost, d.reason, d.message = lost, cmp.Or(d.reason, string(lost.Cause)), lost.Message
	return d
}

// seeEnding remembers what ends the pod, unless the end of the job was reported before. It forgets an eviction that was withdrawn.
func (l *lastPod) seeEnding(pod *corev1.Pod, status *v1alpha1.EphemeralRunnerStatus, nodeSilent bool) {
	seen := podstatus.EndingOf(pod, v1alpha1.RunnerContainerName, podstatus.Seen{NodeSilent: nodeSilent, DeletedByUs: l.deleted})
	switch {
	case status.JobCompleted() && !reportedAfter(status, seen):
	case seen.Cause == "" && isRunning(pod, runnerStatus(pod)):
		l.ending = podstatus.Ending{}
	case seen.Clearer(l.ending):
		l.ending = seen
	}
}

// seeGone remembers that the pod vanished while its job ran, if a pass has seen it run or it was goneUnseen.
func (m *memory) seeGone(status *v1alpha1.EphemeralRunnerStatus) {
	vanished := m.pod.uid != "" && !m.pod.deleted && m.attempt.ending == podMissing && !status.JobCompleted()
	if (vanished || m.goneUnseen(status)) && unseenEnding.Clearer(m.pod.ending) {
		m.pod.ending = unseenEnding
	}
}

// goneUnseen reports whether this manager has found the runner with a canceled job and, if there is none, never with a pod. The pod of
// a job that a person cancels exits with 0 and stays until a manager deletes it, with the runner; so something else took the pod
// while no manager led, as a node drain does that moves the manager, too.
func (m *memory) goneUnseen(status *v1alpha1.EphemeralRunnerStatus) bool {
	return m.inherited && m.pod.uid == "" && !m.shared.wasAsked() && givenUp(status.JobResult)
}

// reportedAfter reports whether the end of the job was reported after the first sign of the pod's end, as far as it is dated. What
// comes from outside is rarely undated, and then only at the end of the pod.
func reportedAfter(status *v1alpha1.EphemeralRunnerStatus, ending podstatus.Ending) bool {
	dated := ending.Cause != "" && status.FinishedAt != nil && (ending.Outside || !ending.At.IsZero())
	return dated && !status.FinishedAt.Time.Before(ending.At)
}

// settleLoss writes into the status of a runner that is being deleted what its job was lost to. It returns when to look again while
// that is not known yet, or while the runner's set has not counted the job: its object is the only record of it.
func (c *Controller) settleLoss(ctx context.Context, p *pass, o *finalizing) (time.Time, error) {
	end := &jobEnd{
		status: &p.Status, ended: o.ended(), exited: p.memory.ending == podSucceeded || !p.memory.exitedAt.IsZero(),
		ending: p.memory.pod.ending, endedAt: p.memory.endedAt, now: o.now,
	}
	lost, due := end.loss()
	if p.memory.abandoned && p.memory.pod.uid == "" {
		lost, due = podstatus.Ending{}, time.Time{} // a job that its status names ran at another time, or in another cluster
	}
	stale := kube.IsStale(p.EphemeralRunner, p.memory.writtenVersion)
	switch {
	case !due.IsZero():
		return due, nil
	case lost.Cause != "" && stale:
		return o.now.Add(staleRequeueAfter), nil
	case lost.Cause != "":
		before := p.EphemeralRunner.DeepCopy()
		d := decision{}.lose(lost)
		p.Status.Phase, p.Status.Ready, p.Status.LostCause = v1alpha1.EphemeralRunnerPhaseFailed, false, lost.Cause
		p.Status.Reason, p.Status.Message = d.reason, d.message
		if err := c.patchStatus(ctx, p, before, runnerFailed(d)); err != nil {
			return time.Time{}, err
		}
	case p.Status.LostCause == "":
		return time.Time{}, nil
	}
	counted, err := c.lossCounted(ctx, p)
	kube.SetIfZero(&p.memory.heldAt, o.now)
	if counted || !o.now.Before(p.memory.heldAt.Add(countedTimeout)) {
		return time.Time{}, err
	}
	return o.now.Add(time.Second), err
}

// lossCounted reports whether the runner's set has counted its lost job, or is gone.
func (c *Controller) lossCounted(ctx context.Context, p *pass) (bool, error) {
	owner := metav1.GetControllerOfNoCopy(p)
	if owner == nil || owner.Kind != "EphemeralRunnerSet" {
		return true, nil
	}
	set := &v1alpha1.EphemeralRunnerSet{}
	err := c.options.Client.Get(ctx, types.NamespacedName{Namespace: p.Namespace, Name: owner.Name}, set, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("get EphemeralRunnerSet: %w", err)
	}
	return set.UID != owner.UID || slices.Contains(set.Status.LostRunners, p.UID), nil
}

// removedPods holds the last state of pods that are gone, by their runners, until the next pass: the cache no longer has them, and
// several events may lead to one pass. Safe for concurrent use.
type removedPods struct {
	mu   sync.Mutex
	pods map[types.NamespacedName]*corev1.Pod
}

// keep keeps the last state of a runner's pod.
func (r *removedPods) keep(object client.Object) {
	pod, isPod := object.(*corev1.Pod)
	owner := metav1.GetControllerOfNoCopy(object)
	if !isPod || !isRunner(owner) {
		return // nobody would take it
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pods == nil {
		r.pods = map[types.NamespacedName]*corev1.Pod{}
	}
	r.pods[types.NamespacedName{Namespace: pod.Namespace, Name: owner.Name}] = pod
}

// take returns the last state of the runner's pod and forgets it. It returns nil if the runner has a pod, or if that pod was deleted
// at the controller's request.
func (r *removedPods) take(p *pass) *corev1.Pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	pod := r.pods[p.key.NamespacedName]
	delete(r.pods, p.key.NamespacedName)
	known := &p.memory.pod
	if pod == nil || p.pod != nil || !metav1.IsControlledBy(pod, p) || known.deleted || known.uid != "" && known.uid != pod.UID {
		return nil
	}
	return pod
}

// drop forgets the pod of a runner that is gone.
func (r *removedPods) drop(runner types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pods, runner)
}
