package ephemeralrunner

import (
	"context"
	"fmt"
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
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/pool"
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
	Pool     *pool.Pool
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	// Workers is how many runners are reconciled at once. No pass waits for GitHub, so few are enough.
	Workers int
	// Version is told to GitHub by every runner, as part of its user agent.
	Version string
}

// Controller reconciles EphemeralRunners.
type Controller struct {
	Options
	started    time.Time
	provisions *pool.Calls[key, int]
	removals   *pool.Calls[key, struct{}]
	again      chan event.GenericEvent

	mu       sync.Mutex
	memories map[types.UID]*memory
	names    map[types.NamespacedName]types.UID // of the runners in memories
}

// key names a runner: its object by name, so that it can be reconciled again, and by UID, so that a namesake that came
// later is not taken for it.
type key struct {
	types.NamespacedName
	uid types.UID
}

// memory is what is remembered of a runner between passes. The runner is reconciled by one worker at a time; only
// abandoned is read by a call in the pool, under the controller's lock.
type memory struct {
	registration  int // id on GitHub
	podUID        types.UID
	exited        time.Time
	reported      time.Time // when the status was last said to be Running
	reportedReady bool
	deleting      time.Time // first seen with a deletionTimestamp
	podGone       time.Time // first seen without a pod since then
	secretDeleted bool
	hooksDeleted  bool
	podLeft       bool // may not be deleted by us: garbage collection does it once the runner is gone
	abandoned     bool // a registration under way is not to be followed by Secret and Pod
}

// NewController returns a controller that does nothing until SetupWithManager has registered it.
func NewController(options Options) *Controller {
	c := &Controller{
		Options:  options,
		started:  options.Clock.Now(),
		again:    make(chan event.GenericEvent, 1024),
		memories: map[types.UID]*memory{},
		names:    map[types.NamespacedName]types.UID{},
	}
	c.provisions = pool.NewCalls[key, int](options.Pool, options.Clock, c.wake)
	c.removals = pool.NewCalls[key, struct{}](options.Pool, options.Clock, c.wake)
	return c
}

// SetupWithManager registers the controller and its watches.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("ephemeralrunner").
		For(&v1alpha1.EphemeralRunner{}).
		Owns(&corev1.Pod{}).
		WatchesRawSource(source.Channel(c.again, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: c.Workers}).
		Complete(c)
}

// Reconcile takes the next step in one runner's life.
func (c *Controller) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	runner := &v1alpha1.EphemeralRunner{}
	if err := c.Client.Get(ctx, request.NamespacedName, runner); err != nil {
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
	r := c.recall(runner, pod)

	var again time.Time
	switch {
	case !runner.DeletionTimestamp.IsZero():
		again, err = c.finalize(ctx, r)
	case runner.Status.Done():
		again, err = c.clean(ctx, r)
	default:
		again, err = c.apply(ctx, r, plan(c.situation(r)))
	}
	return c.result(again), err
}

// run is one runner in one pass.
type run struct {
	key key
	*v1alpha1.EphemeralRunner
	pod    *corev1.Pod
	memory *memory
}

// result brings the runner back at a time.
func (c *Controller) result(again time.Time) ctrl.Result {
	if again.IsZero() {
		return ctrl.Result{}
	}
	return ctrl.Result{RequeueAfter: max(time.Millisecond, again.Sub(c.Clock.Now()))}
}

// pod returns the runner's pod as the cache has it, nil where there is none of its own.
func (c *Controller) pod(ctx context.Context, runner *v1alpha1.EphemeralRunner) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(runner), pod, client.UnsafeDisableDeepCopy); err != nil {
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

// recall returns the runner with what is remembered of it, and remembers what is seen now.
func (c *Controller) recall(runner *v1alpha1.EphemeralRunner, pod *corev1.Pod) *run {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.memories[runner.UID]
	if m == nil {
		m = &memory{registration: runner.Status.RunnerID}
		c.memories[runner.UID] = m
		c.names[client.ObjectKeyFromObject(runner)] = runner.UID
	}
	if pod != nil {
		m.podUID = pod.UID
		m.registration = registrationOf(pod, m.registration)
	}
	if !runner.DeletionTimestamp.IsZero() {
		m.abandoned = true
		if m.deleting.IsZero() {
			m.deleting = c.Clock.Now()
		}
	}
	return &run{key: key{client.ObjectKeyFromObject(runner), runner.UID}, EphemeralRunner: runner, pod: pod, memory: m}
}

// abandoned says that the runner is being deleted, so that nothing more is to be made for it.
func (c *Controller) abandoned(k key) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.memories[k.uid]
	return m == nil || m.abandoned
}

// forget drops the memory of runners of that name that are gone.
func (c *Controller) forget(name types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	uid, known := c.names[name]
	if !known {
		return
	}
	delete(c.names, name)
	delete(c.memories, uid)
	c.provisions.Forget(key{name, uid})
	c.removals.Forget(key{name, uid})
}

// wake reconciles a runner again, from anywhere.
func (c *Controller) wake(k key) {
	runner := &v1alpha1.EphemeralRunner{}
	runner.Namespace, runner.Name = k.Namespace, k.Name
	c.again <- event.GenericEvent{Object: runner}
}
