package manager

import (
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/zap/zapcore"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/addresses"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/listener/config"
	"github.com/harrier-ci/harrier/internal/listenertemplate"
	"github.com/harrier-ci/harrier/internal/logging"
)

// Environment variables. The first two are required: the chart sets them, and they have no sensible default.
const (
	envNamespace          = kube.EnvManagerNamespace
	envPod                = "CONTROLLER_MANAGER_POD_NAME"
	envImage              = "CONTROLLER_MANAGER_CONTAINER_IMAGE"
	envListenerEntrypoint = "LISTENER_ENTRYPOINT"
)

const (
	// A runner costs at most 12 requests (docs/performance.md), so 1,000 runners together cost 12,000: the burst, and
	// 10 s at this rate. The API server's own priority and fairness protects it; a lower limit here would only make one
	// scale set's burst wait for another's.
	defaultQPS   = 1000
	defaultBurst = 2000

	// defaultRunnerWorkers EphemeralRunners are reconciled at the same time, and the flag can set no less. A reconcile
	// takes 0.1 ms of CPU, but waits for its writes, each of which takes a busy API server 20–100 ms. A runner's life
	// has six of them, so the 2 workers that ARC's charts and values ask for would serve 10 runners a second at most.
	// With more than 24, an API server on two cores was so busy that its watches reported ended pods late.
	defaultRunnerWorkers = 24

	// A resync reconciles every object even if nothing changed. Watches deliver every change, and whatever must be
	// checked without a change has a timer, so this is only a safety net. It is controller-runtime's own default.
	defaultSyncPeriod = 10 * time.Hour

	// disabledAddress turns a server off.
	disabledAddress = "0"
)

// Options are all settings of a manager. ParseOptions returns them.
type Options struct {
	// Namespace is the manager's own. Its listeners run there, too.
	Namespace string
	// Pod is the name of the manager's own pod; empty outside of a cluster.
	Pod string
	// Image is the listeners' image, and ListenerEntrypoint the program that they start in it ("" means the default).
	Image              string
	ListenerEntrypoint string

	// WatchNamespace restricts the manager to the scale sets of one namespace. Empty means all.
	WatchNamespace string

	// LeaderElectionID is the name of the Lease that the manager holds while it acts.
	LeaderElectionID string

	// Addresses of the manager's servers. "0" or "" turns a server off.
	MetricsAddress string
	HealthAddress  string
	PprofAddress   string

	// MetricsSecure serves the manager's metrics over HTTPS, and only to clients whom the API server allows to get
	// /metrics. MetricsCertificates is the directory of the certificate; if empty, the manager creates one when it
	// starts.
	MetricsSecure       bool
	MetricsCertificates string

	// ListenerMetricsAddress and ListenerMetricsEndpoint go into the configuration of listeners.
	ListenerMetricsAddress  string
	ListenerMetricsEndpoint string
	// ListenerMetricsLabels selects the labels of job metrics if the AutoscalingRunnerSet doesn't:
	// config.MetricsLabelsFew or config.MetricsLabelsARC.
	ListenerMetricsLabels string
	// ListenerPullSecrets are names of Secrets with which nodes pull the listener's image.
	ListenerPullSecrets []string
	// ListenerTemplatePolicy limits what scale sets may choose for objects in the manager's namespace:
	// listenertemplate.Restricted or listenertemplate.Unrestricted. ListenerSidecarImages are the images of further
	// containers that the former allows, ListenerMetadataKeys the keys of labels and annotations, and
	// ListenerPriorityClasses the classes of pods.
	ListenerTemplatePolicy  string
	ListenerSidecarImages   []string
	ListenerMetadataKeys    []string
	ListenerPriorityClasses []string

	// ExcludedLabelPrefixes are prefixes of labels that are not copied from an AutoscalingRunnerSet.
	ExcludedLabelPrefixes []string

	// AllowedGitHubURLs are the addresses that scale sets may name. Empty means all that are neither link-local nor
	// loopback.
	AllowedGitHubURLs []string

	// RunnerWorkers EphemeralRunners are reconciled at the same time. Values below defaultRunnerWorkers count as that,
	// so a flag kept from an earlier installation can't slow a burst.
	RunnerWorkers int
	SyncPeriod    time.Duration

	// JobPodMetadata writes a job's repository, workflow, run, id and name to its pod when the job starts.
	// JobPodProtection keeps node autoscalers from evicting the pod while the job runs, and is part of the same patch.
	JobPodMetadata, JobPodProtection bool

	// Vaults are the rules for reading from vaults with the manager's identity; empty means anything.
	// VaultCertificateDirectory is the only directory with certificates for that; "" means any.
	Vaults                    []credentials.VaultRule
	VaultCertificateDirectory string

	// StripForeignFinalizers removes ARC's finalizers from the objects of its charts, which takes the right to patch
	// Roles.
	StripForeignFinalizers bool

	// MaxRunnersPerSet limits the runners of each scale set, whatever its spec says; 0 means no limit.
	MaxRunnersPerSet int

	// WatchNodes has idle runners leave nodes that are about to go away. It means nothing with WatchNamespace: Nodes
	// belong to no namespace, so a manager that is restricted to one has no right to watch them.
	WatchNodes bool

	// QPS and Burst limit the requests to the API server.
	QPS, Burst int

	LogLevel, LogFormat string

	// CheckUninstall checks that no scale set is left, instead of running a manager.
	CheckUninstall bool
}

