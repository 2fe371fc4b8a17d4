package ephemeralrunner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/claims"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/jobhooks"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/launch"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/mark"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/remains"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/podstatus"
	"github.com/harrier-ci/harrier/internal/pool"
	"github.com/harrier-ci/harrier/internal/reconcile"
	"github.com/harrier-ci/harrier/internal/registrations"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
)

type pass = reconcile.Pass[*v1alpha1.EphemeralRunner, memory]

// world is what a pass sees of a runner, with its memory.
type world struct {
	*pass
	*v1alpha1.EphemeralRunner // the pass's object
	pod                       *corev1.Pod
	// outcome is the state of pod. It is determined a single time, so that the writes agree with the plan.
	outcome rules.Outcome
	// launched is the last launch. It is read a single time, so that its result and its end belong to the same call.
	launched rules.Progress
	// set is the set that controls the runner, the cache's own, nil if no living set does; setErr says why nobody can
	// tell. The set is not looked for if the runner is being deleted or the cache is older than the last write.
	set    *v1alpha1.EphemeralRunnerSet
	setErr error
	// leaving is what is seen of a runner that is being deleted, and needs what it still needs. lossSettled is set when
	// no lost job keeps it any more, reportDelayed while a report about its job does.
	leaving       *rules.Leaving
	needs         rules.Finalization
	lossSettled   bool
	reportDelayed bool
}

// observe adds what is seen now to what is remembered of a runner. Before anything else it reads the runner's pod.
func (c *Controller) observe(ctx context.Context, p *pass) (*world, error) {
	p.Memory.mayVanish = !slices.Contains(p.Object.Finalizers, v1alpha1.FinalizerEphemeralRunner) &&
		!slices.Contains(p.Object.Finalizers, v1alpha1.FinalizerRunnerRegistration) // ARC's
	pod, err := c.readPod(ctx, p)
	if err != nil {
		return nil, err
	}
	removed := c.remains.LastPod(p.Key) // nil if none was removed
	w := c.newWorld(p, pod, removed)
	c.remains.ForgetPod(p.Key, removed, pod) // unless it went after it was read
	if !deleting(w) && !behind(w) {
		w.set, w.setErr = c.runnerSet(ctx, w.EphemeralRunner)
	}
	return w, nil
}

// newWorld returns the world of a pass that has read the pod. removed is one that was removed since the last pass.
func (c *Controller) newWorld(p *pass, pod, removed *corev1.Pod) *world {
	w := &world{pass: p, EphemeralRunner: p.Object, pod: pod}
	m := p.Memory
	var registered int
	w.launched, registered = m.launch.Launched()
	if m.launch.TakeAsked() {
		m.runnerID = 0
	}
	last := removed
	if pod != nil || !m.lost(p.Object, removed) {
		removed = nil
	}
	w.outcome = m.see(p.Object, pod, removed, p.Now, c.departureOf)
	if last != nil && metav1.IsControlledBy(last, p.Object) {
		m.claims.See(false, rules.OutcomeOf(last, p.Now).State)
		m.claims.Fill(last)
		m.pod.told = m.pod.told || last.UID == m.pod.uid
	}
	if len(p.Object.Spec.VolumeClaims) > 0 {
		m.claims.Fill(pod)
		m.claims.See(pod == nil && m.pod.uid != "" && !m.pod.deleted && !m.pod.told, w.outcome.State)
	}
	if pod != nil || m.waiting != nil {
		m.measure(p.Object, pod, w.outcome, p.Now)
	}
	if w.Status.HadJob() {
		m.measureWait(p.Object, pod, w.outcome)
	}
	if registered != 0 {
		m.runnerID = registered
	}
	return w
}

// departureOf says why the node of a pod that is being deleted is about to go away, empty if it isn't or nobody knows.
func (c *Controller) departureOf(pod *corev1.Pod) string {
	if c.options.Nodes == nil || pod.DeletionTimestamp == nil || pod.Spec.NodeName == "" {
		return ""
	}
	return c.options.Nodes.Departure(pod.Spec.NodeName)
}

