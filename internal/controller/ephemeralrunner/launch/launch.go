// Package launch registers a runner, and creates its Secret and its pod, in the pool. It alone knows JIT configs, whose a Secret is, and
// what is in a runner's pod.
//
// A JIT config is good for one start of the runner container, so one whose container may have started is never given to a second pod.
// Nothing is created for a runner after its Memory is told to Abandon it.
package launch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/calls"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/pool"
)

// writeTimeout bounds a request to the API server that is sent from the pool.
const writeTimeout = 30 * time.Second

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
	// Client writes to the API server, and reads Secrets from it. Reader reads pods from it: a stale cache would cost a job.
	Client client.Client
	Reader client.Reader
	// GitHub returns the client for a scale set's credentials.
	GitHub func(context.Context, credentials.Reference) (calls.GitHub, error)
	Pool   *pool.Pool
	Clock  clock.PassiveClock
	// Version is the manager's. Every runner sends it to GitHub as part of its user agent.
	Version string
	// Wake is called at the end of each launch.
	Wake func(calls.Key)
	// Created is called with each pod that was created. What it does must not fail the launch.
	Created func(context.Context, *corev1.Pod)
}

// Launcher starts launches and knows how far they are. Safe for concurrent use.
type Launcher struct {
	options  Options
	launches *pool.Calls[calls.Key, int]
}

// New returns a Launcher.
func New(options Options) *Launcher {
	return &Launcher{options: options, launches: pool.NewCalls[calls.Key, int](options.Pool, options.Clock, options.Wake)}
}

// Start registers the runner and creates its Secret and pod, in the pool; it does nothing while that is under way. reuse is the id of a
// registration whose JIT config is unused, 0 if none is known: it is taken from the Secret if it is there. The runner must not change.
func (l *Launcher) Start(runner *v1alpha1.EphemeralRunner, reuse int, memory *Memory) {
	l.launches.Go(calls.GroupOf(runner), calls.KeyOf(runner), func(ctx context.Context) (int, error) {
		if memory.abandoned.Load() {
			return 0, errAbandoned
		}
		ctx = calls.WithLogger(ctx, runner)
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
		if memory.abandoned.Load() {
			return registered.id, errAbandoned
		}
		return registered.id, l.createPod(ctx, runner, registered.id)
	})
}

// Last returns how far the runner's last launch is, and the id of the registration that it has brought, 0 if none.
func (l *Launcher) Last(key calls.Key) (progress calls.Progress, runnerID int) {
	call, known := l.launches.Last(key)
	return calls.ProgressOf(call, known), call.Result
}

// Forget forgets the runner's last launch.
func (l *Launcher) Forget(key calls.Key) { l.launches.Forget(key) }

// Memory is the part of a runner's memory that is shared with its calls in the pool. A call under way keeps it even
// if the runner is forgotten in the meantime. The zero value is that of a new runner. Safe for concurrent use.
type Memory struct {
	abandoned          atomic.Bool // no Secret or Pod may follow a registration that is under way
	asked              atomic.Bool // this manager has asked GitHub for a registration
	askedSinceLastPass atomic.Bool // so the registration known before is void

	mu       sync.Mutex
	secret   types.UID     // UID of the Secret that is known to be the runner's, empty if none is
	unstored *registration // registration for which no Secret could be created, nil if there is none
}

// Abandon notes that nothing more must be created for the runner: it is being deleted, or gone.
func (m *Memory) Abandon() { m.abandoned.Store(true) }

// Resume takes Abandon back: the runner was not deleted after all.
func (m *Memory) Resume() { m.abandoned.Store(false) }

// WasAsked reports whether GitHub may have a registration that this manager has asked for, whatever the answer.
func (m *Memory) WasAsked() bool { return m.asked.Load() }

// TakeAsked reports, once, that GitHub was asked for a registration since the last pass.
func (m *Memory) TakeAsked() bool { return m.askedSinceLastPass.Swap(false) }

