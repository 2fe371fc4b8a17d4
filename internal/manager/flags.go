package manager

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	kubeconfig "sigs.k8s.io/controller-runtime/pkg/client/config"

	"github.com/harrier-ci/harrier/internal/addresses"
	"github.com/harrier-ci/harrier/internal/build"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/listener/config"
	"github.com/harrier-ci/harrier/internal/listenertemplate"
)

// Names of flags that are also needed where their values are checked.
const (
	watchNamespaceFlag       = "watch-namespace"
	watchSingleNamespaceFlag = "watch-single-namespace"
)

// ParseOptions parses the command line and the environment. If help was asked for it writes the usage to output and
// fails with flag.ErrHelp. Otherwise its error lists everything that is wrong.
func ParseOptions(arguments []string, environment func(string) string, output io.Writer) (Options, error) {
	options := Options{
		Namespace:          environment(envNamespace),
		Pod:                environment(envPod),
		Image:              environment(envImage),
		ListenerEntrypoint: environment(envListenerEntrypoint),
	}
	flags := flag.NewFlagSet("manager", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // usage is printed only on request, and the caller prints the error
	singleNamespace := options.register(flags)
	registerIgnored(flags)
	switch err := flags.Parse(arguments); {
	case errors.Is(err, flag.ErrHelp):
		printUsage(flags, output)
		return Options{}, err
	case err != nil:
		return Options{}, fmt.Errorf("%w; manager --help lists the flags", err)
	}
	if flags.NArg() > 0 {
		return Options{}, fmt.Errorf(
			"unexpected argument %q; flags begin with --, and the only commands are doctor and validate",
			flags.Arg(0),
		)
	}
	wrong := checkNamespaces(flags) // before one flag's value replaces the other's
	if *singleNamespace != "" {
		options.WatchNamespace = *singleNamespace
	}
	return options, errors.Join(wrong, options.validate())
}

// printUsage lists the program's commands, then the flags for running the controllers.
func printUsage(flags *flag.FlagSet, output io.Writer) {
	fmt.Fprint(output, `Usage:
  manager [flags]             run the controllers
  manager doctor [flags]      explain why jobs wait; manager doctor --help lists its flags
  manager validate [flags]    check values and manifests before they are applied

Flags:
`)
	flags.SetOutput(output)
	flags.PrintDefaults()
}

// checkNamespaces refuses values that can't be the name of a namespace: their caches would never be filled.
func checkNamespaces(flags *flag.FlagSet) error {
	var wrong []error
	for _, name := range []string{watchNamespaceFlag, watchSingleNamespaceFlag} {
		value := flags.Lookup(name).Value.String()
		if problems := validation.IsDNS1123Label(value); value != "" && len(problems) > 0 {
			wrong = append(wrong, fmt.Errorf("--%s=%q is not a namespace name: %s; use the namespace of the scale sets",
				name, value, strings.Join(problems, ", ")))
		}
	}
	return errors.Join(wrong...)
}

// registerTemplates defines the flags that say what scale sets may choose for their listeners.
func (o *Options) registerTemplates(flags *flag.FlagSet) {
	flags.StringVar(&o.ListenerTemplatePolicy, "listener-template-policy", listenertemplate.Restricted,
		"what scale sets may choose for objects in the manager's namespace, by listenerTemplate and metadata: "+
			"restricted (docs/listener-template.md) or unrestricted")
	flags.Var((*list)(&o.ListenerSidecarImages), "listener-sidecar-images",
		"image that the restricted policy allows in further containers of listener pods, as listenerTemplate writes "+
			"it; may be repeated")
	flags.Var((*list)(&o.ListenerMetadataKeys), "listener-metadata-keys",
		"key of labels and annotations that the restricted policy allows on objects in the manager's namespace, or "+
			"DOMAIN/* for all of a domain; may be repeated")
	flags.Var((*list)(&o.ListenerPriorityClasses), "listener-priority-classes",
		"PriorityClass that the restricted policy allows for listener pods; may be repeated")
}

// register defines the flags. It returns the value of --watch-single-namespace, which wins over --watch-namespace.
func (o *Options) register(flags *flag.FlagSet) (singleNamespace *string) {
	flags.StringVar(&o.WatchNamespace, watchNamespaceFlag, "", "watch scale sets of this namespace only")
	singleNamespace = flags.String(
		watchSingleNamespaceFlag, "", "same as --watch-namespace, and takes precedence over it",
	)
	registerProgram(flags)
	flags.Bool(
		"enable-leader-election", true, "accepted for ARC's command lines; a leader is always elected, also with false",
	)
	flags.StringVar(
		&o.LeaderElectionID, "leader-election-id", "actions-runner-controller",
		"name of the Lease that the one manager that acts holds",
	)
	// This and the next two: kubebuilder's names.
	flags.StringVar(&o.MetricsAddress, "metrics-addr", ":8080", "address of the metrics server; 0 turns it off")
	flags.BoolVar(&o.MetricsSecure, "metrics-secure", false,
		"serve metrics over HTTPS, and only to clients whose token may get the nonResourceURL /metrics")
	flags.StringVar(&o.MetricsCertificates, "metrics-cert-path", "",
		"directory with tls.crt and tls.key for --metrics-secure, reloaded on change; empty: a self-signed certificate")
	flags.StringVar(
		&o.HealthAddress, "health-probe-bind-address", "", "address of /healthz and /readyz; empty turns them off",
	)
	flags.StringVar(&o.PprofAddress, "pprof-addr", "", "address of Go's profiler; empty turns it off")
	flags.StringVar(
		&o.ListenerMetricsAddress, "listener-metrics-addr", ":8080",
		"address of each listener's metrics server; 0 turns it off",
	)
	flags.StringVar(
		&o.ListenerMetricsEndpoint, "listener-metrics-endpoint", "/metrics", "path of the listeners' metrics",
	)
	flags.StringVar(&o.ListenerMetricsLabels, "listener-metrics-labels", config.MetricsLabelsFew,
		"labels and buckets of the listeners' job metrics: few (scale set and result, 10 buckets) or arc (also job, "+
			"event and repository, 46 buckets)")
	flags.Var(
		(*list)(&o.ListenerPullSecrets), "auto-scaler-image-pull-secrets",
		"Secret to pull the listener's image with; may be repeated",
	)
	o.registerTemplates(flags)
	flags.Var((*list)(&o.ExcludedLabelPrefixes), "exclude-label-propagation-prefix",
		"prefix of labels that are not copied from an AutoscalingRunnerSet; may be repeated")
	flags.Var((*list)(&o.AllowedGitHubURLs), addresses.Flag,
		"address that scale sets may use for GitHub, such as https://github.com/my-org; may be repeated. Without "+
			"any, every address that is neither link-local nor loopback")
	flags.IntVar(&o.RunnerWorkers, "runner-max-concurrent-reconciles", defaultRunnerWorkers,
		"EphemeralRunners reconciled at once; values below 24 count as 24. Calls to GitHub don't occupy these workers")
	flags.BoolVar(&o.JobPodMetadata, "job-pod-metadata", true,
		"write repository, workflow, run, id and name of a job to its pod, as annotations and labels, when it "+
			"starts; without it only the label that it is busy")
	flags.BoolVar(&o.JobPodProtection, "job-pod-protection", true,
		"ask node autoscalers not to evict a pod while its job runs; part of --job-pod-metadata")
	flags.BoolVar(&o.WatchNodes, "watch-nodes", true,
		"watch the names, unschedulable and taints of nodes, and move idle runners from nodes that are about to go "+
			"away; has no effect with --watch-namespace")
	o.registerTenancy(flags)
	flags.Var(rateLimiter{}, "workqueue-rate-limiter",
		"bucket_rate_limiter or typed_rate_limiter; accepted for ARC's charts: with either, failing objects back off "+
			"from 50 ms to 30 s")
	flags.DurationVar(
		&o.SyncPeriod, "sync-period", defaultSyncPeriod, "how often every object is reconciled even if nothing changed",
	)
	flags.IntVar(&o.QPS, "k8s-client-rate-limiter-qps", defaultQPS, "sustained requests per second to the API server")
	flags.IntVar(
		&o.Burst, "k8s-client-rate-limiter-burst", defaultBurst,
		"requests to the API server that may exceed the rate in a burst",
	)
	flags.StringVar(&o.LogLevel, "log-level", levelDebug, "debug, info, warn, error, or a zap level such as -2")
	flags.StringVar(&o.LogFormat, "log-format", formatText, "text or json")
	flags.BoolVar(
		&o.CheckUninstall, "check-uninstall", false,
		"check that no scale set is left, then exit; used by the chart's uninstall hook",
	)
	kubeconfig.RegisterFlags(flags) // --kubeconfig, for a manager outside the cluster
	flags.Bool("auto-scaling-runner-set-only", true, "accepted for ARC's charts; there is no other mode")
	return singleNamespace
}

// registerProgram defines the flag by which the chart makes sure that it runs this program.
func registerProgram(flags *flag.FlagSet) {
	flags.Func(build.ProgramFlag, "what the chart expects this program to be, "+build.Program+": another manager, such as that of "+
		"actions-runner-controller under the name of a mirror, doesn't know the flag and ends", func(text string) error {
		if text != build.Program {
			return fmt.Errorf("this is the manager of %s, and not of %q: its chart and its image belong together",
				build.Program, text)
		}
		return nil
	})
}

// registerTenancy defines the flags with which an administrator limits what scale sets may use.
func (o *Options) registerTenancy(flags *flag.FlagSet) {
	const vaults = `JSON list of {"url", "namespaces", "secretNames"}, in which * stands for any characters: only ` +
		"a scale set whose namespace, vault and secrets one entry names may read a vault; without the flag, or with " +
		"[], any may"
	flags.Func("vaults", vaults, func(text string) (err error) {
		o.Vaults, err = credentials.ParseVaultRules(text)
		return err
	})
	flags.StringVar(&o.VaultCertificateDirectory, "vault-certificate-directory", "",
		"the only directory from which certificates for vaults are read; empty: any regular file up to 1 MiB")
	flags.BoolVar(&o.StripForeignFinalizers, "strip-foreign-finalizers", true,
		"remove ARC's finalizers from the objects of its charts, for which the manager needs the right to patch Roles")
	flags.IntVar(
		&o.MaxRunnersPerSet, "max-runners-per-set", 0,
		"limit on the runners of each scale set, whatever its maxRunners is; 0: none",
	)
}

// ignoredFlags are flags of ARC that mean nothing here: most of them belong to its legacy mode, which does not exist
// here. They are accepted so that a command line written for ARC works.
var ignoredFlags = []string{
	"update-strategy", "port",
	"runner-image", "docker-image", "docker-gid", "runner-image-pull-secret", "docker-registry-mirror",
	"github-token", "github-enterprise-url", "github-app-id", "github-app-installation-id", "github-app-private-key",
	"github-url", "github-upload-url", "github-basicauth-username", "github-basicauth-password", "runner-github-url",
	"default-scale-down-delay", "common-runner-labels",
}

const ignoredUsage = "accepted for ARC's command lines and ignored"

func registerIgnored(flags *flag.FlagSet) {
	for _, name := range ignoredFlags {
		flags.Var(ignored{}, name, ignoredUsage)
	}
	flags.Bool("runner-status-update-hook", false, ignoredUsage) // may be given without a value
}

// ignored accepts any value and discards it: some of the flags hold secrets.
type ignored struct{}

func (ignored) String() string   { return "" }
func (ignored) Set(string) error { return nil }

// rateLimiter checks a choice that makes no difference: in ARC, both values back off per object, up to 1000 s.
type rateLimiter struct{}

func (rateLimiter) String() string { return "" }

func (rateLimiter) Set(value string) error {
	if !slices.Contains([]string{"", "bucket_rate_limiter", "typed_rate_limiter"}, value) {
		return errors.New("use bucket_rate_limiter or typed_rate_limiter")
	}
	return nil
}

// list is a flag that may be repeated.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

func (l *list) Set(value string) error {
	if value == "" {
		return errors.New("it must not be empty")
	}
	*l = append(*l, value)
	return nil
}