// readPod returns the runner's pod, nil if it has none. It reads from the API server instead of the cache if a stale
// cache would cost a job.
func (c *Controller) readPod(ctx context.Context, p *pass) (*corev1.Pod, error) {
	pod, err := launch.OwnPod(ctx, c.options.Client, p.Object)
	switch {
	case err != nil:
		return nil, err
	case pod == nil && (p.Memory.missesPod(p.Object) || p.Memory.mayBeLaunched(p.Object)):
		return c.missedPod(ctx, p)
	case pod != nil && needsLivePod(p.Object, pod, p.Memory.apiServerTime(pod, p.Now)):
		return kube.LivePod(ctx, c.options.Client, pod)
	default:
		return pod, nil
	}
}

// needsLivePod reports whether the cached pod calls for a step that a stale cache must not cause: reusing the JIT
// config of a pod that never started, or giving up a pod that hangs in its deletion, with its job.
func needsLivePod(runner *v1alpha1.EphemeralRunner, pod *corev1.Pod, now time.Time) bool {
	if rules.FailureRecorded(&runner.Status, pod.UID) || runner.Status.Done() {
		return false
	}
	return podstatus.Stuck(pod, now) || rules.OutcomeOf(pod, now).Phase == podstatus.NeverStarted
}

// missedPod reads the pod from the API server. It also finds out whether there is a Secret, if that tells who has taken
// the pod. If reading is forbidden while the runner is being deleted, or has no set, it trusts the cache: the right to
// read pods comes from the scale set's Role, which may be deleted first. The deletion has its own deadline, and asks
// GitHub before anything is killed.
func (c *Controller) missedPod(ctx context.Context, p *pass) (*corev1.Pod, error) {
	runner := p.Object
	pod, err := launch.OwnPod(ctx, c.options.Reader, runner)
	if pod == nil && err == nil && p.Memory.goneUnseen(&runner.Status) {
		there, err := c.launcher.HasSecret(ctx, runner)
		p.Memory.secretDeleted = err == nil && !there
		if apierrors.IsForbidden(err) {
			return nil, nil // nobody can tell
		}
		return nil, err
	}
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

// removal returns the state of the last call to remove the registration. The answer that there is none is as good as a
// removal, except while a runner with a job is alive: the 404 may have come from a proxy or gateway in front of GitHub,
// and would cost the job. That is decided when the answer is used, because the job may have been reported since GitHub
// was asked.
func (w *world) removal() rules.Progress {
	last := w.Memory.launch.Removal()
	lives := w.pod != nil && !w.outcome.Over()
	if last.Failure == nil || last.Failure.Kind != rules.NotFound || (lives && w.Memory.mayHaveJob(&w.Status)) {
		return last
	}
	return rules.Progress{Known: true, FinishedAt: last.FinishedAt}
}

// podStays reports whether there is a pod whose deletion has not been requested, or was interrupted.
func (w *world) podStays() bool {
	return w.pod != nil && !w.Memory.pod.deleted && (w.pod.DeletionTimestamp == nil || kube.IsHalfDeleted(w.pod))
}

// GitHub is the part of the Actions service that this controller uses.
type GitHub = launch.GitHub

// Options are what the controller needs from outside.
type Options struct {
	// Client reads from the manager's cache, except Secrets, and writes to the API server.
	Client client.Client
	// Reader reads from the API server. It is used for the objects of container hooks, of which the cache holds only some
	// pods, and wherever a stale cache would cost a job.
	Reader client.Reader
	// GitHub returns the client for a scale set's credentials.
	GitHub func(context.Context, credentials.Reference) (GitHub, error)
	// Pool runs the calls to GitHub, and the creation of Secret and Pod that follows a registration.
	Pool *pool.Pool
	// Verdicts has what the runners' sets have found out about them.
	Verdicts *registrations.Verdicts
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	// Workers is the number of runners reconciled at the same time. No pass waits for GitHub, so a few are enough.
	Workers int
	// Version is the manager's version. Every runner sends it to GitHub as part of its user agent.
	Version string
	// JobMetadata writes on a pod which job it runs, and not only that it runs one. JobProtection adds the annotations
	// that keep node autoscalers away while the job runs.
	JobMetadata, JobProtection bool
	Gate                       Gate  // nil lets every runner through
	Nodes                      Nodes // nil knows no node
}

// Nodes knows which nodes are about to go away. The sets' controller implements it (ephemeralrunnerset/gate.go).
type Nodes interface {
	// Departure says why a node is about to go away, as the rest of a sentence that begins with its name; empty if it stays.
	Departure(node string) string
	// Avoided returns the nodes to which no new pod may go, although the scheduler would send it there.
	Avoided() []string
}

// Gate is where a runner asks its set whether it may have a pod: others may create runners with the set as their owner,
// or with claims that another one has. The set's controller implements it (ephemeralrunnerset/gate.go), from memory.
type Gate interface {
	// Admit reports whether a runner set of origin has room for one of its runners, which then counts.
	Admit(origin *v1alpha1.AutoscalingRunnerSet, set *v1alpha1.EphemeralRunnerSet, runner types.NamespacedName) bool
	// Hold reports whether a runner may mount the claims that it names, which it then has alone.
	Hold(runner *v1alpha1.EphemeralRunner) bool
}

// Controller reconciles EphemeralRunners.
type Controller struct {
	options    Options
	reconciler *reconcile.Reconciler[*v1alpha1.EphemeralRunner, memory, *world]
	launcher   *launch.Launcher
	marker     *mark.Marker
	reports    *mark.Gate
	remains    *remains.Remover
	waker      reconcile.Waker

	mu sync.Mutex
	// beganAt is the time of the first pass; there is none while another manager leads. It never changes, and no pass
	// continues before it is set, so passes read it without the lock.
	beganAt time.Time
}

func deleting(w *world) bool { return !w.DeletionTimestamp.IsZero() }

func behind(w *world) bool { return w.Memory.isBehind(w.EphemeralRunner) }

// A runner is reconciled again after staleInterval if the cache shows an older status than the one last written, in
// case the watch never delivers it.
const staleInterval = 2 * time.Second

func waitForCache(_ context.Context, w *world) error {
	w.Requeue.After(staleInterval)
	return nil
}

// runnerSet returns the set that controls a runner, nil if no living set does. A set that the cache lacks may just be
// late, so the API server is asked before a runner is called abandoned.
func (c *Controller) runnerSet(
	ctx context.Context, runner *v1alpha1.EphemeralRunner,
) (*v1alpha1.EphemeralRunnerSet, error) {
	for _, reader := range []client.Reader{c.options.Client, c.options.Reader} {
		set := &v1alpha1.EphemeralRunnerSet{}
		if found, err := kube.ReadController(ctx, reader, runner, "EphemeralRunnerSet", set,
			client.UnsafeDisableDeepCopy); err != nil || found {
			return set, err
		}
	}
	return nil, nil
}

// origin returns the AutoscalingRunnerSet that a set belongs to, nil if it belongs to no living one.
func (c *Controller) origin(
	ctx context.Context, set *v1alpha1.EphemeralRunnerSet,
) (*v1alpha1.AutoscalingRunnerSet, error) {
	origin := &v1alpha1.AutoscalingRunnerSet{}
	shared := client.UnsafeDisableDeepCopy
	found, err := kube.ReadController(ctx, c.options.Client, set, "AutoscalingRunnerSet", origin, shared)
	if err != nil || !found {
		return nil, err
	}
	return origin, nil
}

// originOf returns the AutoscalingRunnerSet that a runner is of, even if its runner set is being deleted, nil if there is
// none.
func (c *Controller) originOf(ctx context.Context, w *world) (*v1alpha1.AutoscalingRunnerSet, error) {
	owner := metav1.GetControllerOfNoCopy(w)
	if owner == nil || owner.Kind != "EphemeralRunnerSet" {
		return nil, nil
	}
	runnerSet := &v1alpha1.EphemeralRunnerSet{}
	err := c.options.Client.Get(ctx, types.NamespacedName{Namespace: w.Namespace, Name: owner.Name}, runnerSet,
		client.UnsafeDisableDeepCopy)
	if err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil, nil
		}
		return nil, fmt.Errorf("get EphemeralRunnerSet: %w", err)
	}
	return c.origin(ctx, runnerSet)
}