// errAbandoned ends the launch of a runner that is being deleted. Only its finalization reads it.
var errAbandoned = &calls.Failure{Kind: calls.Closed, Reason: "Deleted", Message: "the runner is being deleted"}

// errNamespaceClosed ends the attempts in a namespace that is being deleted: nothing can be created there any more.
var errNamespaceClosed = &calls.Failure{Kind: calls.Closed, Reason: "NamespaceTerminating", Message: "the namespace is being deleted"}

// registration is a runner's id on GitHub and its JIT config.
type registration struct {
	id     int
	config string
	stored bool // the Secret has it already
}

// register returns a registration whose JIT config was never used, or the registration that the runner's pod already uses.
func (l *Launcher) register(ctx context.Context, memory *Memory, runner *v1alpha1.EphemeralRunner, reuse int) (*registration, error) {
	if reuse != 0 {
		if unused, err := l.unusedRegistration(ctx, memory, runner, reuse); err != nil || unused != nil {
			return unused, err
		}
	}
	github, err := l.options.GitHub(ctx, credentials.ForEphemeralRunner(runner))
	if err != nil {
		return nil, calls.NotRegistered(err)
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
		return nil, calls.NotRegistered(err)
	}
	return &registration{id: config.Runner.ID, config: config.EncodedJITConfig}, nil
}

// generate asks GitHub for a registration, and measures how long the answer takes.
func (l *Launcher) generate(ctx context.Context, github calls.GitHub, runner *v1alpha1.EphemeralRunner) (*actions.JITConfig, error) {
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

// resolveConflict frees a name that is taken, or returns the registration that the runner's pod uses. Usually the runner
// itself has the name: the answer to an earlier call was lost, or the manager was restarted. Its Secret may exist, but only
// GitHub can tell whether a container has started with it. If GitHub agrees to remove the registration, it has no job; if
// GitHub refuses, its job has lost the pod.
func (l *Launcher) resolveConflict(ctx context.Context, github calls.GitHub, runner *v1alpha1.EphemeralRunner, taken error) (*registration, error) {
	holder, err := github.GetRunnerByName(ctx, runner.Name)
	switch {
	case errors.Is(err, actions.ErrRunnerNotFound):
		return nil, &calls.Failure{Reason: v1alpha1.ReasonRunnerNameTaken, Message: fmt.Sprintf(
			"%v, yet GitHub finds no runner named %s: trying again", taken, runner.Name)}
	case err != nil:
		return nil, calls.NotRegistered(err)
	case holder.RunnerScaleSetID != runner.Spec.RunnerScaleSetID:
		return nil, &calls.Failure{Kind: calls.NameTaken, Reason: v1alpha1.ReasonRunnerNameTaken, Message: fmt.Sprintf(
			"runner %s exists on GitHub in scale set %d: another runner takes this one's place", runner.Name, holder.RunnerScaleSetID)}
	}
	if used, err := l.usedRegistration(ctx, runner, holder.ID); err != nil || used != nil {
		return used, err
	}
	err = github.RemoveRunner(ctx, holder.ID)
	if errors.Is(err, actions.ErrRunnerNotFound) {
		return nil, nil // no pod could have a job; asking for a registration shows whether the name is free
	}
	return nil, calls.NotRemoved(err)
}

// usedRegistration returns the registration with that id if the runner's pod was created with it, otherwise nil. It asks the
// API server: a stale cache does not show a pod that another manager created just before it stopped, and that pod may have a
// job by now.
func (l *Launcher) usedRegistration(ctx context.Context, runner *v1alpha1.EphemeralRunner, id int) (*registration, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	pod, err := OwnPod(ctx, l.options.Reader, runner)
	switch {
	case err != nil:
		return nil, podUnreadable(runner, err)
	case pod == nil || pod.DeletionTimestamp != nil || RunnerIDOf(pod, id) != id:
		return nil, nil
	default:
		return &registration{id: id, stored: true}, nil
	}
}
