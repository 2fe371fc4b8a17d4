// Package launch asks GitHub about one runner, in the pool: it registers the runner and creates its Secret and its pod,
// and it has the registration removed. It alone knows JIT configs, whose a Secret is, and what is in a runner's pod.
//
// A JIT config is good for one start of the runner container, so one whose container may have started is never given to
// a second pod. Nothing is created for a runner after its Memory is told to Abandon it.
package launch

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/phases"
	"github.com/harrier-ci/harrier/internal/pool"
	"github.com/harrier-ci/harrier/internal/reconcile"
)

// writeTimeout bounds a request to the API server that is sent from the pool.
const writeTimeout = 30 * time.Second

// GitHub is the part of the Actions service that is asked about one runner.
type GitHub interface {
	// GenerateJITConfig registers a runner. It fails with actions.ErrRunnerExists if the name is taken.
	GenerateJITConfig(ctx context.Context, scaleSetID int, request actions.JITConfigRequest) (*actions.JITConfig, error)
	// GetRunnerByName fails with actions.ErrRunnerNotFound if GitHub has no runner of that name.
	GetRunnerByName(ctx context.Context, name string) (*actions.RunnerReference, error)
	// RemoveRunner fails with actions.ErrJobStillRunning if the runner has a job. It succeeds if GitHub no longer has
	// the runner, but fails with actions.ErrRunnerNotFound if that answer may have come from a proxy or gateway in
	// between.
	RemoveRunner(ctx context.Context, id int) error
}

// jitSeconds has no scale set in its labels: what slows it down is GitHub, or its limits for the whole organization.
var jitSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
	Subsystem: "gha_controller", Name: "jit_config_seconds",
	Help: "Time from asking GitHub for a runner's registration until it answered, including retries.",
	// Up to 30 s, when a call is given up.
	Buckets: []float64{0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 15, 30},
})

func init() { metrics.Registry.MustRegister(jitSeconds) }

// Options are what a Launcher needs from outside.
type Options struct {
	// Client writes to the API server, and reads Secrets from it. Reader reads pods from it: a stale cache would cost a
	// job.
	Client client.Client
	Reader client.Reader
	// GitHub returns the client for a scale set's credentials.
	GitHub func(context.Context, credentials.Reference) (GitHub, error)
	Pool   *pool.Pool
	Clock  clock.PassiveClock
	// Version is the manager's. Every runner sends it to GitHub as part of its user agent.
	Version string
	// Wake is called with the runner's name at the end of each call.
	Wake func(types.NamespacedName)
	// Counted reports whether the runner belongs to a set that an AutoscalingRunnerSet owns. Whatever the status of any
	// other says, and whatever GitHub has under its name, may be a runner's that works in another cluster.
	Counted func(context.Context, *v1alpha1.EphemeralRunner) (bool, error)
	// SeeVersion is told which version GitHub's record of a refused runner has. It may be nil.
	SeeVersion func(runner *v1alpha1.EphemeralRunner, version string)
	// Protection may be nil: then new pods have none.
	Protection Protection
	// Avoided returns the nodes to which no new pod may go, although the scheduler would send it there. It may be nil.
	Avoided func() []string
}

// Protection keeps a new pod from being evicted until it is known whether it gets a job at once.
type Protection interface {
	// Protect adds it to a pod that is to be created for a runner of set, and reports whether it did.
	Protect(ctx context.Context, set *v1alpha1.AutoscalingRunnerSet, pod *corev1.Pod) bool
	// Refused is told why the API server took the runner's pod only without it.
	Refused(ctx context.Context, runner *v1alpha1.EphemeralRunner, refusal error)
}

// Launcher makes the calls about runners. What becomes of them is in each runner's Memory. Safe for concurrent use.
type Launcher struct{ options Options }

// New returns a Launcher.
func New(options Options) *Launcher { return &Launcher{options} }

// Launch registers the runner and creates its Secret, the claims that set has for it, and its pod, in the pool; it does
// nothing while that is under way. reuse is the id of a registration whose JIT config is unused, 0 if none is known: it
// is taken from the Secret if it is there. Neither set nor runner must change.
func (l *Launcher) Launch(
	set *v1alpha1.AutoscalingRunnerSet, runner *v1alpha1.EphemeralRunner, reuse int, memory *Memory,
) {
	start(l, &memory.launch, runner, func(ctx context.Context) (int, error) {
		if memory.abandoned.Load() {
			return 0, errAbandoned
		}
		var claims func() error
		if len(runner.Spec.VolumeClaims) > 0 {
			claims = func() error { return l.createClaims(ctx, set, runner) }
			if set.Spec.OfSnapshots() { // copies, for which a driver may take seconds, are requested at once
				created := make(chan error, 1)
				go func() { created <- l.createClaims(ctx, set, runner) }()
				claims = sync.OnceValue(func() error { return <-created })
				defer func() { _ = claims() }() // nothing is under way when this returns
			}
		}
		registered, err := l.register(ctx, memory, runner, reuse)
		if err != nil {
			return 0, err
		}
		if memory.abandoned.Load() {
			return registered.id, errAbandoned
		}
		if err := l.createSecret(ctx, memory, runner, registered); err != nil {
			return registered.id, err
		}
		if claims != nil && !memory.abandoned.Load() {
			if err := claims(); err != nil {
				return registered.id, err
			}
		}
		if memory.abandoned.Load() {
			return registered.id, errAbandoned
		}
		return registered.id, l.createPod(ctx, set, runner, registered)
	})
}

