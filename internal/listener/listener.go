package listener

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/google/uuid"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/internal/listener/cluster"
	"github.com/harrier-ci/harrier/internal/listener/config"
	"github.com/harrier-ci/harrier/internal/listener/errand"
	"github.com/harrier-ci/harrier/internal/listener/github"
	"github.com/harrier-ci/harrier/internal/listener/metrics"
	"github.com/harrier-ci/harrier/internal/listener/serving"
	"github.com/harrier-ci/harrier/internal/logging"
)

// Options configure a listener. Kubernetes or Cluster is required, everything else has a default.
type Options struct {
	// ConfigPath is the file to read. The default is the value of the environment variable config.PathVariable, or else
	// config.FilePath.
	ConfigPath string
	// Read replaces the file. Nothing is served over HTTP then, and as nobody tells of changes, it is asked once a minute.
	Read func() (*config.Config, error)
	// Kubernetes is the configuration for the API server. It is unused if Cluster is set.
	Kubernetes *rest.Config
	// Cluster replaces the API server.
	Cluster cluster.Cluster
	// Connect makes the client for GitHub. The default is the real one.
	Connect github.Connector
	// Owner is the name that GitHub shows to others that find the session taken. The default is the host's name, which
	// is the pod's.
	Owner string
	// HealthAddress overrides port 8081, MetricsAddress the configuration. Their defaults come from the environment.
	HealthAddress, MetricsAddress string
	// The log is written to LogTo. The default is standard output.
	LogTo io.Writer
	// Clock is the loop's clock. The default is the real one.
	Clock clock.WithTicker
}

// Run listens until ctx ends or the configuration asks for a new process, and then closes the session. It returns an
// error only before it begins to listen, if the configuration can't be used.
func Run(ctx context.Context, options Options) error {
	options = options.withDefaults()
	read := options.Read
	if read == nil {
		read = func() (*config.Config, error) { return config.Read(options.ConfigPath) }
	}
	settings, err := read()
	if err != nil {
		return err
	}
	level := zap.NewAtomicLevelAt(logLevel(settings))
	log := logging.New(options.LogTo, settings.LogFormat == "json", level).WithName("listener").WithValues(
		"namespace", settings.EphemeralRunnerSetNamespace, "ephemeralRunnerSet", settings.EphemeralRunnerSetName,
		"scaleSet", settings.EphemeralRunnerSetNamespace+"/"+settings.RunnerScaleSetName,
	)
	d := dependencies{
		clock: options.Clock, log: log, connect: options.Connect, cluster: options.Cluster, owner: options.Owner,
		metrics: metrics.New(settings, log), health: serving.NewHealth(options.Clock),
		read: read,
	}
	if d.cluster == nil {
		if d.cluster, err = cluster.New(
			options.Kubernetes, settings.EphemeralRunnerSetNamespace, settings.EphemeralRunnerSetName,
		); err != nil {
			return err
		}
	}
	if d.connect == nil {
		d.connect = github.Connect(log, options.Clock)
	}
	d.apply = func(settings *config.Config) {
		level.SetLevel(logLevel(settings))
		d.metrics.Configure(settings)
	}
	var changed <-chan struct{}
	if options.Read == nil {
		if changed, err = config.Watch(ctx, options.ConfigPath, log); err != nil {
			log.Error(err, "The configuration can't be watched and is read once a minute; "+
				"raise fs.inotify.max_user_instances and max_user_watches of the node")
		}
		// First: without metrics the process lives, without probes it does not.
		servers := serving.Start(options.HealthAddress, d.health, d.metrics, log)
		defer servers.Stop()
		apply := d.apply
		d.apply = func(settings *config.Config) {
			apply(settings)
			servers.ServeMetrics(settings.MetricsAddress(options.MetricsAddress))
		}
	}
	d.apply(settings)
	set := readSet(ctx, settings, d)
	if set == nil {
		return nil // there is nothing to shut down
	}
	l := newLoop(settings, set, d)
	l.run(ctx, changed)
	l.shutdown(context.WithoutCancel(ctx))
	return nil
}

// logLevel returns the level debug, info, warn or error; anything else means info. Debug is V(1).
func logLevel(settings *config.Config) zapcore.Level {
	level, err := zapcore.ParseLevel(settings.LogLevel)
	if err != nil {
		return zapcore.InfoLevel
	}
	return level
}

func (o Options) withDefaults() Options {
	o.ConfigPath = cmp.Or(o.ConfigPath, os.Getenv(config.PathVariable), config.FilePath)
	o.HealthAddress = cmp.Or(
		o.HealthAddress, os.Getenv(config.HealthAddressVariable), fmt.Sprintf(":%d", config.HealthPort),
	)
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

// readSet reads the set, retrying until it succeeds: its patchID and the last session's ID are needed to begin. It
// returns nil if ctx ends or the configuration changes so much that a new process is needed.
func readSet(ctx context.Context, settings *config.Config, d dependencies) *cluster.RunnerSet {
	reading := errand.New(firstBackoff, longestBackoff)
	for {
		attempt, cancel := context.WithTimeout(ctx, cluster.RequestTimeout)
		set, err := d.cluster.RunnerSet(attempt)
		cancel()
		if err == nil {
			return set
		}
		now := d.clock.Now()
		reading.Pause(now)
		d.log.Error(err, "The EphemeralRunnerSet can't be read, trying again", "at", reading.NotBefore)
		select {
		case <-d.clock.After(reading.NotBefore.Sub(now)):
			d.health.Turned(d.clock.Now())
		case <-ctx.Done():
			return nil
		}
		if read, err := d.read(); err == nil && settings.NeedsNewProcess(read) {
			d.log.Info(restarting)
			return nil
		}
	}
}