// lost reports whether a pod that was removed is the pod of the present attempt, and was not removed at the
// controller's request. If no pass has seen that pod, the last one that was seen belongs to an earlier attempt.
func (m *memory) lost(runner *v1alpha1.EphemeralRunner, removed *corev1.Pod) bool {
	if removed == nil || !metav1.IsControlledBy(removed, runner) {
		return false
	}
	seen := m.pod.uid == removed.UID
	return seen == m.hadPod(&runner.Status) && !rules.FailureRecorded(&runner.Status, removed.UID) &&
		(!seen || !m.pod.deleted)
}

// missesPod reports whether, according to the cache, a runner at work has lost its pod without this manager having
// deleted it. Runners and pods arrive on separate watches, so a manager that has just become the leader may see one
// before the other. A pod that has lost the label by which the cache selects is never in it. A runner that is being
// deleted is also at work if GitHub says so.
func (m *memory) missesPod(runner *v1alpha1.EphemeralRunner) bool {
	status := &runner.Status
	atWork := status.Phase == v1alpha1.EphemeralRunnerPhaseRunning || status.HadJob() ||
		(m.busy && !runner.DeletionTimestamp.IsZero())
	if !atWork || status.Done() || (status.JobCompleted() && !m.goneUnseen(status)) {
		return false
	}
	return m.ExitedAt.IsZero() && !m.pod.left && !m.pod.deleted
}