// validate returns everything that is wrong, each with the flag or variable to change.
func (o Options) validate() error {
	var wrong []error
	check := func(ok bool, format string, arguments ...any) {
		if !ok {
			wrong = append(wrong, fmt.Errorf(format, arguments...))
		}
	}
	check(
		o.CheckUninstall || o.Namespace != "", "environment variable %s is empty; set it to the manager's namespace",
		envNamespace,
	)
	check(
		o.CheckUninstall || o.Image != "", "environment variable %s is empty; set it to the image that listeners run",
		envImage,
	)
	_, err := parseLevel(o.LogLevel)
	check(err == nil, "--log-level=%q is unknown; use debug, info, warn, error or a whole number", o.LogLevel)
	check(
		slices.Contains([]string{formatText, formatJSON}, o.LogFormat), "--log-format=%q is unknown; use text or json",
		o.LogFormat,
	)
	check(slices.Contains([]string{config.MetricsLabelsFew, config.MetricsLabelsARC}, o.ListenerMetricsLabels),
		"--listener-metrics-labels=%q is unknown; use few or arc", o.ListenerMetricsLabels)
	check(slices.Contains(listenertemplate.Names, o.ListenerTemplatePolicy),
		"--listener-template-policy=%q is unknown; use %s", o.ListenerTemplatePolicy,
		strings.Join(listenertemplate.Names, " or "))
	_, err = addresses.New(o.AllowedGitHubURLs)
	check(err == nil, "--%s: %v", addresses.Flag, err)
	check(o.RunnerWorkers > 0, "--runner-max-concurrent-reconciles=%d; use 1 or more", o.RunnerWorkers)
	check(o.QPS > 0, "--k8s-client-rate-limiter-qps=%d; use 1 or more", o.QPS)
	check(o.Burst > 0, "--k8s-client-rate-limiter-burst=%d; use 1 or more", o.Burst)
	check(o.SyncPeriod > 0, "--sync-period=%s; use a positive duration", o.SyncPeriod)
	check(o.MaxRunnersPerSet >= 0 && o.MaxRunnersPerSet <= v1alpha1.MaxRunnersUnlimited,
		"--max-runners-per-set=%d; use 1 to %d, or 0 for no limit", o.MaxRunnersPerSet, v1alpha1.MaxRunnersUnlimited)
	check(o.VaultCertificateDirectory == "" || filepath.IsAbs(o.VaultCertificateDirectory),
		"--vault-certificate-directory=%q is not an absolute path; use the mountPath of the volume with the "+
			"certificates",
		o.VaultCertificateDirectory)
	check(
		o.MetricsSecure || o.MetricsCertificates == "",
		"--metrics-cert-path has no effect without --metrics-secure; set both",
	)
	check(o.CheckUninstall || o.LeaderElectionID != "", "--leader-election-id is empty; name the Lease")
	for _, server := range []struct{ flag, address string }{
		{"metrics-addr", o.MetricsAddress}, {"health-probe-bind-address", o.HealthAddress},
		{"pprof-addr", o.PprofAddress}, {"listener-metrics-addr", o.ListenerMetricsAddress},
	} {
		check(
			validAddress(server.address), "--%s=%q is not an address; use HOST:PORT or :PORT, or 0 to turn it off",
			server.flag, server.address,
		)
	}
	return errors.Join(wrong...)
}

func validAddress(address string) bool {
	if !serves(address) {
		return true
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

// watchesNodes reports whether the manager watches nodes.
func (o Options) watchesNodes() bool { return o.WatchNodes && o.WatchNamespace == "" }

// serves reports whether an address turns its server on.
func serves(address string) bool { return address != "" && address != disabledAddress }

// listenerPolicy returns what scale sets may choose for objects in the manager's namespace.
func (o Options) listenerPolicy() listenertemplate.Policy {
	return listenertemplate.Policy{
		Unrestricted:    o.ListenerTemplatePolicy == listenertemplate.Unrestricted,
		SidecarImages:   o.ListenerSidecarImages,
		MetadataKeys:    o.ListenerMetadataKeys,
		PriorityClasses: o.ListenerPriorityClasses,
		Program:         o.ListenerEntrypoint,
	}
}

func parseLevel(text string) (zapcore.Level, error) {
	if number, err := strconv.ParseInt(text, 10, 8); err == nil {
		return zapcore.Level(number), nil
	}
	if !slices.Contains([]string{levelDebug, "info", "warn", "error"}, text) {
		return 0, fmt.Errorf("unknown level %q", text)
	}
	return zapcore.ParseLevel(text)
}

const (
	formatText = "text"
	formatJSON = "json"
	levelDebug = "debug"
)

// NewLogger returns the manager's logger. The options must be valid.
func NewLogger(options Options, output io.Writer) logr.Logger {
	level, err := parseLevel(options.LogLevel)
	if err != nil {
		level = zapcore.DebugLevel
	}
	return logging.New(output, options.LogFormat == formatJSON, level)
}
