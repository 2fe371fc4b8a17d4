package manager

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/rest"
	"github.com/harrier-ci/harrier/internal/build"
	"github.com/harrier-ci/harrier/internal/controller/autoscalinglistener"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/children"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/runnerversions"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/scaleset"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/launch"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/bystanders"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/feedback"
	"github.com/harrier-ci/harrier/internal/kube/informer"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/pool"
	"github.com/harrier-ci/harrier/internal/registrations"
	"github.com/harrier-ci/harrier/internal/wallclock"
)

// dependencies are shared by the controllers.
type dependencies struct {
	mgr     ctrl.Manager
	options Options
	// client refuses objects that can't be decoded.
	client   client.Client
	pool     *pool.Pool
	verdicts *registrations.Verdicts
	budget   *feedback.Budget
	provider *credentials.Provider
	clients  githubClients
	clock    wallclock.Clock
	// recorder is shared, so that its limits apply to all controllers together.
	recorder events.EventRecorder
	// otherPods watches the pods of a namespace that are no scale set's.
	otherPods bystanders.Source
}

// newDependencies makes what the controllers share. The manager doesn't run the pool yet.
func newDependencies(mgr ctrl.Manager, options Options, github http.RoundTripper) (dependencies, error) {
	d := dependencies{mgr: mgr, options: options, client: informer.RefuseUnreadable(mgr.GetClient())}
	d.clock = wallclock.System()
	d.recorder = report.LimitEvents(mgr.GetEventRecorder(report.RecorderName), d.clock)
	d.pool, d.verdicts = pool.New(pool.Limit, d.clock), registrations.NewVerdicts(d.clock)
	d.budget = &feedback.Budget{}
	var err error
	if d.provider, err = newProvider(mgr, options, github, d.clock); err != nil {
		return dependencies{}, err
	}
	if d.otherPods, err = podsOf(mgr.GetConfig(), mgr.GetScheme()); err != nil {
		return dependencies{}, err
	}
	d.clients = githubClients{provider: d.provider, listeners: d.client, namespace: options.Namespace}
	return d, nil
}

// addControllers adds the four controllers, the pool that runs their calls to GitHub, and the caches that all of them
// read. A manager that is restricted to a namespace gets a fifth controller. A nil github is the network.
func addControllers(ctx context.Context, mgr ctrl.Manager, options Options, github http.RoundTripper) error {
	if err := fillCaches(ctx, mgr.GetCache()); err != nil {
		return err
	}
	d, err := newDependencies(mgr, options, github)
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
		{"EphemeralRunner", d.ephemeralRunner(sets)},
	} {
		if err := c.controller.SetupWithManager(mgr); err != nil {
			return fmt.Errorf("set up the controller of %s: %w", c.name, err)
		}
	}
	if err := d.addNodes(ctx, sets); err != nil {
		return err
	}
	return d.addWatchedNamespace(ctx)
}

func (d dependencies) autoscalingRunnerSet() *autoscalingrunnerset.Controller {
	return autoscalingrunnerset.NewController(autoscalingrunnerset.Options{
		Options: children.Options{
			Client:                   d.client,
			Reader:                   d.mgr.GetAPIReader(),
			Recorder:                 d.recorder,
			Namespace:                d.options.Namespace,
			ListenerImage:            d.options.Image,
			ListenerImagePullSecrets: d.options.ListenerPullSecrets,
			ListenerPolicy:           d.options.listenerPolicy(),
			ExcludedLabelPrefixes:    d.options.ExcludedLabelPrefixes,
		},
		Connections:            scaleset.ConnectionsOf(d.provider),
		Versions:               runnerversions.Options{REST: d.rest, Budget: d.budget},
		Forget:                 d.provider.Forget,
		Pool:                   d.pool,
		Clock:                  d.clock,
		Version:                build.Version,
		StripForeignFinalizers: d.options.StripForeignFinalizers,
		MaxRunnersPerSet:       d.options.MaxRunnersPerSet,
		Watches: func(namespace string) bool {
			return d.options.WatchNamespace == "" || namespace == d.options.WatchNamespace
		},
		RunnerPod: func(set *v1alpha1.AutoscalingRunnerSet, runnerSet *v1alpha1.EphemeralRunnerSet) *corev1.Pod {
			return launch.SamplePod(ephemeralrunnerset.SampleRunner(set, runnerSet), build.Version)
		},
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

// listenerLogging returns the level and format for listeners, which have fewer levels than the manager.
func (o Options) listenerLogging() (level, format string) {
	if _, err := strconv.Atoi(o.LogLevel); err == nil {
		return levelDebug, formatText
	}
	return o.LogLevel, o.LogFormat
}

// rest returns a client of the REST API with a scale set's credentials.
func (d dependencies) rest(ctx context.Context, reference credentials.Reference) (*rest.Client, error) {
	github, err := d.clients.clientFor(ctx, reference)
	if err != nil {
		return nil, err
	}
	return rest.New(github), nil
}

func (d dependencies) ephemeralRunnerSet() *ephemeralrunnerset.Controller {
	return ephemeralrunnerset.NewController(ephemeralrunnerset.Options{
		Client: d.client,
		Reader: d.mgr.GetAPIReader(),
		GitHub: func(ctx context.Context, reference credentials.Reference) (ephemeralrunnerset.GitHub, error) {
			return d.clients.clientFor(ctx, reference)
		},
		REST:             d.rest,
		Budget:           d.budget,
		Proxy:            d.provider.ProxyData,
		Pool:             d.pool,
		Verdicts:         d.verdicts,
		Recorder:         d.recorder,
		Clock:            d.clock,
		Workers:          setWorkers,
		MaxRunnersPerSet: d.options.MaxRunnersPerSet,
		PublishMetrics:   serves(d.options.MetricsAddress),
		WatchNodes:       d.options.watchesNodes(),
		OtherPods:        d.otherPods,
	})
}

func (d dependencies) ephemeralRunner(sets *ephemeralrunnerset.Controller) *ephemeralrunner.Controller {
	return ephemeralrunner.NewController(ephemeralrunner.Options{
		Client: d.client,
		Reader: d.mgr.GetAPIReader(),
		GitHub: func(ctx context.Context, reference credentials.Reference) (ephemeralrunner.GitHub, error) {
			return d.clients.clientFor(ctx, reference)
		},
		Pool:     d.pool,
		Verdicts: d.verdicts,
		Recorder: d.recorder,
		Clock:    d.clock,
		Workers:  max(d.options.RunnerWorkers, defaultRunnerWorkers),
		Version:  build.Version,

		Gate:          sets,
		Nodes:         sets,
		JobMetadata:   d.options.JobPodMetadata,
		JobProtection: d.options.JobPodProtection,
	})
}
