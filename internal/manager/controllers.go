package manager

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/addresses"
	"github.com/harrier-ci/harrier/internal/build"
	"github.com/harrier-ci/harrier/internal/controller/autoscalinglistener"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset"
	"github.com/harrier-ci/harrier/internal/controller/watchednamespace"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube/informer"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/pool"
	"github.com/harrier-ci/harrier/internal/removals"
	"github.com/harrier-ci/harrier/internal/wallclock"
)

// recorderName is the reporting controller of Events.
const recorderName = "gha-runner-scale-set-controller"

// dependencies are what the controllers share.
type dependencies struct {
	mgr     ctrl.Manager
	options Options
	// client refuses objects that can't be decoded.
	client   client.Client
	pool     *pool.Pool
	removed  *removals.Memory
	provider *credentials.Provider
	clients  githubClients
	clock    wallclock.Clock
	// recorder is shared, so that its limits apply to all controllers together.
	recorder events.EventRecorder
}

// newDependencies makes what the controllers share. The manager doesn't run the pool yet.
func newDependencies(mgr ctrl.Manager, options Options) (dependencies, error) {
	d := dependencies{mgr: mgr, options: options, client: informer.RefuseUnreadable(mgr.GetClient())}
	d.clock = wallclock.System()
	d.recorder = report.LimitEvents(mgr.GetEventRecorder(recorderName), d.clock)
	d.pool, d.removed = pool.New(pool.Limit, d.clock), removals.New(d.clock)
	policy, err := addresses.New(options.AllowedGitHubURLs)
	if err != nil {
		return dependencies{}, fmt.Errorf("--%s: %w", addresses.Flag, err)
	}
	d.provider = credentials.New(mgr.GetAPIReader(), credentials.Options{
		Clock: d.clock, Logger: mgr.GetLogger().WithName("github"), UserAgent: userAgent(),
		Addresses: policy, Budget: actions.NewBudget(answersBudget, answersShare),
		OnRequest: observeGitHub, OnUnused: forgetGitHub,
		Vaults: options.Vaults, VaultCertificateDirectory: options.VaultCertificateDirectory,
	})
	d.clients = githubClients{provider: d.provider, listeners: d.client, namespace: options.Namespace}
	return d, nil
}

// addControllers adds the four controllers, the pool that runs their calls to GitHub, and the caches that all of them read. A
// manager that is restricted to a namespace gets a fifth controller.
func addControllers(ctx context.Context, mgr ctrl.Manager, options Options) error {
	if err := fillCaches(ctx, mgr.GetCache()); err != nil {
		return err
	}
	d, err := newDependencies(mgr, options)
	if err != nil {
		return err
	}
	if err := mgr.Add(d.pool); err != nil {
		return fmt.Errorf("add the pool of calls to GitHub: %w", err)
	}
	sets := d.ephemeralRunnerSet()
	for _, c := range []struct {
		name       string
		controller interface{ SetupWithManager(ctrl.Manager) error }
	}{
		{"AutoscalingRunnerSet", d.autoscalingRunnerSet()},
		{"AutoscalingListener", d.autoscalingListener()},
		{"EphemeralRunnerSet", sets},
		{"EphemeralRunner", d.ephemeralRunner()},
	} {
		if err := c.controller.SetupWithManager(mgr); err != nil {
			return fmt.Errorf("set up the controller of %s: %w", c.name, err)
		}
	}
	if err := d.addNodes(ctx, sets.NodeEvents()); err != nil {
		return err
	}
	return d.addWatchedNamespace(ctx)
}

