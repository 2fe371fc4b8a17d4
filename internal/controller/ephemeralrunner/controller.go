package ephemeralrunner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/calls"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/deregister"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/launch"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/mark"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/memory"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/remains"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/podstatus"
	"github.com/harrier-ci/harrier/internal/pool"
	"github.com/harrier-ci/harrier/internal/reconcile"
	"github.com/harrier-ci/harrier/internal/registrations"
)

// GitHub is the part of the Actions service that this controller uses.
type GitHub = calls.GitHub

// Options are what the controller needs from outside.
type Options struct {
	// Client reads from the manager's cache, except Secrets, and writes to the API server.
	Client client.Client
	// Reader reads from the API server. It is used for what container hooks create, of which the cache holds some pods only, and
	// wherever a stale cache would cost a job.
	Reader client.Reader
	// GitHub returns the client for a scale set's credentials.
	GitHub func(context.Context, credentials.Reference) (GitHub, error)
	// Pool runs the calls to GitHub, and the creation of Secret and Pod that follows a registration.
	Pool *pool.Pool
	// Verdicts has what the runners' sets have found out about them.
	Verdicts *registrations.Verdicts
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	// Workers is the number of runners reconciled at once. No pass waits for GitHub, so a few are enough.
	Workers int
	// Version is the manager's version. Every runner sends it to GitHub as part of its user agent.
	Version string
	// JobMetadata writes on a pod which job it runs, and not only that it runs one. JobProtection adds the annotations that keep
	// node autoscalers away while the job runs.
	JobMetadata, JobProtection bool
	// Admit reports whether a set that may have most runners has room for one of them, which then counts. It may be nil.
	Admit func(set types.UID, runner types.NamespacedName, most int) bool
}

// Controller reconciles EphemeralRunners.
type Controller struct {
	options     Options
	launcher    *launch.Launcher
	deregistrar *deregister.Remover
	marker      *mark.Marker
	reports     *mark.Gate
	remains     *remains.Remover
	waker       reconcile.Waker
	removedPods removedPods

	mu       sync.Mutex
	memories map[types.NamespacedName]*remembered
	// beganAt is the time of the first pass; there is none while another manager leads. It never changes, and no pass
	// continues before it is set, so passes read it without the lock.
	beganAt time.Time
}

// remembered is what the controller remembers of a runner between passes.
type remembered struct {
	*memory.Memory
	waiting *waiting // nil if no pod is waiting to run
}

// NewController returns a controller that does nothing until SetupWithManager has registered it.
func NewController(options Options) *Controller {
	c := &Controller{options: options, reports: mark.NewGate(options.Pool), memories: map[types.NamespacedName]*remembered{}}
	wake := func(k calls.Key) { c.waker.Wake(k.NamespacedName) }
	c.marker = mark.New(mark.Options{Client: options.Client, Recorder: options.Recorder, Clock: options.Clock, Gate: c.reports,
		JobMetadata: options.JobMetadata, JobProtection: options.JobProtection})
	c.launcher = launch.New(launch.Options{Client: options.Client, Reader: options.Reader, GitHub: options.GitHub, Pool: options.Pool,
		Clock: options.Clock, Version: options.Version, Wake: wake, Created: c.marker.Untrack})
	c.deregistrar = deregister.New(deregister.Options{GitHub: options.GitHub, Pool: options.Pool, Clock: options.Clock, Wake: wake,
		Counted: c.isCounted})
	c.remains = remains.New(remains.Options{Client: options.Client, Reader: options.Reader, DeleteSecret: c.launcher.DeleteAbandonedSecret,
		Recorder: options.Recorder, Clock: options.Clock})
	return c
}

// isCounted reports whether a runner belongs to a set that an AutoscalingRunnerSet owns.
func (c *Controller) isCounted(ctx context.Context, runner *v1alpha1.EphemeralRunner) (bool, error) {
	set, err := c.runnerSet(ctx, runner)
	if err != nil || set == nil {
		return false, err
	}
	origin, err := c.origin(ctx, set)
	return origin != nil, err
}

// pass is one reconciliation: the runner, its pod if it has one, and what the controller remembers of it.
type pass struct {
	key calls.Key
	*v1alpha1.EphemeralRunner
	// runnerSet is the set that controls the runner, the cache's own. It is nil in a runner's finalization.
	runnerSet *v1alpha1.EphemeralRunnerSet
	pod       *corev1.Pod
	// outcome is the state of pod. It is determined once, so that what is written agrees with what was planned.
	outcome rules.Outcome
	memory  *remembered
	// provisioning is read once, so that its result and its end belong to the same call.
	provisioning calls.Progress
}

