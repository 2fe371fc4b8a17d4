package ephemeralrunner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/pool"
	"github.com/harrier-ci/harrier/internal/removals"
)

// GitHub is what this controller asks of the Actions service.
type GitHub interface {
	// GenerateJITConfig fails with actions.ErrRunnerExists where the name is taken.
	GenerateJITConfig(ctx context.Context, scaleSetID int, request actions.JITConfigRequest) (*actions.JITConfig, error)
	// GetRunnerByName fails with actions.ErrRunnerNotFound where there is none.
	GetRunnerByName(ctx context.Context, name string) (*actions.RunnerReference, error)
	// RemoveRunner fails with actions.ErrJobStillRunning where the runner has a job; one that is gone is removed.
	RemoveRunner(ctx context.Context, id int) error
}

// Options are what the controller is made of.
type Options struct {
	// Client reads from the manager's cache, except Secrets, and writes to the API server.
	Client client.Client
	// Reader reads from the API server. It is used where the cache does not hold what is looked for: job pods and
	// Secrets that container hooks made.
	Reader client.Reader
	// GitHub returns the client for a scale set's credentials.
	GitHub func(context.Context, credentials.Reference) (GitHub, error)
	// Pool runs the calls to GitHub, and the creations that follow a registration.
	Pool *pool.Pool
	// Removed are the registrations that GitHub has removed for the runner's set. Nil knows of none.
	Removed  *removals.Memory
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	// Workers is how many runners are reconciled at once. No pass waits for GitHub, so few are enough.
	Workers int
	// Version is told to GitHub by every runner, as part of its user agent.
	Version string
	// NoJobMetadata leaves pods as they are when their job starts; NoJobProtection leaves out only what keeps node
	// autoscalers away.
	NoJobMetadata, NoJobProtection bool
}

// Controller reconciles EphemeralRunners.
type Controller struct {
	options    Options
	provisions *pool.Calls[key, int]
	removals   *pool.Calls[key, struct{}]
	waker      kube.Waker
	urgencies  urgencies

	mu       sync.Mutex
	began    time.Time // the first pass: as long as another manager leads there is none
	memories map[types.UID]*memory
	names    map[types.NamespacedName]types.UID // of the runners in memories
	refused  map[string]time.Time               // namespaces whose pods may not be patched, and when that was last tried
}

// key names a runner: its object by name, so that it can be reconciled again, and by UID, so that a namesake that came
// later is not taken for it.
type key struct {
	types.NamespacedName
	uid types.UID
}

// memory is what is remembered of a runner between passes. The runner is reconciled by one worker at a time; only
// abandoned, asked, anew, secret and unstored are touched by a call in the pool too, under the controller's lock.
type memory struct {
	registration int       // id on GitHub
	podUID       types.UID // of the last pod seen
	up           time.Time // runner container first seen to run in the present attempt
	blocked      time.Time // its kubelet first seen to be unable to start that
	exited       time.Time // first seen to have exited with 0
	told         time.Time // when it was last said why the runner does not run
	sidecarTold  bool
	written      string // resourceVersion of the last status written

	// What has been deleted, lest a late cache have it deleted again.
	podDeleted    types.UID
	secretDeleted bool
	hooksDeleted  bool
	deleted       bool // the runner's object
	released      bool // its finalizers

	dying    time.Time // its pod first seen with a deletionTimestamp
	deleting time.Time // first seen with a deletionTimestamp
	stopped  time.Time // first seen without a running container since then
	podGone  time.Time // first seen without a pod since then
	podLeft  bool      // may not be deleted by us: garbage collection does it once the runner is gone
	busy     bool      // GitHub has refused to remove the registration, because of a job
	forced   bool      // the pod was deleted though GitHub had not answered

	waiting *waiting // nil while no pod waits to run
	marked  markings // what was written on the pod about its job

	abandoned bool          // a registration under way is not to be followed by Secret and Pod
	inherited bool          // it was there when this manager began, so another one may have asked GitHub for a registration
	asked     bool          // this manager has asked GitHub for a registration
	anew      bool          // it was since the last pass, so that the one known is void
	secret    types.UID     // of the Secret that is known to be the runner's, empty where none is
	unstored  *registration // for which no Secret could be made, nil where there is none
}

// NewController returns a controller that does nothing until SetupWithManager has registered it.
func NewController(options Options) *Controller {
	c := &Controller{
		options:  options,
		memories: map[types.UID]*memory{},
		names:    map[types.NamespacedName]types.UID{},
		refused:  map[string]time.Time{},
	}
	wake := func(k key) { c.waker.Wake(k.NamespacedName) }
	c.provisions = pool.NewCalls[key, int](options.Pool, options.Clock, wake)
	c.removals = pool.NewCalls[key, struct{}](options.Pool, options.Clock, wake)
	return c
}

// SetupWithManager registers the controller and its watches.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("ephemeralrunner").
		Watches(&v1alpha1.EphemeralRunner{}, runnerEvents()).
		Watches(&corev1.Pod{}, c.urgencies.podEvents()).
		WatchesRawSource(source.Func(c.waker.Start)).
		WatchesRawSource(source.Func(func(ctx context.Context, _ queue) error { return c.begin(ctx) })).
		WithOptions(kube.ControllerOptions(c.options.Workers)).
		Complete(c)
}

