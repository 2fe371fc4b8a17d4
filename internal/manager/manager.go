// Package manager turns flags and environment variables into a running manager:
//
//	ParseOptions ─▶ Run: health server ─▶ CRDs have our fields? ─▶ cache, client, metrics ─▶ controllers
//
// Room alone says when no other revision of the manager's Deployment lives, which is when it may lead.
//
// It decides nothing about runners. It does decide what is cached and what never is, the rate of requests to the API
// server, which replica leads, and the meaning of "healthy" and "ready".
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
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/harrier-ci/harrier/internal/apiaccess"
	"github.com/harrier-ci/harrier/internal/build"
	"github.com/harrier-ci/harrier/internal/crdcheck"
	"github.com/harrier-ci/harrier/internal/kube/informer"
	"github.com/harrier-ci/harrier/internal/kube/kinds"
	"github.com/harrier-ci/harrier/internal/manager/alone"
	"github.com/harrier-ci/harrier/internal/metricsauth"
)

const (
	// shutdownGrace is the time to finish reconciles and release the Lease, within the 10 s that the chart gives the
	// pod.
	shutdownGrace = 8 * time.Second
	// stopLimit terminates a manager that has not stopped by itself, still within those 10 s.
	stopLimit = shutdownGrace + time.Second
	// reconcileTimeout ends the context of a reconcile. No reconcile waits for GitHub; creating a thousand objects
	// takes a few seconds.
	reconcileTimeout = time.Minute
	// setWorkers EphemeralRunnerSets are reconciled at the same time: a burst in one scale set leaves seven workers for
	// others.
	setWorkers = 8
	// garbagePercent lets the heap grow by half between collections instead of doubling. The cache of 1,000 runners is
	// about 20 MiB, so this saves 10 MiB for less than 1 ms of CPU per runner. The environment variable GOGC takes
	// precedence.
	garbagePercent = 50
)

// errNotStopped is returned for a manager that ignores the end of its context.
var errNotStopped = fmt.Errorf("the manager did not stop within %s of being asked to and is terminated: "+
	"most often its caches could not be filled; the lines above say what the API server answered", stopLimit)

// Run runs the manager until the context ends, or the check that --check-uninstall asks for. The cluster is the one
// that KUBECONFIG names, or the one that the pod is in. Run returns nil after an orderly stop.
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
		return fmt.Errorf("the API server at %s did not answer in time: %w; check that it runs and can be reached "+
			"from here (NetworkPolicy, or the server that KUBECONFIG names), then try again", config.Host, err)
	}
	return err
}

// run runs the manager on the cluster.
func run(ctx context.Context, config *rest.Config, options Options, log logr.Logger) error {
	log.Info("Starting", "version", build.Version, "commit", build.CommitSHA, "options", options)
	config = clientConfig(config, options)
	health := &health{gatherer: metrics.Registry}
	stop, err := health.serve(options.HealthAddress, log)
	if err != nil {
		return err
	}
	defer stop()
	crds, err := crdcheck.New(config)
	if err != nil {
		return err
	}
	if err := awaitCRDs(ctx, crds.Check, clock.RealClock{}, log, func(why error) {
		health.report(why, nil)
	}); err != nil {
		return ignoreCanceled(err)
	}
	beside, err := findDeployment(ctx, config, options, log)
	if err != nil {
		return ignoreCanceled(err)
	}
	mgr, leader, err := newManager(config, options, beside, log)
	if err != nil {
		return err
	}
	if err := addControllers(ctx, mgr, options, nil); err != nil {
		return err
	}
	health.waiting.Store(new(beside.Ready))
	health.report(nil, mgr.GetCache().WaitForCacheSync)
	return lead(ctx, mgr, leader)
}

// lead runs the manager until it is stopped, or may lead no longer.
func lead(ctx context.Context, mgr ctrl.Manager, leader *leadership) error {
	err := runUntilStopped(ctx, leader.lost, mgr.Start)
	if cause := leader.cause.Load(); cause != nil {
		return *cause
	}
	return err
}

// RunWithoutNetwork runs the controllers as Run does, on a Kubernetes and a GitHub that requests reach by the transports
// of config and github: in a process that plays both, time can pass as fast as work is done. What answers others on the
// network is left out, which is probes and metrics, and so are the checks of the CRDs and of the manager's Deployment.
func RunWithoutNetwork(
	ctx context.Context, config *rest.Config, github http.RoundTripper, options Options, log logr.Logger,
) error {
	mgr, leader, err := newManager(clientConfig(config, options), options, &alone.Deployment{}, log)
	if err != nil {
		return err
	}
	if err := addControllers(ctx, mgr, options, github); err != nil {
		return err
	}
	return lead(ctx, mgr, leader)
}

