package manager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/harrier-ci/harrier/internal/apiaccess"
	"github.com/harrier-ci/harrier/internal/build"
	"github.com/harrier-ci/harrier/internal/crdcheck"
	"github.com/harrier-ci/harrier/internal/kube/informer"
	"github.com/harrier-ci/harrier/internal/kube/kinds"
)

const (
	// shutdownGrace lets reconciles end and the Lease be released within the 10 s that the chart gives the pod.
	shutdownGrace = 8 * time.Second
	// stopLimit ends a manager that has not ended by itself, still within those 10 s.
	stopLimit = shutdownGrace + time.Second
	// reconcileTimeout ends the context of a reconcile. None waits for GitHub; one that creates a thousand objects takes
	// some seconds.
	reconcileTimeout = time.Minute
	// setWorkers reconcile EphemeralRunnerSets, so that a burst in one scale set leaves seven for others.
	setWorkers = 8
	// garbagePercent lets the heap grow by half between collections instead of doubling. The cache of 1,000 runners is
	// about 20 MiB, so that saves 10 MiB for less than 1 ms of CPU per runner. The environment variable GOGC wins.
	garbagePercent = 50
)

// errNotStopped is the end of a manager whose caches were never filled.
var errNotStopped = fmt.Errorf("the manager has not ended within %s of being asked to, and is ended now: "+
	"most often its caches could not be filled; the lines above say what the API server answered", stopLimit)

// Run runs the manager, or the check that --check-uninstall asks for, until the context ends. The cluster is the one
// that KUBECONFIG names or the pod is in. It returns nil after an ordinary end.
func Run(ctx context.Context, options Options, log logr.Logger) error {
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
	cluster, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("find the API server: %w; use --kubeconfig FILE or set KUBECONFIG", err)
	}
	cluster = apiaccess.WithoutProxy(cluster)
	if options.CheckUninstall {
		return askBeforeUninstall(ctx, cluster, options.WatchNamespace)
	}
	return run(ctx, cluster, options, log)
}

// askBeforeUninstall makes the check of --check-uninstall on the cluster.
func askBeforeUninstall(ctx context.Context, cluster *rest.Config, namespace string) error {
	reader, err := client.New(cluster, client.Options{Scheme: kinds.Scheme(), Mapper: kinds.Mapper()})
	if err != nil {
		return fmt.Errorf("connect to the API server: %w", err)
	}
	err = checkUninstall(ctx, reader, namespace)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("the API server at %s has not answered in time: %w; see that it runs and is reached from here "+
			"(NetworkPolicy, or the server that KUBECONFIG names), then repeat", cluster.Host, err)
	}
	return err
}

// run runs the manager on the cluster.
func run(ctx context.Context, cluster *rest.Config, options Options, log logr.Logger) error {
	log.Info("Starting", "version", build.Version, "commit", build.CommitSHA, "options", options)
	cluster = clientConfig(cluster, options)
	health := newHealth(metrics.Registry)
	stop, err := health.serve(options.HealthAddress, log)
	if err != nil {
		return err
	}
	defer stop()
	crds, err := crdcheck.New(cluster)
	if err != nil {
		return err
	}
	if err := awaitCRDs(ctx, crds.Check, clock.RealClock{}, log, health.block); err != nil {
		return ignoreCanceled(err)
	}
	manager, err := newManager(cluster, options, log)
	if err != nil {
		return err
	}
	if err := addControllers(ctx, manager, options); err != nil {
		return err
	}
	health.started(manager.GetCache().WaitForCacheSync)
	return runUntilStopped(ctx, manager.Start)
}

// runUntilStopped runs start until it returns, or for stopLimit after the context has ended. While caches can't be filled,
// controller-runtime's Start does not heed its context and keeps a processor busy; nothing is led then, so nothing is lost.
func runUntilStopped(ctx context.Context, start func(context.Context) error) error {
	ended := make(chan error, 1)
	go func() {
		err := start(ctx)
		if err != nil {
			err = fmt.Errorf("run the manager: %w", err)
		}
		ended <- err
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(stopLimit):
		return errNotStopped
	}
}

// clientConfig returns a copy of the configuration with our rate limits and user agent, and with what mends the answers that
// caches could not decode.
func clientConfig(cluster *rest.Config, options Options) *rest.Config {
	cluster = rest.CopyConfig(cluster)
	cluster.QPS, cluster.Burst = float32(options.QPS), options.Burst
	cluster.UserAgent = "harrier-manager/" + build.Version
	cluster.Wrap(informer.MendAnswers) // of the caches: see newInformer
	return cluster
}

func newManager(cluster *rest.Config, options Options, log logr.Logger) (ctrl.Manager, error) {
	manager, err := ctrl.NewManager(cluster, managerOptions(cluster, options, log))
	if err != nil {
		return nil, fmt.Errorf("set up the manager: %w", err)
	}
	return manager, nil
}

func managerOptions(cluster *rest.Config, options Options, log logr.Logger) ctrl.Options {
	return ctrl.Options{
		Scheme:         kinds.Scheme(),
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return kinds.Mapper(), nil },
		Logger:         log,
		Cache:          options.cacheOptions(),
		NewCache:       newCache,
		Client:         clientOptions(),

		LeaderElection:          options.LeaderElection,
		LeaderElectionID:        options.LeaderElectionID,
		LeaderElectionNamespace: options.Namespace,
		LeaderElectionConfig:    apart(cluster),
		LeaseDuration:           new(leaseDuration),
		RenewDeadline:           new(leaseRenewDeadline),
		RetryPeriod:             new(leaseRetryPeriod),
		// The process ends right after, so the next leader needn't wait for the Lease to run out.
		LeaderElectionReleaseOnCancel: true,

		Metrics:                 options.metricsServer(),
		PprofBindAddress:        options.PprofAddress,
		HealthProbeBindAddress:  disabledAddress,
		GracefulShutdownTimeout: new(shutdownGrace),

		Controller: config.Controller{
			ReconciliationTimeout: reconcileTimeout,
			// A manager that stands by fills its caches: see fillCaches. Controllers begin when it leads, and are told what is
			// there. One begun before would queue, without anybody to work on it, every runner that ever lived meanwhile.
			EnableWarmup: new(false),
			// Names are constants of different packages. Tests run several managers in one process.
			SkipNameValidation: new(true),
		},
	}
}

func ignoreCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