// Reconcile takes the next step in one runner's life.
func (c *Controller) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	if err := c.begin(ctx); err != nil {
		return ctrl.Result{}, err
	}
	defer c.urgencies.seenTo(request.NamespacedName)
	runner := &v1alpha1.EphemeralRunner{}
	if err := c.options.Client.Get(ctx, request.NamespacedName, runner); err != nil {
		if apierrors.IsNotFound(err) {
			c.forget(request.NamespacedName)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("get EphemeralRunner: %w", err)
	}
	pod, err := c.pod(ctx, runner)
	if err != nil {
		return ctrl.Result{}, err
	}
	p := c.recall(runner, pod)
	ctx = kube.WithScaleSetLogger(ctx, kube.ScaleSetOf(runner), jobValues(runner)...)
	again, err := c.step(ctx, p)
	againToMark, notMarked := c.mark(ctx, p)
	result := kube.RequeueAt(kube.EarlierOf(kube.EarlierOf(again, againToMark), c.lost(p)), c.options.Clock.Now())
	result.Priority = ptr.To(p.priority()) // or it would keep that of the event that began the pass
	return result, errors.Join(err, notMarked)
}

// jobValues are what every log line about a runner that has a job says of it.
func jobValues(runner *v1alpha1.EphemeralRunner) []any {
	if !runner.Status.HasJob() {
		return nil
	}
	return []any{"jobID", jobID(&runner.Status)}
}

// inPool adds to the log of a call in the pool what controller-runtime adds to that of a pass, and what a pass adds to it.
func inPool(ctx context.Context, runner *v1alpha1.EphemeralRunner) context.Context {
	values := append(jobValues(runner), "namespace", runner.Namespace, "name", runner.Name)
	return kube.WithScaleSetLogger(ctx, kube.ScaleSetOf(runner), values...)
}

// step does what the runner needs now, and returns when to look again.
func (c *Controller) step(ctx context.Context, p *pass) (time.Time, error) {
	switch {
	case !p.DeletionTimestamp.IsZero():
		return c.finalize(ctx, p)
	case kube.IsStale(p.EphemeralRunner, p.memory.written):
		return c.options.Clock.Now().Add(lateCache), nil
	case p.Status.Done():
		return c.clean(ctx, p)
	default:
		return c.apply(ctx, p, plan(c.situation(p)))
	}
}

// lateCache is the pause in case the watch has not brought a status that was written, and never will.
const lateCache = 2 * time.Second

// lost is when the runner's pod, being deleted, has to be taken for lost with its node, zero where that is not to come.
func (c *Controller) lost(p *pass) time.Time {
	if p.pod == nil || p.pod.DeletionTimestamp == nil {
		return time.Time{}
	}
	now := c.options.Clock.Now()
	if left := p.pod.DeletionTimestamp.Add(stuckAfter).Sub(p.memory.clockOf(p.pod, now)); left > 0 {
		return now.Add(left)
	}
	return time.Time{}
}

// pass is one reconciliation: the runner, its pod if it has one, and what is remembered of it.
type pass struct {
	key key
	*v1alpha1.EphemeralRunner
	pod    *corev1.Pod
	memory *memory
	// provisioning is read once, or the registration that it brings and its end could be of two moments.
	provisioning progress
}

// pod returns the runner's pod, nil where there is none of its own. The cache's word is not enough where a job would be lost
// with it.
func (c *Controller) pod(ctx context.Context, runner *v1alpha1.EphemeralRunner) (*corev1.Pod, error) {
	pod, err := ownPod(ctx, c.options.Client, runner)
	switch {
	case err != nil:
		return nil, err
	case pod == nil && c.misses(runner):
		return ownPod(ctx, c.options.Reader, runner)
	case pod != nil && doubtful(runner, pod, c.clockOf(runner, pod)):
		return kube.LivePod(ctx, c.options.Client, pod)
	default:
		return pod, nil
	}
}

// doubtful says that what the cache shows has consequences that a late cache must not have: of a pod that never started the
// JIT config is used again, and one that hangs in its deletion is given up, with its job.
func doubtful(runner *v1alpha1.EphemeralRunner, pod *corev1.Pod, now time.Time) bool {
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

// misses says that a runner at work has lost its pod, by the cache, and that nobody here had it go. Runners and pods come by
// two watches; a manager that has just become the leader may have the one and wait for the other.
func (c *Controller) misses(runner *v1alpha1.EphemeralRunner) bool {
	status := &runner.Status
	atWork := status.Phase == v1alpha1.EphemeralRunnerPhaseRunning || status.HasJob()
	if !atWork || status.JobCompleted() || status.Done() || !runner.DeletionTimestamp.IsZero() {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.memories[runner.UID]
	return m == nil || m.exited.IsZero() && (m.podDeleted == "" || m.podDeleted != m.podUID)
}