// Reconcile takes the next step in one runner's life.
func (c *Controller) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	if err := c.begin(ctx); err != nil {
		return ctrl.Result{}, err
	}
	name := request.NamespacedName
	defer c.reports.Handled(name)
	runner := &v1alpha1.EphemeralRunner{}
	err := c.options.Client.Get(ctx, name, runner)
	switch {
	case apierrors.IsNotFound(err):
		result, err := c.remains.RemoveOf(ctx, name, c.hasVanished(name))
		if err == nil {
			c.forget(name)
			c.removedPods.drop(name)
		}
		return result, err
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("get EphemeralRunner: %w", err)
	}
	m := c.memoryOf(runner)
	m.MayVanish = !slices.ContainsFunc(runner.Finalizers, isOurs)
	pod, err := c.readPod(ctx, runner, m.Memory)
	if err != nil {
		return ctrl.Result{}, err
	}
	p := c.newPass(runner, pod, m)
	ctx = kube.WithScaleSetLogger(ctx, kube.ScaleSetOf(runner), calls.LogValues(runner)...)
	markAt, markErr := c.markJob(ctx, p) // first, because it protects the job
	requeueAt, err := c.step(ctx, p)
	return c.result(p, kube.EarlierOf(requeueAt, markAt), errors.Join(err, markErr))
}

// isOurs reports whether the finalizer belongs to this controller or to ARC's.
func isOurs(finalizer string) bool {
	return finalizer == v1alpha1.FinalizerEphemeralRunner || finalizer == v1alpha1.FinalizerRunnerRegistration
}

// result ends a pass. The runner is reconciled again at requeueAt or when its pod must be treated as lost, whichever is
// earlier; after an error the queue's rate limiter decides when.
func (c *Controller) result(p *pass, requeueAt time.Time, err error) (ctrl.Result, error) {
	var result ctrl.Result
	if err == nil {
		result = reconcile.At(kube.EarlierOf(requeueAt, c.podLostAt(p)), c.options.Clock.Now())
	}
	result.Priority = new(p.priority()) // otherwise it would keep the priority of the event that began the pass
	return result, err
}

// priority returns the priority of a pass that is requeued by time or after an error: high if a pod has ended and must still be
// deleted, because its deletion may have had to wait for a stale cache, or if its pod is not marked as busy.
func (p *pass) priority() int {
	unmarked := p.pod != nil && p.Status.JobRunning() && !p.memory.Pod.Marked.Busy && p.pod.Labels[v1alpha1.LabelRunnerBusy] == ""
	if unmarked || p.podStays() && podstatus.HasEnded(p.pod, v1alpha1.RunnerContainerName) {
		return priorityHigh
	}
	return priorityLow
}

// staleRequeueAfter is when to reconcile a runner again if the cache shows an older status than the one last written, in case
// the watch never delivers it.
const staleRequeueAfter = 2 * time.Second

// podLostAt returns when the runner's pod, which is being deleted, must be treated as lost with its node. It returns zero if
// that moment has passed or will not come.
func (c *Controller) podLostAt(p *pass) time.Time {
	if p.pod == nil || p.pod.DeletionTimestamp == nil {
		return time.Time{}
	}
	now := c.options.Clock.Now()
	if left := p.pod.DeletionTimestamp.Add(podstatus.StuckAfter).Sub(p.memory.APIServerTime(p.pod, now)); left > 0 {
		return now.Add(left)
	}
	return time.Time{}
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
		c.memoryOfLocked(&there.Items[i]).Inherited = true
	}
	c.beganAt = c.options.Clock.Now()
	return nil
}

// memoryOf returns what the controller remembers of a runner. Whatever belonged to an earlier runner of the same name is
// forgotten.
func (c *Controller) memoryOf(runner *v1alpha1.EphemeralRunner) *remembered {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.memoryOfLocked(runner)
}

// memoryOfLocked is memoryOf for a caller that holds the lock.
func (c *Controller) memoryOfLocked(runner *v1alpha1.EphemeralRunner) *remembered {
	name := client.ObjectKeyFromObject(runner)
	m := c.memories[name]
	if m == nil || m.UID != runner.UID {
		c.forgetLocked(name)
		m = &remembered{Memory: memory.New(runner)}
		c.memories[name] = m
	}
	return m
}

// hasVanished reports whether a runner went without its finalization. Only what has no owner outlives it.
func (c *Controller) hasVanished(name types.NamespacedName) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.memories[name]
	return m != nil && m.MayVanish && !m.FinalizersRemoved
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
	m.Launch.Abandon()
	m.waiting.end(c.options.Clock.Now())
	delete(c.memories, name)
	k := calls.Key{NamespacedName: name, UID: m.UID}
	c.launcher.Forget(k)
	c.deregistrar.Forget(k)
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

// take returns the last state of the runner's pod and forgets it. It returns nil if one is present, or if that pod was deleted
// at the controller's request.
func (r *removedPods) take(runner *v1alpha1.EphemeralRunner, present *corev1.Pod, known *memory.LastPod) *corev1.Pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := client.ObjectKeyFromObject(runner)
	pod := r.pods[name]
	delete(r.pods, name)
	if pod == nil || present != nil || !metav1.IsControlledBy(pod, runner) || known.Deleted || known.UID != "" && known.UID != pod.UID {
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