// createPod creates the pod. Retrying does not help if the API server calls the pod invalid; what it forbids because of
// a quota or policy may be allowed later.
func (l *Launcher) createPod(
	ctx context.Context, set *v1alpha1.AutoscalingRunnerSet, runner *v1alpha1.EphemeralRunner, registered *registration,
) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	err := l.createProtected(ctx, set, runner, registered)
	switch {
	case err == nil:
		return nil
	case apierrors.IsAlreadyExists(err):
		return l.checkExistingPod(ctx, runner)
	case kube.IsNamespaceTerminating(err):
		return errNamespaceClosed
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		return &rules.Failure{Kind: rules.Invalid, Reason: v1alpha1.ReasonInvalidPod, Message: fmt.Sprintf(
			"the API server rejects the pod template: %v: correct spec.template of the AutoscalingRunnerSet", err)}
	case kube.IsQuotaExceeded(err):
		return &rules.Failure{Reason: v1alpha1.ReasonQuotaExceeded, Message: err.Error()}
	case apierrors.IsForbidden(err):
		return &rules.Failure{Reason: v1alpha1.ReasonPodForbidden, Message: fmt.Sprintf(
			"%v: change spec.template of the AutoscalingRunnerSet, or what forbids it in namespace %s", err, runner.Namespace)}
	default:
		return requestFailure(v1alpha1.ReasonPodRefused, "create pod "+runner.Name, err)
	}
}

// createProtected creates the pod, protected from eviction if the API server takes it like that. That a policy is
// against the labels or annotations of the protection must not cost the runner its pod.
func (l *Launcher) createProtected(
	ctx context.Context, set *v1alpha1.AutoscalingRunnerSet, runner *v1alpha1.EphemeralRunner, registered *registration,
) error {
	plain := func() *corev1.Pod {
		pod := newPod(runner, registered.id, l.options.Version)
		if l.options.Avoided != nil {
			avoid(&pod.Spec, l.options.Avoided())
		}
		pod.Annotations[v1alpha1.AnnotationPhases] = phases.Text(&v1alpha1.RunnerPhases{
			Created: &runner.CreationTimestamp, Registered: new(metav1.NewTime(registered.at)),
		})
		return pod
	}
	pod, protection := plain(), l.options.Protection
	protected := protection != nil && protection.Protect(ctx, set, pod)
	err := l.options.Client.Create(ctx, pod)
	if err == nil || !protected {
		return err
	}
	maybeItsFault := kube.IsRefused(err) && !kube.IsQuotaExceeded(err) && !kube.IsNamespaceTerminating(err) &&
		!kube.IsDeniedByAuthorizer(err)
	if !maybeItsFault {
		return err
	}
	again := l.options.Client.Create(ctx, plain())
	if again == nil {
		protection.Refused(ctx, runner, err)
	}
	return again
}

// registration is a runner's id on GitHub and its JIT config.
type registration struct {
	id     int
	config string
	stored bool      // the Secret has it already
	at     time.Time // when GitHub answered, or when the Secret was created
}

// register returns a registration whose JIT config was never used, or the registration that the runner's pod already
// uses.
func (l *Launcher) register(
	ctx context.Context, memory *Memory, runner *v1alpha1.EphemeralRunner, reuse int,
) (*registration, error) {
	if reuse != 0 {
		if unused, err := l.unusedRegistration(ctx, memory, runner, reuse); err != nil || unused != nil {
			return unused, err
		}
	}
	github, err := l.options.GitHub(ctx, credentials.ForEphemeralRunner(runner))
	if err != nil {
		return nil, notRegistered(err)
	}
	memory.asked.Store(true)
	memory.askedSinceLastPass.Store(true)
	config, err := l.generate(ctx, github, runner)
	if errors.Is(err, actions.ErrRunnerExists) {
		if used, err := l.resolveConflict(ctx, github, runner, err); err != nil || used != nil {
			return used, err
		}
		config, err = l.generate(ctx, github, runner)
	}
	if err != nil {
		return nil, notRegistered(err)
	}
	return &registration{id: config.Runner.ID, config: config.EncodedJITConfig, at: l.options.Clock.Now()}, nil
}

// generate asks GitHub for a registration, and measures how long the answer takes.
func (l *Launcher) generate(
	ctx context.Context, github GitHub, runner *v1alpha1.EphemeralRunner,
) (*actions.JITConfig, error) {
	asked := l.options.Clock.Now()
	defer func() { jitSeconds.Observe(l.options.Clock.Since(asked).Seconds()) }()
	return github.GenerateJITConfig(ctx, runner.Spec.RunnerScaleSetID, actions.JITConfigRequest{
		Name: runner.Name, WorkFolder: workFolder(&runner.Spec.PodSpec),
	})
}

