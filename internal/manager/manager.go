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
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/harrier-ci/harrier/internal/apiaccess"
	"github.com/harrier-ci/harrier/internal/build"
	"github.com/harrier-ci/harrier/internal/crdcheck"
	"github.com/harrier-ci/harrier/internal/kube/informer"
	"github.com/harrier-ci/harrier/internal/kube/kinds"
)

const (
	// shutdownGrace is the time to finish reconciles and release the Lease, within the 10 s that the chart gives the pod.
	shutdownGrace = 8 * time.Second
	// stopLimit terminates a manager that has not stopped by itself, still within those 10 s.
	stopLimit = shutdownGrace + time.Second
	// reconcileTimeout ends the context of a reconcile. No reconcile waits for GitHub; creating a thousand objects takes a few
	// seconds.
	reconcileTimeout = time.Minute
	// setWorkers is how many EphemeralRunnerSets are reconciled at once: a burst in one scale set leaves seven workers for others.
	setWorkers = 8
	// garbagePercent lets the heap grow by half between collections instead of doubling. The cache of 1,000 runners is
	// about 20 MiB, so this saves 10 MiB for less than 1 ms of CPU per runner. The environment variable GOGC takes precedence.
	garbagePercent = 50
)

// errNotStopped is returned for a manager that ignores the end of its context.
var errNotStopped = fmt.Errorf("the manager did not stop within %s of being asked to and is terminated: "+
	"most often its caches could not be filled; the lines above say what the API server answered", stopLimit)

// Run runs the manager until the context ends, or the check that --check-uninstall asks for. The cluster is the one that
// KUBECONFIG names, or the one that the pod is in. Run returns nil after an orderly stop.
func Run(ctx context.Context, options Options, log logr.Logger) error {
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("find the API server: %w; use --kubeconfig FILE or set KUBECONFIG", err)
	}
	config = apiaccess.WithoutProxy(config)
	if options.CheckUninstall {
		return askBeforeUninstall(ctx, config, options.WatchNamespace)
	}
	return run(ctx, config, options, log)
}

// askBeforeUninstall runs the check of --check-uninstall against the cluster.
func askBeforeUninstall(ctx context.Context, config *rest.Config, namespace string) error {
	reader, err := client.New(config, client.Options{Scheme: kinds.Scheme(), Mapper: kinds.Mapper()})
	if err != nil {
		return fmt.Errorf("connect to the API server: %w", err)
	}
	err = checkUninstall(ctx, reader, namespace)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("the API server at %s did not answer in time: %w; check that it runs and can be reached from here "+
			"(NetworkPolicy, or the server that KUBECONFIG names), then try again", config.Host, err)
	}
	return err
}

// run runs the manager on the cluster.
func run(ctx context.Context, config *rest.Config, options Options, log logr.Logger) error {
	log.Info("Starting", "version", build.Version, "commit", build.CommitSHA, "options", options)
	config = clientConfig(config, options)
	health := newHealth(metrics.Registry)
	stop, err := health.serve(options.HealthAddress, log)
	if err != nil {
		return err
	}
	defer stop()
	crds, err := crdcheck.New(config)
	if err != nil {
		return err
	}
	if err := awaitCRDs(ctx, crds.Check, clock.RealClock{}, log, health.block); err != nil {
		return ignoreCanceled(err)
	}
	lease, err := leaseOf(options, config)
	if err != nil {
		return err
	}
	leader := newLeadership(lease, clock.RealClock{})
	mgr, err := newManager(config, options, leader, log)
	if err != nil {
		return err
	}
	if err := addControllers(ctx, mgr, options); err != nil {
		return err
	}
	health.started(mgr.GetCache().WaitForCacheSync)
	return runUntilStopped(ctx, leader.lost, mgr.Start)
}

// runUntilStopped calls start and waits until it returns, but no longer than stopLimit after the context has ended. While caches
// can't be filled, controller-runtime's Start ignores its context and keeps a CPU busy. Such a manager leads nothing yet, so
// nothing is lost. A manager that has lost its Lease isn't waited for: its grace would overlap with the next one's work. That ends
// its calls to GitHub, too.
func runUntilStopped(ctx context.Context, lost <-chan struct{}, start func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
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
	case <-lost:
		return errLeaseLost
	case <-ctx.Done():
	}
	select {
	case err := <-ended:
		return err
	case <-lost:
		return errLeaseLost
	case <-time.After(stopLimit):
		return errNotStopped
	}
}

// clientConfig returns a copy of the configuration with our rate limits and user agent, and with the transport that repairs
// answers that caches could not decode.
func clientConfig(config *rest.Config, options Options) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = float32(options.QPS), options.Burst
	config.UserAgent = "harrier-manager/" + build.Version
	config.Wrap(informer.MendAnswers) // for the caches: see newInformer
	return config
}

// newManager returns a manager that changes the cluster only while it leads.
func newManager(config *rest.Config, options Options, leader *leadership, log logr.Logger) (ctrl.Manager, error) {
	config = rest.CopyConfig(config)
	config.Wrap(leader.fence)
	mgr, err := ctrl.NewManager(config, managerOptions(options, leader, log))
	if err != nil {
		return nil, fmt.Errorf("set up the manager: %w", err)
	}
	return mgr, nil
}

func managerOptions(options Options, lock resourcelock.Interface, log logr.Logger) ctrl.Options {
	return ctrl.Options{
		Scheme:         kinds.Scheme(),
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return kinds.Mapper(), nil },
		Logger:         log,
		Cache:          options.cacheOptions(),
		NewCache:       newCache,
		Client:         clientOptions(),

		// A single replica takes part, too: `kubectl scale`, or a node that is cut off, makes it two at any time.
		LeaderElection:                      true,
		LeaderElectionID:                    options.LeaderElectionID,
		LeaderElectionResourceLockInterface: lock,
		LeaseDuration:                       new(leaseDuration),
		RenewDeadline:                       new(leaseRenewDeadline),
		RetryPeriod:                         new(leaseRetryPeriod),
		// The process ends right after that, so the next leader needn't wait for the Lease to expire.
		LeaderElectionReleaseOnCancel: true,

		Metrics:                 options.metricsServer(),
		PprofBindAddress:        options.PprofAddress,
		HealthProbeBindAddress:  disabledAddress,
		GracefulShutdownTimeout: new(shutdownGrace),

		Controller: ctrlconfig.Controller{
			ReconciliationTimeout: reconcileTimeout,
			// A standby fills its caches (see fillCaches), but its controllers start only when it leads, and then get all objects
			// that exist. Started earlier, they would queue every runner that ever existed in the meantime, with no worker running.
			EnableWarmup: new(false),
			// The names are constants in different packages. Only tests reuse them: they run several managers in one process.
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
