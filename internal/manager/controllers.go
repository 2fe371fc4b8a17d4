package manager

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/build"
	"github.com/harrier-ci/harrier/internal/controller/autoscalinglistener"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset"
	"github.com/harrier-ci/harrier/internal/controller/watchednamespace"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/pool"
	"github.com/harrier-ci/harrier/internal/removals"
)

// recorderName is the reporting controller of Events.
const recorderName = "gha-runner-scale-set-controller"

// parts are what the controllers share.
type parts struct {
	manager     ctrl.Manager
	options     Options
	pool        *pool.Pool
	removed     *removals.Memory
	provider    *credentials.Provider
	connections connections
	clock       clock.RealClock
	// recorder is shared, so that limits hold for all.
	recorder events.EventRecorder
}

// addControllers adds the four controllers, the pool of their slow calls, and the caches that all of them stand on. A manager
// that is restricted to a namespace gets a fifth.
func addControllers(ctx context.Context, manager ctrl.Manager, options Options) error {
	if err := fillCaches(ctx, manager.GetCache()); err != nil {
		return err
	}
	p := parts{manager: careful{manager}, options: options}
	p.recorder = kube.LimitEvents(manager.GetEventRecorder(recorderName), p.clock)
	p.pool, p.removed = pool.New(pool.Limit, p.clock), removals.New(p.clock)
	if err := manager.Add(p.pool); err != nil {
		return fmt.Errorf("add the pool of calls to GitHub: %w", err)
	}
	p.provider = credentials.New(manager.GetAPIReader(), credentials.Options{
		Clock: p.clock, Logger: manager.GetLogger().WithName("github"), UserAgent: userAgent(),
		OnRequest: observeGitHub, OnUnused: forgetGitHub,
	})
	p.connections = connections{provider: p.provider, listeners: manager.GetClient(), namespace: options.Namespace}
	for name, controller := range map[string]interface{ SetupWithManager(ctrl.Manager) error }{
		"AutoscalingRunnerSet": p.autoscalingRunnerSet(),
		"AutoscalingListener":  p.autoscalingListener(),
		"EphemeralRunnerSet":   p.ephemeralRunnerSet(),
		"EphemeralRunner":      p.ephemeralRunner(),
	} {
		if err := controller.SetupWithManager(manager); err != nil {
			return fmt.Errorf("set up the controller of %s: %w", name, err)
		}
	}
	return p.outliveNamespace(ctx)
}

// outliveNamespace has a manager that is restricted to a namespace keep its rights there until the last scale set is gone.
// Its own namespace takes the manager itself along.
func (p parts) outliveNamespace(ctx context.Context) error {
	if p.options.WatchNamespace == "" || p.options.WatchNamespace == p.options.Namespace {
		return nil
	}
	options := p.options.bindingCacheOptions()
	options.Scheme, options.Mapper = p.manager.GetScheme(), p.manager.GetRESTMapper()
	bindings, err := newCache(p.manager.GetConfig(), options)
	if err != nil {
		return fmt.Errorf("set up the cache of the manager's own RoleBinding: %w", err)
	}
	if err := p.manager.Add(bindings); err != nil {
		return fmt.Errorf("add the cache of the manager's own RoleBinding: %w", err)
	}
	if _, err := bindings.GetInformer(ctx, &rbacv1.RoleBinding{}, cache.BlockUntilSynced(false)); err != nil {
		return fmt.Errorf("watch the manager's own RoleBinding: %w", err)
	}
	err = watchednamespace.NewController(watchednamespace.Options{
		Client: p.manager.GetClient(), Bindings: bindings, Namespace: p.options.WatchNamespace,
	}).SetupWithManager(p.manager)
	if err != nil {
		return fmt.Errorf("set up the controller of the watched namespace: %w", err)
	}
	return nil
}

// fillCaches asks for all kinds that controllers watch, so that a manager counts as ready only with them, and has them while
// it stands by: it acts as soon as it leads.
func fillCaches(ctx context.Context, informers cache.Cache) error {
	for _, kind := range []client.Object{
		&v1alpha1.AutoscalingRunnerSet{}, &v1alpha1.AutoscalingListener{},
		&v1alpha1.EphemeralRunnerSet{}, &v1alpha1.EphemeralRunner{},
		&corev1.Pod{}, &corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{},
	} {
		if _, err := informers.GetInformer(ctx, kind, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
	}
	return nil
}

func (p parts) autoscalingRunnerSet() *autoscalingrunnerset.Controller {
	return autoscalingrunnerset.NewController(autoscalingrunnerset.Options{
		Client:                   p.manager.GetClient(),
		Connections:              autoscalingrunnerset.ConnectionsOf(p.provider),
		Pool:                     p.pool,
		Recorder:                 p.recorder,
		Clock:                    p.clock,
		Namespace:                p.options.Namespace,
		ListenerImage:            p.options.Image,
		ListenerImagePullSecrets: p.options.ListenerPullSecrets,
		ExcludedLabelPrefixes:    p.options.ExcludedLabelPrefixes,
		Version:                  build.Version,
	})
}

func (p parts) autoscalingListener() *autoscalinglistener.Controller {
	level, format := p.options.listenerLogging()
	options := autoscalinglistener.Options{
		Client:          p.manager.GetClient(),
		Reader:          p.manager.GetAPIReader(),
		Credentials:     p.provider,
		Recorder:        p.recorder,
		Clock:           p.clock,
		Namespace:       p.options.Namespace,
		LogLevel:        level,
		LogFormat:       format,
		MetricsAddr:     p.options.ListenerMetricsAddress,
		MetricsEndpoint: p.options.ListenerMetricsEndpoint,
		MetricsLabels:   p.options.ListenerMetricsLabels,
	}
	if p.options.ListenerEntrypoint != "" {
		options.Entrypoint = []string{p.options.ListenerEntrypoint}
	}
	return autoscalinglistener.NewController(options)
}

func (p parts) ephemeralRunnerSet() *ephemeralrunnerset.Controller {
	return ephemeralrunnerset.NewController(ephemeralrunnerset.Options{
		Client: p.manager.GetClient(),
		GitHub: func(ctx context.Context, reference credentials.Reference) (ephemeralrunnerset.GitHub, error) {
			return p.connections.client(ctx, reference)
		},
		Proxy:          p.connections.proxy,
		Pool:           p.pool,
		Removed:        p.removed,
		Recorder:       p.recorder,
		Clock:          p.clock,
		Workers:        setWorkers,
		PublishMetrics: serves(p.options.MetricsAddress),
	})
}

func (p parts) ephemeralRunner() *ephemeralrunner.Controller {
	return ephemeralrunner.NewController(ephemeralrunner.Options{
		Client: p.manager.GetClient(),
		Reader: p.manager.GetAPIReader(),
		GitHub: func(ctx context.Context, reference credentials.Reference) (ephemeralrunner.GitHub, error) {
			return p.connections.client(ctx, reference)
		},
		Pool:     p.pool,
		Removed:  p.removed,
		Recorder: p.recorder,
		Clock:    p.clock,
		Workers:  max(p.options.RunnerWorkers, defaultRunnerWorkers),
		Version:  build.Version,

		NoJobMetadata:   !p.options.JobPodMetadata,
		NoJobProtection: !p.options.JobPodProtection,
	})
}
