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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/requeue"
	"github.com/harrier-ci/harrier/internal/pool"
	"github.com/harrier-ci/harrier/internal/removals"
)

// GitHub is the part of the Actions service that this controller uses.
type GitHub interface {
	// GenerateJITConfig registers a runner. It fails with actions.ErrRunnerExists if the name is taken.
	GenerateJITConfig(ctx context.Context, scaleSetID int, request actions.JITConfigRequest) (*actions.JITConfig, error)
	// GetRunnerByName fails with actions.ErrRunnerNotFound if GitHub has no runner of that name.
	GetRunnerByName(ctx context.Context, name string) (*actions.RunnerReference, error)
	// RemoveRunner fails with actions.ErrJobStillRunning if the runner has a job. It succeeds if GitHub no longer has the
	// runner, but fails with actions.ErrRunnerNotFound if that answer may have come from a proxy or gateway in between.
	RemoveRunner(ctx context.Context, id int) error
}

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
	// Removed holds the registrations that GitHub has removed, or refused to remove, at the request of the runner's set. It may
	// be nil.
	Removed  *removals.Memory
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
	options         Options
	provisions      *pool.Calls[key, int]
	deregistrations *pool.Calls[key, struct{}]
	waker           requeue.Waker
	statusGate      statusGate
	removedPods     removedPods
	podAllowance    flowcontrol.PassiveRateLimiter // see untrack

	mu       sync.Mutex
	memories map[types.NamespacedName]*memory
	// beganAt is the time of the first pass; there is none while another manager leads. It never changes, and no pass
	// continues before it is set, so passes read it without the lock.
	beganAt time.Time
	// forbidden holds the namespaces in which the API server forbids patching pods.
	forbidden map[string]forbidding
}

// key identifies a runner: by the name of its object, so that it can be reconciled again, and by UID, so that a later object
// of the same name is not mistaken for it.
type key struct {
	types.NamespacedName
	uid types.UID
}

// NewController returns a controller that does nothing until SetupWithManager has registered it.
func NewController(options Options) *Controller {
	c := &Controller{
		options:      options,
		podAllowance: newPodAllowance(options.Clock),
		memories:     map[types.NamespacedName]*memory{},
		forbidden:    map[string]forbidding{},
	}
	wake := func(k key) { c.waker.Wake(k.NamespacedName) }
	options.Removed.WhenBusy(c.waker.Wake)
	c.provisions = pool.NewCalls[key, int](options.Pool, options.Clock, wake)
	c.deregistrations = pool.NewCalls[key, struct{}](options.Pool, options.Clock, wake)
	return c
}

// SetupWithManager registers the controller and its watches.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("ephemeralrunner").
		Watches(&v1alpha1.EphemeralRunner{}, runnerEvents()).
		Watches(&corev1.Pod{}, podEvents(&c.statusGate, &c.removedPods)).
		WatchesRawSource(&c.waker).
		WatchesRawSource(source.Func(func(ctx context.Context, _ queue) error { return c.begin(ctx) })).
		WithOptions(requeue.ControllerOptions(c.options.Workers)).
		Complete(c)
}

// Reconcile takes the next step in one runner's life.
func (c *Controller) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	if err := c.begin(ctx); err != nil {
		return ctrl.Result{}, err
	}
	defer c.statusGate.handled(request.NamespacedName)
	runner := &v1alpha1.EphemeralRunner{}
	if err := c.options.Client.Get(ctx, request.NamespacedName, runner); err != nil {
		if apierrors.IsNotFound(err) {
			result, err := c.removeRemains(ctx, request.NamespacedName)
			if err == nil {
				c.forget(request.NamespacedName)
				c.removedPods.drop(request.NamespacedName)
			}
			return result, err
		}
		return ctrl.Result{}, fmt.Errorf("get EphemeralRunner: %w", err)
	}
	m := c.memoryOf(runner)
	m.mayVanish = !slices.ContainsFunc(runner.Finalizers, isOurs)
	pod, err := c.pod(ctx, runner, m)
	if err != nil {
		return ctrl.Result{}, err
	}
	p := c.newPass(runner, pod, m)
	ctx = kube.WithScaleSetLogger(ctx, kube.ScaleSetOf(runner), jobValues(runner)...)
	markAt, markErr := c.markJob(ctx, p) // first, because it protects the job
	requeueAt, err := c.step(ctx, p)
	return c.result(p, kube.EarlierOf(requeueAt, markAt), errors.Join(err, markErr))
}

// result ends a pass. The runner is reconciled again at requeueAt or when its pod must be treated as lost, whichever is
// earlier; after an error the queue's rate limiter decides when.
func (c *Controller) result(p *pass, requeueAt time.Time, err error) (ctrl.Result, error) {
	var result ctrl.Result
	if err == nil {
		result = requeue.At(kube.EarlierOf(requeueAt, c.podLostAt(p)), c.options.Clock.Now())
	}
	result.Priority = new(p.priority()) // otherwise it would keep the priority of the event that began the pass
	return result, err
}

// jobValues returns the log values of a runner's job, nil if it has no job.
func jobValues(runner *v1alpha1.EphemeralRunner) []any {
	if !runner.Status.HadJob() {
		return nil
	}
	return []any{"jobID", jobID(&runner.Status)}
}

// withRunnerLogger gives a call in the pool the same log values that controller-runtime and Reconcile give to a pass.
func withRunnerLogger(ctx context.Context, runner *v1alpha1.EphemeralRunner) context.Context {
	values := append(jobValues(runner), "namespace", runner.Namespace, "name", runner.Name)
	return kube.WithScaleSetLogger(ctx, kube.ScaleSetOf(runner), values...)
}

// step does what the runner needs now, and returns when to reconcile it again.
func (c *Controller) step(ctx context.Context, p *pass) (time.Time, error) {
	switch {
	case !p.DeletionTimestamp.IsZero():
		return c.finalize(ctx, p)
	case kube.IsStale(p.EphemeralRunner, p.memory.writtenVersion):
		return c.options.Clock.Now().Add(staleRequeueAfter), nil
	}
	var err error
	if p.runnerSet, err = c.runnerSet(ctx, p.EphemeralRunner); err != nil {
		return time.Time{}, err
	}
	switch {
	case p.runnerSet == nil:
		return c.removeAbandoned(ctx, p)
	case p.Status.Done():
		return c.cleanUp(ctx, p)
	default:
		c.endNotedAttempt(ctx, p)
		return c.apply(ctx, p, plan(c.observe(p)))
	}
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
	if left := p.pod.DeletionTimestamp.Add(stuckAfter).Sub(p.memory.apiServerTime(p.pod, now)); left > 0 {
		return now.Add(left)
	}
	return time.Time{}
}

// pass is one reconciliation: the runner, its pod if it has one, and what the controller remembers of it.
type pass struct {
	key key
	*v1alpha1.EphemeralRunner
	// runnerSet is the set that controls the runner, the cache's own. It is nil in a runner's finalization.
	runnerSet *v1alpha1.EphemeralRunnerSet
	pod       *corev1.Pod
	// outcome is the state of pod. It is determined once, so that what is written agrees with what was planned.
	outcome outcome
	memory  *memory
	// provisioning is read once, so that its result and its end belong to the same call.
	provisioning progress
}