// setStays writes into the status why a runner that has ended stays. If the status has no final phase, it gets one:
// then the runner's set counts it no longer.
func (w *world) setStays(ended podstatus.Phase, reason, message string) {
	status := &w.Status
	switch {
	case status.Done():
	case ended == podstatus.Succeeded:
		status.Phase = v1alpha1.EphemeralRunnerPhaseSucceeded
	default:
		status.Phase = v1alpha1.EphemeralRunnerPhaseFailed
	}
	status.Ready, status.Reason, status.Message = false, reason, message
}

// begin remembers, in the first pass, when this manager took over and which runners existed by then. Another manager
// may have registered these, even if the API server's clock dates them later than ours dates the takeover.
func (c *Controller) begin(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.beganAt.IsZero() {
		return nil
	}
	var existing v1alpha1.EphemeralRunnerList
	if err := c.options.Client.List(ctx, &existing, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list EphemeralRunners: %w", err)
	}
	for i := range existing.Items {
		c.reconciler.MemoryOf(&existing.Items[i]).inherited = true
	}
	c.beganAt = c.options.Clock.Now()
	return nil
}

// waiting is a pod that does not run yet: the reason, and the time since which it has waited for that.
type waiting struct {
	reason string
	since  time.Time
}

// memory is what is remembered of one runner between passes. A restart loses it, which costs requests but no job:
// the pod's annotation and GitHub then tell what was done. Times are by the manager's own clock.
type memory struct {
	inherited bool // the runner existed when this manager took over, so another manager may have registered it
	runnerID  int  // id on GitHub, 0 if not known

	rules.Attempt
	rules.Deletion
	pod                lastPod
	failed             *failedAttempt // attempt whose failure may have been written although no answer came, else nil
	unansweredReported bool           // an Event says why GitHub has not removed the registration yet
	writtenVersion     string         // resourceVersion of the last status written
	jobHooks           jobhooks.Memory

	// What has been deleted, so that a stale cache doesn't have it deleted again.
	secretDeleted     bool
	hooked            remains.Hooked // what container hooks created
	claims            claims.Memory  // what is remembered of its claims
	runnerDeleted     bool           // the EphemeralRunner object
	abandoned         bool           // the same, because it has no set
	mayVanish         bool           // it had no finalizer of ours when it was last seen
	finalizersRemoved bool           // of the EphemeralRunner object

	scaleSet     types.NamespacedName // whose series count it, by its labels when it was seen first
	waiting      *waiting             // nil if no pod is waiting to run
	deniedAt     time.Time            // when a policy or webhook last denied patching the pod
	waited, busy bool                 // the wait of its job is measured; GitHub has not removed it because of a job

	// shared with the calls in the pool; all else belongs to the one worker that reconciles the runner at the time
	launch launch.Memory
}

// lastPod is the memory of the last pod seen. All of it is forgotten when another pod is seen.
type lastPod struct {
	uid        types.UID     // empty if no pod has been seen
	deletingAt time.Time     // first seen with a deletionTimestamp, or with a shorter grace period
	grace      time.Duration // the grace period with which it was seen then
	deleted    bool          // at the controller's request
	cutShort   bool          // the same, with what time its sidecars may take after the runner's end
	removed    bool          // the same, without a grace period or finalizers: there is no pod, whatever the cache shows
	left       bool          // the controller may not delete it: garbage collection does, after the runner is gone
	recorded   bool          // its failure was written to the status, which the cache may not show yet
	told       bool          // the state in which it was removed was seen
	// ending says what ended the pod while its job ran, or is about to. It is remembered because the pod may be gone by
	// the next pass.
	ending podstatus.Ending
	marked mark.Written
}

