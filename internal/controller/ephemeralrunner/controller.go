package ephemeralrunner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
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

// GitHub is the part of the Actions service that this controller uses.
type GitHub interface {
	// GenerateJITConfig registers a runner. It fails with actions.ErrRunnerExists where the name is taken.
	GenerateJITConfig(ctx context.Context, scaleSetID int, request actions.JITConfigRequest) (*actions.JITConfig, error)
	// GetRunnerByName fails with actions.ErrRunnerNotFound where there is none.
	GetRunnerByName(ctx context.Context, name string) (*actions.RunnerReference, error)
	// RemoveRunner fails with actions.ErrJobStillRunning where the runner has a job. A runner that is gone is no error, but
	// actions.ErrRunnerNotFound where the answer may be that of something on the way to GitHub.
	RemoveRunner(ctx context.Context, id int) error
}

// Options are what the controller is made of.
type Options struct {
	// Client reads from the manager's cache, except Secrets, and writes to the API server.
	Client client.Client
	// Reader reads from the API server. It is used for what the cache does not hold, job pods and Secrets that
	// container hooks made, and where a late cache would cost a job.
	Reader client.Reader
	// GitHub returns the client for a scale set's credentials.
	GitHub func(context.Context, credentials.Reference) (GitHub, error)
	// Pool runs the calls to GitHub, and the creations that follow a registration.
	Pool *pool.Pool
	// Removed are the registrations that GitHub has removed at the request of the runner's set. Nil knows of none.
	Removed  *removals.Memory
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	// Workers is how many runners are reconciled at once. No pass waits for GitHub, so few are enough.
	Workers int
	// Version is the manager's. Every runner sends it to GitHub as part of its user agent.
	Version string
	// JobMetadata writes on a pod which job it runs; JobProtection adds to that the annotations that keep node autoscalers
	// away while the job runs.
	JobMetadata, JobProtection bool
}

// Controller reconciles EphemeralRunners.
type Controller struct {
	options         Options
	provisions      *pool.Calls[key, int]
	deregistrations *pool.Calls[key, struct{}]
	waker           kube.Waker
	statusGate      statusGate

	mu       sync.Mutex
	memories map[types.NamespacedName]*memory
	// beganAt is the first pass: as long as another manager leads there is none. It never changes, and no pass goes on before it is
	// set, so passes read it without the lock.
	beganAt time.Time
	// forbidden has, by namespace, when the API server last forbade to patch a pod there.
	forbidden map[string]time.Time
}

// key names a runner: by the name of its object, so that it can be reconciled again, and by UID, so that a later object
// of the same name is not taken for it.
type key struct {
	types.NamespacedName
	uid types.UID
}

// NewController returns a controller that does nothing until SetupWithManager has registered it.
func NewController(options Options) *Controller {
	c := &Controller{
		options:   options,
		memories:  map[types.NamespacedName]*memory{},
		forbidden: map[string]time.Time{},
	}
	wake := func(k key) { c.waker.Wake(k.NamespacedName) }
	c.provisions = pool.NewCalls[key, int](options.Pool, options.Clock, wake)
	c.deregistrations = pool.NewCalls[key, struct{}](options.Pool, options.Clock, wake)
	return c
}

// SetupWithManager registers the controller and its watches.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("ephemeralrunner").
		Watches(&v1alpha1.EphemeralRunner{}, runnerEvents()).
		Watches(&corev1.Pod{}, podEvents(&c.statusGate)).
		WatchesRawSource(&c.waker).
		WatchesRawSource(source.Func(func(ctx context.Context, _ queue) error { return c.begin(ctx) })).
		WithOptions(kube.ControllerOptions(c.options.Workers)).
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
			c.forget(request.NamespacedName)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("get EphemeralRunner: %w", err)
	}
	m := c.memoryOf(runner)
	pod, err := c.pod(ctx, runner, m)
	if err != nil {
		return ctrl.Result{}, err
	}
	p := c.newPass(runner, pod, m)
	ctx = kube.WithScaleSetLogger(ctx, kube.ScaleSetOf(runner), jobValues(runner)...)
	requeueAt, err := c.step(ctx, p)
	annotateAt, annotateErr := c.annotateJob(ctx, p)
	return c.result(p, kube.EarlierOf(requeueAt, annotateAt), errors.Join(err, annotateErr))
}

// result ends a pass: the runner is reconciled again at requeueAt or when its pod is to be taken for lost; after an error the
// queue's rate limiter decides when.
func (c *Controller) result(p *pass, requeueAt time.Time, err error) (ctrl.Result, error) {
	var result ctrl.Result
	if err == nil {
		result = kube.RequeueAt(kube.EarlierOf(requeueAt, c.podLostAt(p)), c.options.Clock.Now())
	}
	result.Priority = new(p.priority()) // or it would keep that of the event that began the pass
	return result, err
}

// jobValues returns the log values of a runner's job, none where it has no job.
func jobValues(runner *v1alpha1.EphemeralRunner) []any {
	if !runner.Status.HadJob() {
		return nil
	}
	return []any{"jobID", jobID(&runner.Status)}
}

// withRunnerLogger gives a call in the pool the log values that controller-runtime and Reconcile give to a pass.
func withRunnerLogger(ctx context.Context, runner *v1alpha1.EphemeralRunner) context.Context {
	values := append(jobValues(runner), "namespace", runner.Namespace, "name", runner.Name)
	return kube.WithScaleSetLogger(ctx, kube.ScaleSetOf(runner), values...)
}

// step does what the runner needs now, and returns when it has to be reconciled again.
func (c *Controller) step(ctx context.Context, p *pass) (time.Time, error) {
	switch {
	case !p.DeletionTimestamp.IsZero():
		return c.finalize(ctx, p)
	case kube.IsStale(p.EphemeralRunner, p.memory.writtenVersion):
		return c.options.Clock.Now().Add(staleRequeueAfter), nil
	case p.Status.Done():
		return c.cleanUp(ctx, p)
	default:
		c.endNotedAttempt(ctx, p)
		return c.apply(ctx, p, plan(c.observe(p)))
	}
}

// staleRequeueAfter is when a runner is reconciled again whose status in the cache is older than the one last written, in
// case the watch never brings that.
const staleRequeueAfter = 2 * time.Second

// podLostAt returns when the runner's pod, which is being deleted, has to be taken for lost with its node; zero where that
// moment has passed or will not come.
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

// pass is one reconciliation: the runner, its pod if it has one, and what is remembered of it.
type pass struct {
	key key
	*v1alpha1.EphemeralRunner
	pod *corev1.Pod
	// outcome is the pod's. It is determined once, so that what is written agrees with what was planned.
	outcome outcome
	memory  *memory
	// provisioning is read once, so that its result and its end belong to the same call.
	provisioning progress
}
