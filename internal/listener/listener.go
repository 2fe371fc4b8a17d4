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

// Options configure a listener. Kubernetes or Cluster is required, everything else has a default.
type Options struct {
	// ConfigPath is the file to read. The default is the value of the environment variable config.PathVariable, or else
	// config.FilePath.
	ConfigPath string
	// Kubernetes says how to reach the API server. It is unused if Cluster is set.
	Kubernetes *rest.Config
	// Cluster replaces the API server.
	Cluster Cluster
	// Connect makes the client for GitHub. The default is the real one.
	Connect Connector
	// Owner is the name that GitHub shows to others that find the session taken. The default is the host's name, which is the pod's.
	Owner string
	// HealthAddress overrides port 8081, MetricsAddress the configuration. Their defaults come from the environment.
	HealthAddress, MetricsAddress string
	// LogTo is where the log is written. The default is standard output.
	LogTo io.Writer
	// Clock is the loop's clock. The default is the real one.
	Clock clock.WithTicker
}

// dependencies are what a loop works with: parts of the Options, and what is made from them.
type dependencies struct {
	clock   clock.WithTicker
	log     logr.Logger
	connect Connector
	cluster Cluster
	metrics *metrics.Metrics
	health  *health
	// read reads the configuration file.
	read func() (*config.Config, error)
	// apply puts the settings into effect that are not the loop's own: log level and metrics.
	apply func(*config.Config)
	owner string
}

// Run listens until ctx ends or the configuration asks for a new process, and then closes the session. It returns an error
// only before it begins to listen, if the configuration can't be used.
func Run(ctx context.Context, options Options) error {
	options = options.withDefaults()
	settings, err := config.Read(options.ConfigPath)
	if err != nil {
		return err
	}
	log, level := newLogger(options.LogTo, settings)
	log = log.WithName("listener").WithValues("namespace", settings.EphemeralRunnerSetNamespace,
		"ephemeralRunnerSet", settings.EphemeralRunnerSetName,
		"scaleSet", settings.EphemeralRunnerSetNamespace+"/"+settings.RunnerScaleSetName)
	d := dependencies{
		clock: options.Clock, log: log, connect: options.Connect, cluster: options.Cluster, owner: options.Owner,
		metrics: metrics.New(settings, log), health: &health{clock: options.Clock},
		read: func() (*config.Config, error) { return config.Read(options.ConfigPath) },
	}
	if d.cluster == nil {
		if d.cluster, err = NewCluster(options.Kubernetes, settings.EphemeralRunnerSetNamespace, settings.EphemeralRunnerSetName); err != nil {
			return err
		}
	}
	if d.connect == nil {
		d.connect = Connect(log, options.Clock)
	}
	changed, err := watchFile(ctx, options.ConfigPath, log)
	if err != nil {
		log.Error(err, "The configuration can't be watched and is read once a minute; "+
			"raise fs.inotify.max_user_instances and max_user_watches of the node")
	}
	defer d.serve(options, settings, level)()
	listen(ctx, settings, d, changed)
	return nil
}

// serve starts the servers for metrics and probes at the addresses in options, and returns the function that stops them. It also
// sets apply, which makes the log and the metrics follow a changed configuration.
func (d *dependencies) serve(options Options, settings *config.Config, level zap.AtomicLevel) (stop func()) {
	scraped, probed := &server{name: "metrics", log: d.log}, &server{name: "health", log: d.log}
	beside := &optionalHandler{handler: d.metrics}
	d.apply = func(settings *config.Config) {
		level.SetLevel(parseLevel(settings.LogLevel))
		d.metrics.Configure(settings)
		address := metricsAddress(settings, options.MetricsAddress)
		same := sameAddress(address, options.HealthAddress)
		beside.enabled.Store(same)
		if same {
			address = ""
		}
		scraped.serve(address, d.metrics)
	}
	d.health.turned(d.clock.Now())
	probed.serve(options.HealthAddress, d.health.handler(beside)) // first: without metrics the process lives, without probes it does not
	d.apply(settings)
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

// listen reads the set, runs the loop, and shuts down.
func listen(ctx context.Context, settings *config.Config, d dependencies, changed <-chan struct{}) {
	set := readSet(ctx, settings, d)
	if set == nil {
		return // there is nothing to shut down
	}
	l := newLoop(settings, set, d)
	l.run(ctx, changed)
	l.shutdown(context.WithoutCancel(ctx))
}

// readSet reads the set, retrying until it succeeds: its patchID and the last session's ID are needed to begin. It returns nil if
// ctx ends or the configuration changes so much that a new process is needed.
func readSet(ctx context.Context, settings *config.Config, d dependencies) *RunnerSet {
	pauses := backoff{initial: initialPause, max: maxPause}
	for {
		attempt, cancel := context.WithTimeout(ctx, kubernetesTimeout)
		set, err := d.cluster.RunnerSet(attempt)
		cancel()
		if err == nil {
			return set
		}
		pause := pauses.next()
		d.log.Error(err, "The EphemeralRunnerSet can't be read, trying again", "after", pause)
		select {
		case <-d.clock.After(pause):
			d.health.turned(d.clock.Now())
		case <-ctx.Done():
			return nil
		}
		if read, err := d.read(); err == nil && needsNewProcess(settings, read) {
			d.log.Info(restarting)
			return nil
		}
	}
}

// shutdown closes the session, so that a successor gets one at once, and writes the status Stopped, even if GitHub does not
// answer.
func (l *loop) shutdown(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, shutdownTimeout)
	defer cancel()
	if err := l.closeLastSession(ctx); err != nil {
		l.log.Error(err, "The session could not be closed, the next listener will do it", "sessionID", l.session.sessionID)
	}
	since := metav1.NewTime(l.clock.Now())
	stopped := v1alpha1.ListenerStatus{State: v1alpha1.ListenerStateStopped, Reason: reasonStopped, Message: "asked to stop", Since: &since}
	if err := l.cluster.WriteStatus(ctx, stopped); err != nil {
		l.log.Error(err, "The state could not be written", "state", stopped.State)
	}
	l.log.Info("Stopped")
}