// failedAttempt is an attempt that failed: why, and the key in the status under which the failure was to be recorded.
type failedAttempt struct {
	key string
	rules.Decision
}

// see remembers what a pass sees for the first time, and returns the state of the pod, which may be nil. removed is the
// pod as it was when it was removed, nil if there is a pod or that is not known.
func (m *memory) see(
	runner *v1alpha1.EphemeralRunner, pod, removed *corev1.Pod, now time.Time, departureOf func(*corev1.Pod) string,
) rules.Outcome {
	status := &runner.Status
	if removed != nil {
		if m.pod.ending == rules.UnseenEnding {
			m.pod.ending = podstatus.Ending{} // the cache told of the end before the watch did
		}
		m.pod.seePod(removed, now)
		m.Attempt.SeeEnd(status, rules.OutcomeOf(removed, now), now)
		m.pod.seeEnding(removed, status, false, departureOf(removed))
	}
	m.pod.seePod(pod, now)
	m.seeStart(runner, pod, now)
	serverTime := m.apiServerTime(pod, now)
	seen := rules.OutcomeOf(pod, serverTime)
	if pod == nil || m.hadPod(status) {
		m.Attempt.SeeEnd(status, seen, now)
	}
	if seen.Over() {
		m.jobHooks.See(runner, pod)
	}
	if pod != nil {
		m.pod.seeEnding(pod, status, podstatus.Stuck(pod, serverTime), departureOf(pod))
	} else {
		m.seeGone(status)
	}
	if !runner.DeletionTimestamp.IsZero() {
		m.launch.Abandon()
		m.Deletion.See(seen.Phase == podstatus.Running, pod == nil || m.pod.passedOver(), now)
	}
	return seen
}

// seeStart remembers what the pod says about the start of the present attempt, unless the failure of that pod is
// already recorded.
func (m *memory) seeStart(runner *v1alpha1.EphemeralRunner, pod *corev1.Pod, now time.Time) {
	if pod == nil || rules.FailureRecorded(&runner.Status, pod.UID) || m.isBehind(runner) {
		return
	}
	// A pod without the annotation is ARC's, which writes the status before it creates the pod.
	m.runnerID = launch.RunnerIDOf(pod, cmp.Or(m.runnerID, runner.Status.RunnerID))
	m.Attempt.SeeStart(pod, now)
}

// isBehind reports whether the cache shows an older runner than the one whose status was written last.
func (m *memory) isBehind(runner *v1alpha1.EphemeralRunner) bool {
	return reconcile.IsStale(runner, m.writtenVersion)
}

// seePod remembers which pod exists, and the time since which it is being deleted.
func (l *lastPod) seePod(pod *corev1.Pod, now time.Time) {
	if pod != nil && l.uid != pod.UID {
		*l = lastPod{uid: pod.UID}
	}
	if pod == nil || pod.DeletionTimestamp == nil {
		l.deletingAt, l.grace = time.Time{}, 0
		return
	}
	if grace := kube.GracePeriod(pod); l.deletingAt.IsZero() || grace < l.grace {
		l.deletingAt, l.grace = now, grace // its node has the whole of a shorter period again
	}
}

// seeEnding remembers what ends the pod, unless the end of the job was reported before. It forgets an eviction that was
// withdrawn.
func (l *lastPod) seeEnding(
	pod *corev1.Pod, status *v1alpha1.EphemeralRunnerStatus, nodeSilent bool, departure string,
) {
	seen := podstatus.EndingOf(pod, v1alpha1.RunnerContainerName,
		podstatus.Seen{NodeSilent: nodeSilent, DeletedByUs: l.deleted, Departure: departure})
	switch {
	case status.JobCompleted() && !reportedAfter(status, seen):
	case seen.Cause == "" && podstatus.Runs(pod, v1alpha1.RunnerContainerName):
		l.ending = podstatus.Ending{}
	case seen.Clearer(l.ending):
		l.ending = seen
	case seen.Cause != "":
		l.ending.EndedBy = seen.EndedBy // its container may have ended meanwhile
	}
}

