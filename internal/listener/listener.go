package listener

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/listener/config"
	"github.com/harrier-ci/harrier/internal/listener/metrics"
)

// Options are what a listener is given. Kubernetes or Cluster is needed, everything else has a default.
type Options struct {
	// ConfigPath is the file to read; empty means that of the environment variable config.PathVariable, then
	// config.FilePath.
	ConfigPath string
	// Kubernetes says how the API server is reached; unused when Cluster is given.
	Kubernetes *rest.Config
	// Cluster stands in for the API server.
	Cluster Cluster
	// Connect makes the client of GitHub.
	Connect Connector
	// Owner is shown to whoever finds the session taken. By default the host's name, which is the pod's.
	Owner string
	// HealthAddress and MetricsAddress override port 8081 and the configuration; by default those of the environment.
	HealthAddress, MetricsAddress string
	// LogTo gets the log, by default standard output.
	LogTo io.Writer
	Clock clock.WithTicker
}

// dependencies are Options made concrete.
type dependencies struct {
	Options
	log     logr.Logger
	read    func() (*config.Config, error)
	cluster Cluster
	metrics *metrics.Metrics
	health  *health
	apply   func(*config.Config)
}

// Run listens until ctx ends or the configuration asks for a new process, and then closes the session. It fails only
// before it begins to listen, when the configuration can't be used.
func Run(ctx context.Context, options Options) error {
	options = options.withDefaults()
	settings, err := config.Read(options.ConfigPath)
	if err != nil {
		return err
	}
	log, level := newLogger(options.LogTo, settings)
	log = log.WithName("listener").WithValues("namespace", settings.EphemeralRunnerSetNamespace, "ephemeralRunnerSet", settings.EphemeralRunnerSetName,
		"scaleSet", settings.EphemeralRunnerSetNamespace+"/"+settings.RunnerScaleSetName)
	d := dependencies{Options: options, log: log, cluster: options.Cluster, health: &health{clock: options.Clock}}
	d.read = func() (*config.Config, error) { return config.Read(options.ConfigPath) }
	if d.cluster == nil {
		if d.cluster, err = NewCluster(options.Kubernetes, settings.EphemeralRunnerSetNamespace, settings.EphemeralRunnerSetName); err != nil {
			return err
		}
	}
	if d.Connect == nil {
		d.Connect = Connect(log)
	}
	changed, err := watchFile(ctx, options.ConfigPath, log)
	if err != nil {
		log.Error(err, "Changes of the configuration are seen only after a refused credential")
	}
	d.metrics = metrics.New(settings, log)
	defer d.serve(settings, level)()
	listen(ctx, settings, d, changed)
	return nil
}

// serve starts the servers of metrics and probes and returns what stops them. It sets apply, by which the log and the
// metrics take over a changed configuration.
func (d *dependencies) serve(settings *config.Config, level zap.AtomicLevel) (stop func()) {
	scraped, probed := &server{name: "metrics", log: d.log}, &server{name: "health", log: d.log}
	d.apply = func(settings *config.Config) {
		level.SetLevel(parseLevel(settings.LogLevel))
		d.metrics.Configure(settings)
		scraped.serve(metricsAddress(settings, d.MetricsAddress), d.metrics)
	}
	d.apply(settings)
	d.health.turned(d.Clock.Now())
	probed.serve(d.HealthAddress, d.health.handler())
	return func() {
		probed.stop()
		scraped.stop()
	}
}

func (o Options) withDefaults() Options {
	o.ConfigPath = cmp.Or(o.ConfigPath, os.Getenv(config.PathVariable), config.FilePath)
	o.HealthAddress = cmp.Or(o.HealthAddress, os.Getenv(config.HealthAddressVariable), fmt.Sprintf(":%d", config.HealthPort))
	o.MetricsAddress = cmp.Or(o.MetricsAddress, os.Getenv(config.MetricsAddressVariable))
	if o.Owner == "" {
		o.Owner, _ = os.Hostname()
		o.Owner = cmp.Or(o.Owner, uuid.NewString())
	}
	if o.LogTo == nil {
		o.LogTo = os.Stdout
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return o
}

// listen runs the loop between reading the set and saying farewell.
func listen(ctx context.Context, settings *config.Config, d dependencies, changed <-chan struct{}) {
	set, err := readSet(ctx, d)
	if err != nil {
		return // asked to stop before there was anything to do
	}
	l := newLoop(settings, set, d)
	l.run(ctx, changed)
	l.farewell(context.WithoutCancel(ctx))
}

// readSet reads the set until it can. Without its patchID and the last session's id there is no beginning.
func readSet(ctx context.Context, d dependencies) (*RunnerSet, error) {
	pauses := backoff{first: firstPause, most: longestPause}
	for {
		attempt, cancel := context.WithTimeout(ctx, kubernetesLimit)
		set, err := d.cluster.RunnerSet(attempt)
		cancel()
		if err == nil {
			return set, nil
		}
		pause := pauses.next()
		d.log.Error(err, "The EphemeralRunnerSet can't be read, trying again", "after", pause)
		select {
		case <-d.Clock.After(pause):
			d.health.turned(d.Clock.Now())
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// farewell closes the session, so that a successor gets one at once, and says that the listener is gone, whether GitHub answers
// or not.
func (l *loop) farewell(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, farewellLimit)
	defer cancel()
	if l.link.session != nil {
		closing, cancel := context.WithTimeout(ctx, farewellLimit/2)
		defer cancel()
		if err := l.link.session.Close(closing); err != nil {
			l.log.Error(err, "The session could not be closed, the next listener will do it", "sessionID", l.link.sessionID)
		}
	}
	since := metav1.NewTime(l.clock.Now())
	stopped := v1alpha1.ListenerStatus{State: v1alpha1.ListenerStateStopped, Reason: reasonStopped, Message: "asked to stop", Since: &since}
	if err := l.cluster.ReportState(ctx, stopped); err != nil {
		l.log.Error(err, "The state could not be written", "state", stopped.State)
	}
	l.log.Info("Stopped")
}