// findDeployment returns the manager's own Deployment, whose other revisions it must not act beside, and watches them.
func findDeployment(
	ctx context.Context, config *rest.Config, options Options, log logr.Logger,
) (*alone.Deployment, error) {
	reader, err := client.NewWithWatch(config, client.Options{Scheme: kinds.Scheme(), Mapper: kinds.Mapper()})
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	own := types.NamespacedName{Namespace: options.Namespace, Name: options.Pod}
	found, err := alone.Find(ctx, reader, own, clock.RealClock{}, log)
	if err != nil {
		return nil, err
	}
	return found, found.Watch(ctx)
}

// runUntilStopped calls start and waits until it returns, but no longer than stopLimit after the context has ended.
// While caches can't be filled, controller-runtime's Start ignores its context and keeps a CPU busy. Such a manager
// leads nothing yet, so nothing is lost. A manager that has lost its Lease isn't waited for: its grace would overlap
// with the next one's work. That ends its calls to GitHub, too.
func runUntilStopped(ctx context.Context, lost <-chan struct{}, start func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		err := start(ctx)
		select {
		case <-lost: // whatever else fails then does so because of that
			err = errLeaseLost
		default:
			if err != nil {
				err = fmt.Errorf("run the manager: %w", err)
			}
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

// clientConfig returns a copy of the configuration with our rate limits and user agent, and with the transport that
// repairs answers that caches could not decode.
func clientConfig(config *rest.Config, options Options) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = float32(options.QPS), options.Burst
	config.UserAgent = "harrier-manager/" + build.Version
	config.Wrap(informer.MendAnswers) // for the caches: see newInformer
	return config
}

func managerOptions(options Options, lock resourcelock.Interface, log logr.Logger) ctrl.Options {
	metricsServer := metricsserver.Options{BindAddress: options.MetricsAddress}
	if !serves(options.MetricsAddress) {
		metricsServer.BindAddress = disabledAddress // controller-runtime treats an empty address as its default
	}
	if options.MetricsSecure {
		metricsServer.SecureServing, metricsServer.CertDir, metricsServer.FilterProvider = true,
			options.MetricsCertificates, metricsauth.New
	}
	return ctrl.Options{
		Scheme:         kinds.Scheme(),
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return kinds.Mapper(), nil },
		Logger:         log,
		Cache:          options.cacheOptions(),
		NewCache:       newCache,
		// Secrets and ConfigMaps stay out of the cache: caching them would mean listing and watching every one of them.
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{
			&corev1.Secret{}, &corev1.ConfigMap{},
		}}},

		// A single replica takes part, too: `kubectl scale`, or a node that is cut off, makes it two at any time.
		LeaderElection:                      true,
		LeaderElectionID:                    options.LeaderElectionID,
		LeaderElectionResourceLockInterface: lock,
		LeaseDuration:                       new(leaseDuration),
		RenewDeadline:                       new(leaseRenewDeadline),
		RetryPeriod:                         new(leaseRetryPeriod),
		// The process ends right after that, so the next leader needn't wait for the Lease to expire.
		LeaderElectionReleaseOnCancel: true,

		Metrics:                 metricsServer,
		PprofBindAddress:        options.PprofAddress,
		HealthProbeBindAddress:  disabledAddress,
		GracefulShutdownTimeout: new(shutdownGrace),

		Controller: ctrlconfig.Controller{
			ReconciliationTimeout: reconcileTimeout,
			// A standby fills its caches (see fillCaches), but its controllers start only when it leads, and then get
			// all objects that exist. Started earlier, they would queue every runner that ever existed in the meantime,
			// with no worker running.
			EnableWarmup: new(false),
			// The names are constants in different packages. Only tests reuse them: they run several managers in one
			// process.
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

const (
	// Outdated CRDs are checked again after crdBackoff, doubled each time up to longestCRDBackoff. The first pauses are
	// short, because manager and CRDs are often installed together, and the API server takes a second or two to publish
	// a new CRD.
	crdBackoff        = time.Second
	longestCRDBackoff = 30 * time.Second
)

// awaitCRDs waits until the CRDs have the fields we need. It fails only with the context's error. The reason for
// waiting is logged when it changes, and passed to report for /readyz.
func awaitCRDs(
	ctx context.Context, check func(context.Context) error, clk clock.Clock, log logr.Logger, report func(error),
) error {
	logged := ""
	for pause := crdBackoff; ; pause = min(2*pause, longestCRDBackoff) {
		err := check(ctx)
		if err == nil || crdsUnreadable(err) {
			report(nil)
			return nil
		}
		report(err)
		if text := err.Error(); text != logged {
			log.Error(
				err, "Waiting for the CustomResourceDefinitions to be upgraded before starting",
				"recheckAtLeastEvery", longestCRDBackoff.String(),
			)
			logged = text
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-clk.After(pause):
		}
	}
}

// crdsUnreadable reports whether we may not read schemas in this cluster. The CRDs are then assumed to be right.
func crdsUnreadable(err error) bool { return apierrors.IsForbidden(err) }