// seeGone remembers that the pod vanished while its job ran, if a pass has seen it run or it was goneUnseen.
func (m *memory) seeGone(status *v1alpha1.EphemeralRunnerStatus) {
	vanished := m.pod.uid != "" && !m.pod.deleted && m.Attempt.Ending == podstatus.Missing && !status.JobCompleted()
	if (vanished || m.goneUnseen(status)) && rules.UnseenEnding.Clearer(m.pod.ending) {
		m.pod.ending = rules.UnseenEnding
	}
}

// reportedAfter reports whether the end of the job was reported after the first sign of the pod's end, as far as it is
// dated. What comes from outside is rarely undated, and then only at the end of the pod.
func reportedAfter(status *v1alpha1.EphemeralRunnerStatus, ending podstatus.Ending) bool {
	dated := ending.Cause != "" && status.FinishedAt != nil && (ending.Outside || !ending.At.IsZero())
	return dated && !status.FinishedAt.Time.Before(ending.At)
}

// passedOver reports whether a runner that is being deleted need not wait until the cache shows no pod.
func (l *lastPod) passedOver() bool { return l.left || l.removed }

// hadPod reports whether a pod of the present attempt has been seen.
func (m *memory) hadPod(status *v1alpha1.EphemeralRunnerStatus) bool {
	return m.pod.uid != "" && !m.pod.recorded && !rules.FailureRecorded(status, m.pod.uid)
}

// goneUnseen reports whether this manager has found the runner with a canceled job and, if there is none, never with a
// pod. The pod of a job that a person cancels exits with 0 and stays until a manager deletes it, after the runner's
// Secret; so if the Secret is there, something else took the pod while no manager led, such as a node drain that moves
// the manager, too.
func (m *memory) goneUnseen(status *v1alpha1.EphemeralRunnerStatus) bool {
	return m.inherited && m.pod.uid == "" && !m.secretDeleted && !m.launch.WasAsked() && rules.GivenUp(status.JobResult)
}

// mayBeLaunched reports whether another manager may have given a runner, and so its claims, a pod: this one has neither
// done that nor seen one. The cache of pods may be behind that of runners.
func (m *memory) mayBeLaunched(runner *v1alpha1.EphemeralRunner) bool {
	return m.inherited && m.pod.uid == "" && !m.launch.WasAsked() && volumeclaims.Named(runner.Spec.VolumeClaims)
}

// apiServerTime estimates the API server's current time from the pod's deletionTimestamp, and returns now if the pod
// isn't being deleted. By the API server's clock the deletion began at deletionTimestamp minus the grace period, however
// often that was shortened; by ours it was first seen with that period at pod.deletingAt. Our clock may be wrong or be adjusted, and that must not cost a busy runner
// its job: its pod may have an hour to end.
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

// podDueAt returns the deadline, by our clock, for an ended pod to disappear: PendingTimeout after its deletion or
// after its failure was recorded, and no earlier than the end of its grace period plus podstatus.StuckTimeout. It
// returns zero for a pod that isn't being deleted. By the time a failure is recorded, the deletion may have lasted for
// long, or the cache may still show a pod that was force-deleted a moment ago. A failure dated later than now was
// recorded by another clock and is ignored.
func (m *memory) podDueAt(runner *v1alpha1.EphemeralRunner, pod *corev1.Pod, now time.Time) time.Time {
	if pod == nil || pod.DeletionTimestamp == nil {
		return time.Time{}
	}
	start := m.pod.deletingAt
	if at, found := rules.Recorded(&runner.Status, string(pod.UID)); found && !at.After(now) {
		start = at.Time
	}
	return kube.LaterOf(start.Add(rules.PendingTimeout(runner)),
		m.pod.deletingAt.Add(kube.GracePeriod(pod)+podstatus.StuckTimeout))
}

// The API server's clock, which dates objects, may differ from ours by clockSkew.
const clockSkew = time.Minute

// unregistered reports whether GitHub can't have a registration: nobody has requested one since the runner was created.
// It is false for a runner that another manager may have seen; this one took over at began.
func (m *memory) unregistered(runner *v1alpha1.EphemeralRunner, began time.Time) bool {
	return m.runnerID == 0 && !m.launch.WasAsked() && !m.inherited &&
		runner.CreationTimestamp.After(began.Add(clockSkew))
}

// mayHaveJob reports whether the runner may have a job now: its start was reported and its end was not, or GitHub
// mentioned one.
func (m *memory) mayHaveJob(status *v1alpha1.EphemeralRunnerStatus) bool {
	return status.JobRunning() || m.busy || meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionDraining)
}