// addNodes has the handler told about nodes.
func (d dependencies) addNodes(ctx context.Context, handler toolscache.ResourceEventHandler) error {
	if !d.options.watchesNodes() {
		return nil
	}
	options := nodeCacheOptions(d.mgr.GetLogger().WithName("nodes"))
	options.Scheme, options.Mapper = d.mgr.GetScheme(), d.mgr.GetRESTMapper()
	watched, err := newCache(d.mgr.GetConfig(), options)
	if err != nil {
		return fmt.Errorf("set up the cache of nodes: %w", err)
	}
	if err := d.mgr.Add(watched); err != nil {
		return fmt.Errorf("add the cache of nodes: %w", err)
	}
	informer, err := watched.GetInformer(ctx, &corev1.Node{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	if _, err := informer.AddEventHandler(handler); err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	return nil
}

// addWatchedNamespace makes a manager that is restricted to a namespace keep its permissions there until the last scale set is
// gone. If that is the manager's own namespace it does nothing: deleting that one deletes the manager too.
func (d dependencies) addWatchedNamespace(ctx context.Context) error {
	if d.options.WatchNamespace == "" || d.options.WatchNamespace == d.options.Namespace {
		return nil
	}
	options := d.options.bindingCacheOptions()
	options.Scheme, options.Mapper = d.mgr.GetScheme(), d.mgr.GetRESTMapper()
	bindings, err := newCache(d.mgr.GetConfig(), options)
	if err != nil {
		return fmt.Errorf("set up the cache of the manager's own RoleBinding: %w", err)
	}
	if err := d.mgr.Add(bindings); err != nil {
		return fmt.Errorf("add the cache of the manager's own RoleBinding: %w", err)
	}
	if _, err := bindings.GetInformer(ctx, &rbacv1.RoleBinding{}, cache.BlockUntilSynced(false)); err != nil {
		return fmt.Errorf("watch the manager's own RoleBinding: %w", err)
	}
	err = watchednamespace.NewController(watchednamespace.Options{
		Client: d.client, Bindings: bindings, Namespace: d.options.WatchNamespace,
	}).SetupWithManager(d.mgr)
	if err != nil {
		return fmt.Errorf("set up the controller of the watched namespace: %w", err)
	}
	return nil
}

// fillCaches requests informers for all kinds that controllers watch. A manager is ready only once they are filled, and a
// standby has them filled, too, so it can act as soon as it leads.
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

func (d dependencies) autoscalingRunnerSet() *autoscalingrunnerset.Controller {
	return autoscalingrunnerset.NewController(autoscalingrunnerset.Options{
		Client:                   d.client,
		Reader:                   d.mgr.GetAPIReader(),
		Connections:              autoscalingrunnerset.ConnectionsOf(d.provider),
		Pool:                     d.pool,
		Recorder:                 d.recorder,
		Clock:                    d.clock,
		Namespace:                d.options.Namespace,
		ListenerImage:            d.options.Image,
		ListenerImagePullSecrets: d.options.ListenerPullSecrets,
		ListenerPolicy:           d.options.listenerPolicy(),
		ExcludedLabelPrefixes:    d.options.ExcludedLabelPrefixes,
		Version:                  build.Version,
		StripForeignFinalizers:   d.options.StripForeignFinalizers,
		MaxRunnersPerSet:         d.options.MaxRunnersPerSet,
	})
}

func (d dependencies) autoscalingListener() *autoscalinglistener.Controller {
	level, format := d.options.listenerLogging()
	options := autoscalinglistener.Options{
		Client:          d.client,
		Reader:          d.mgr.GetAPIReader(),
		Credentials:     d.provider,
		Recorder:        d.recorder,
		Clock:           d.clock,
		Namespace:       d.options.Namespace,
		Policy:          d.options.listenerPolicy(),
		WatchNamespace:  d.options.WatchNamespace,
		LogLevel:        level,
		LogFormat:       format,
		MetricsAddr:     d.options.ListenerMetricsAddress,
		MetricsEndpoint: d.options.ListenerMetricsEndpoint,
		MetricsLabels:   d.options.ListenerMetricsLabels,

		AllowedGitHubURLs: d.options.AllowedGitHubURLs,
	}
	if d.options.ListenerEntrypoint != "" {
		options.Entrypoint = []string{d.options.ListenerEntrypoint}
	}
	return autoscalinglistener.NewController(options)
}

func (d dependencies) ephemeralRunnerSet() *ephemeralrunnerset.Controller {
	return ephemeralrunnerset.NewController(ephemeralrunnerset.Options{
		Client: d.client,
		Reader: d.mgr.GetAPIReader(),
		GitHub: func(ctx context.Context, reference credentials.Reference) (ephemeralrunnerset.GitHub, error) {
			return d.clients.client(ctx, reference)
		},
		Proxy:            d.clients.proxy,
		Pool:             d.pool,
		Removed:          d.removed,
		Recorder:         d.recorder,
		Clock:            d.clock,
		Workers:          setWorkers,
		MaxRunnersPerSet: d.options.MaxRunnersPerSet,
		PublishMetrics:   serves(d.options.MetricsAddress),
		WatchNodes:       d.options.watchesNodes(),
	})
}

func (d dependencies) ephemeralRunner() *ephemeralrunner.Controller {
	return ephemeralrunner.NewController(ephemeralrunner.Options{
		Client: d.client,
		Reader: d.mgr.GetAPIReader(),
		GitHub: func(ctx context.Context, reference credentials.Reference) (ephemeralrunner.GitHub, error) {
			return d.clients.client(ctx, reference)
		},
		Pool:     d.pool,
		Removed:  d.removed,
		Recorder: d.recorder,
		Clock:    d.clock,
		Workers:  max(d.options.RunnerWorkers, defaultRunnerWorkers),
		Version:  build.Version,

		JobMetadata:   d.options.JobPodMetadata,
		JobProtection: d.options.JobPodProtection,
	})
}