// workFolder returns the runner's work folder: its container's working directory, empty if the user gave none.
func workFolder(spec *corev1.PodSpec) string {
	if container := kube.Container(spec, v1alpha1.RunnerContainerName); container != nil {
		return container.WorkingDir
	}
	return ""
}

// start makes a call on behalf of the runner's scale set, with the same log values that controller-runtime and the
// controller give to a pass.
func start[R any](
	l *Launcher, last *pool.Last[R], runner *v1alpha1.EphemeralRunner, call func(context.Context) (R, error),
) {
	set := kube.ScaleSetOf(runner)
	last.Go(l.options.Pool, l.options.Clock, set.String(), func(ctx context.Context) (R, error) {
		values := append(LogValues(runner), "namespace", runner.Namespace, "name", runner.Name)
		return call(kube.WithScaleSetLogger(ctx, set, values...))
	}, func() { l.options.Wake(client.ObjectKeyFromObject(runner)) })
}

// Memory is the part of a runner's memory that is shared with its calls in the pool. A call under way keeps it even
// if the runner is forgotten in the meantime. The zero value is that of a new runner. Safe for concurrent use.
type Memory struct {
	abandoned          atomic.Bool // no Secret or Pod may follow a registration that is under way
	asked              atomic.Bool // this manager has asked GitHub for a registration
	askedSinceLastPass atomic.Bool // so the registration known before is void

	launch  pool.Last[int] // its result is the id of the registration that it has brought, 0 if none
	removal pool.Last[struct{}]

	mu       sync.Mutex
	secret   types.UID     // UID of the Secret that is known to be the runner's, empty if none is
	unstored *registration // registration for which no Secret could be created, nil if there is none
}

// Abandon remembers that nothing more must be created for the runner: it is being deleted, or gone.
func (m *Memory) Abandon() { m.abandoned.Store(true) }

// Resume takes Abandon back: the runner was not deleted after all.
func (m *Memory) Resume() { m.abandoned.Store(false) }

// WasAsked reports whether GitHub may have a registration that this manager has asked for, whatever the answer.
func (m *Memory) WasAsked() bool { return m.asked.Load() }

// TakeAsked reports, a single time, that GitHub was asked for a registration since the last pass.
func (m *Memory) TakeAsked() bool { return m.askedSinceLastPass.Swap(false) }

// Launched returns the progress of the last launch, and the id of the registration that it has brought, 0 if none.
func (m *Memory) Launched() (progress rules.Progress, runnerID int) {
	call, known := m.launch.Get()
	return progressOf(call, known), call.Result
}

// Removal returns the progress of the last removal of the registration.
func (m *Memory) Removal() rules.Progress { return progressOf(m.removal.Get()) }

// ForgetCalls forgets the last launch and the last removal: they belong to an attempt that has ended.
func (m *Memory) ForgetCalls() {
	m.launch.Forget()
	m.removal.Forget()
}

// progressOf returns the state of a call in the pool; known says whether there was one.
func progressOf[R any](call pool.Call[R], known bool) rules.Progress {
	p := rules.Progress{Known: known, Running: call.Running(), FinishedAt: call.Finished}
	if call.Err == nil || p.Running {
		return p
	}
	if !errors.As(call.Err, &p.Failure) {
		p.Failure = &rules.Failure{Reason: "CallFailed", Message: call.Err.Error()}
	}
	longest := rules.LongestRetryBackoff
	if p.Failure.Kind == rules.Away {
		longest = rules.LongestAwayBackoff
	}
	p.RetryAt = call.Finished.Add(reconcile.Backoff(rules.FirstRetryBackoff, longest, call.Failures))
	if p.Busy() {
		p.RetryAt = call.Finished.Add(rules.BusyRetryBackoff)
	}
	p.RetryAt = kube.LaterOf(p.RetryAt, p.Failure.AllowedAt)
	return p
}

// errAbandoned ends the launch of a runner that is being deleted. Only its finalization reads it.
var errAbandoned = &rules.Failure{Kind: rules.Closed, Reason: "Deleted", Message: "the runner is being deleted"}

// errNamespaceClosed ends the attempts in a namespace that is being deleted: nothing can be created in it any more.
var errNamespaceClosed = &rules.Failure{
	Kind:    rules.Closed,
	Reason:  "NamespaceTerminating",
	Message: "the namespace is being deleted",
}

// LogValues returns the log values of a runner's job, nil if it has no job.
func LogValues(runner *v1alpha1.EphemeralRunner) []any {
	if !runner.Status.HadJob() {
		return nil
	}
	return []any{"jobID", JobID(&runner.Status)}
}

// JobID returns GitHub's id of the job, or the number of its request if the server sends no id.
func JobID(status *v1alpha1.EphemeralRunnerStatus) string {
	if status.JobID == "" && status.JobRequestID != 0 {
		return strconv.FormatInt(status.JobRequestID, 10)
	}
	return status.JobID
}
