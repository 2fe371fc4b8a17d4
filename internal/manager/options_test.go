package manager_test

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/listenertemplate"
	"github.com/harrier-ci/harrier/internal/manager"
)

// Variables that the chart sets.
const (
	envNamespace = "CONTROLLER_MANAGER_POD_NAMESPACE"
	envImage     = "CONTROLLER_MANAGER_CONTAINER_IMAGE"
	envPod       = "CONTROLLER_MANAGER_POD_NAME"
)

// environment returns the variables that the chart sets.
func environment(name string) string {
	return map[string]string{envNamespace: "harrier", envImage: "ghcr.io/example/manager:1"}[name]
}

func defaults() manager.Options {
	return manager.Options{
		Namespace: "harrier", Image: "ghcr.io/example/manager:1",
		LeaderElectionID:        "actions-runner-controller",
		MetricsAddress:          ":8080",
		ListenerMetricsAddress:  ":8080",
		ListenerMetricsEndpoint: "/metrics",
		ListenerMetricsLabels:   "few",
		ListenerTemplatePolicy:  listenertemplate.Restricted,
		RunnerWorkers:           24, SyncPeriod: 10 * time.Hour, QPS: 1000, Burst: 2000,
		JobPodMetadata:         true,
		JobPodProtection:       true,
		StripForeignFinalizers: true,
		WatchNodes:             true,
		LogLevel:               "debug",
		LogFormat:              "text",
	}
}

func TestParseLimits(t *testing.T) {
	got, err := manager.ParseOptions([]string{
		`--vaults=[{"namespaces":["team-a"],"secretNames":"team-a-*","url":"https://v.vault.azure.net"}]`,
		"--vault-certificate-directory=/akv", "--watch-nodes=false", "--strip-foreign-finalizers=false",
		"--max-runners-per-set=50",
	}, environment, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	want := defaults()
	want.Vaults = []credentials.VaultRule{
		{URL: "https://v.vault.azure.net", Namespaces: []string{"team-a"}, SecretNames: []string{"team-a-*"}},
	}
	want.VaultCertificateDirectory, want.StripForeignFinalizers, want.WatchNodes, want.MaxRunnersPerSet = "/akv", false,
		false, 50
	if difference := cmp.Diff(want, got); difference != "" {
		t.Errorf("options (-want +got):\n%s", difference)
	}
}

// commandLines are valid ones, each with what it changes in the defaults.
var commandLines = map[string]struct {
	arguments []string
	want      func(*manager.Options)
}{
	"defaults": {want: func(*manager.Options) {}},
	// The command lines that the charts of ARC 0.14 and ours render.
	"chart without metrics": {
		arguments: []string{
			"--auto-scaling-runner-set-only", "--log-level=debug", "--log-format=text",
			"--update-strategy=immediate",
			"--runner-max-concurrent-reconciles=2", "--listener-metrics-addr=0", "--listener-metrics-endpoint=",
			"--metrics-addr=0",
		},
		want: func(o *manager.Options) {
			o.RunnerWorkers, o.MetricsAddress, o.ListenerMetricsAddress, o.ListenerMetricsEndpoint = 2, "0", "0", ""
		},
	},
	"chart with everything": {
		arguments: []string{
			"--program=harrier", "--auto-scaling-runner-set-only", "--enable-leader-election", "--leader-election-id=release",
			"--auto-scaler-image-pull-secrets=a", "--auto-scaler-image-pull-secrets=b", "--log-level=warn",
			"--log-format=json",
			"--watch-single-namespace=runners", "--metrics-addr=:8081", "--pprof-addr=:6060",
			"--exclude-label-propagation-prefix=argocd.",
			"--k8s-client-rate-limiter-qps=50", "--k8s-client-rate-limiter-burst=60",
			"--workqueue-rate-limiter=typed_rate_limiter",
			"--health-probe-bind-address=:8082", "--allowed-github-url=https://github.com/acme",
			"--allowed-github-url=http://127.0.0.1:8080",
		},
		want: func(o *manager.Options) {
			o.LeaderElectionID = "release"
			o.ListenerPullSecrets, o.LogLevel, o.LogFormat = []string{"a", "b"}, "warn", "json"
			o.WatchNamespace, o.MetricsAddress, o.PprofAddress, o.HealthAddress = "runners", ":8081", ":6060",
				":8082"
			o.ExcludedLabelPrefixes, o.QPS, o.Burst = []string{"argocd."}, 50, 60
			o.AllowedGitHubURLs = []string{"https://github.com/acme", "http://127.0.0.1:8080"}
		},
	},
	"legacy flags": {
		arguments: []string{
			"--github-token", "s3cret", "--docker-image=x", "--port=9443", "--default-scale-down-delay=10m",
		},
		want: func(*manager.Options) {},
	},
	"legacy flag without an argument": {
		arguments: []string{"--runner-status-update-hook", "--watch-single-namespace=a"},
		want:      func(o *manager.Options) { o.WatchNamespace = "a" },
	},
	"leader election turned off": {arguments: []string{"--enable-leader-election=false"}, want: func(*manager.Options) {}},
	"outside of a cluster":       {arguments: []string{"--kubeconfig="}, want: func(*manager.Options) {}},
	"watch-namespace": {
		arguments: []string{"--watch-namespace=a"},
		want:      func(o *manager.Options) { o.WatchNamespace = "a" },
	},
	"watch-single-namespace wins": {
		arguments: []string{"--watch-single-namespace=b", "--watch-namespace=a"},
		want:      func(o *manager.Options) { o.WatchNamespace = "b" },
	},
	"single dash, level by number": {
		arguments: []string{"-log-level=-2"},
		want:      func(o *manager.Options) { o.LogLevel = "-2" },
	},
	"pods as they are": {
		arguments: []string{"--job-pod-metadata=false"},
		want:      func(o *manager.Options) { o.JobPodMetadata = false },
	},
	"no protection": {
		arguments: []string{"--job-pod-protection=false"},
		want:      func(o *manager.Options) { o.JobPodProtection = false },
	},
	"labels of ARC": {
		arguments: []string{"--listener-metrics-labels=arc"},
		want:      func(o *manager.Options) { o.ListenerMetricsLabels = "arc" },
	},
	"secure metrics": {
		arguments: []string{"--metrics-secure", "--metrics-cert-path=/certificate"},
		want:      func(o *manager.Options) { o.MetricsSecure, o.MetricsCertificates = true, "/certificate" },
	},
	"listener pods as they are": {
		arguments: []string{"--listener-template-policy=unrestricted"},
		want:      func(o *manager.Options) { o.ListenerTemplatePolicy = "unrestricted" },
	},
	"sidecars": {
		arguments: []string{"--listener-sidecar-images=a:1", "--listener-sidecar-images=b@sha256:0"},
		want:      func(o *manager.Options) { o.ListenerSidecarImages = []string{"a:1", "b@sha256:0"} },
	},
	"keys and classes of listeners": {
		arguments: []string{"--listener-metadata-keys=a", "--listener-metadata-keys=b/*",
			"--listener-priority-classes=c"},
		want: func(o *manager.Options) {
			o.ListenerMetadataKeys, o.ListenerPriorityClasses = []string{"a", "b/*"}, []string{"c"}
		},
	},
	"sync period": {arguments: []string{"--sync-period=1m"}, want: func(o *manager.Options) { o.SyncPeriod = time.Minute }},
}

func TestParseOptions(t *testing.T) {
	for name, test := range commandLines {
		t.Run(name, func(t *testing.T) {
			want := defaults()
			test.want(&want)
			got, err := manager.ParseOptions(test.arguments, environment, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			if difference := cmp.Diff(want, got); difference != "" {
				t.Errorf("options (-want +got):\n%s", difference)
			}
		})
	}
}

func TestParseOptionsRefuses(t *testing.T) {
	for argument, part := range map[string]string{
		"--log-level=loud":                         `--log-level="loud"`,
		"--log-format=xml":                         `--log-format="xml"`,
		"--workqueue-rate-limiter=fast":            "bucket_rate_limiter",
		"--runner-max-concurrent-reconciles=0":     "1 or more",
		"--k8s-client-rate-limiter-qps=-1":         "1 or more",
		"--k8s-client-rate-limiter-burst=0":        "1 or more",
		"--sync-period=0s":                         "positive",
		"--metrics-cert-path=/certificate":         "--metrics-secure",
		"--metrics-addr=8080":                      "HOST:PORT",
		"--health-probe-bind-address=:http-health": "HOST:PORT",
		"--listener-template-policy=none":          "use restricted or unrestricted",
		"--listener-template-policy=":              "use restricted or unrestricted",
		"--listener-sidecar-images=":               "empty",
		"--listener-metadata-keys=":                "empty",
		"--vaults=":                                "JSON list",
		"--vaults={}":                              "vaults",
		`--vaults=[{"url":"x"}]`:                   "entry 1: url",
		"--vault-certificate-directory=akv":        "absolute",
		"--max-runners-per-set=-1":                 "no limit",
		"--max-runners-per-set=2147483648":         "1 to 2147483647",
		"--program=other":                          "this is the manager of harrier",
		"--unknown":                                "unknown; manager --help lists the flags",
		"--allowed-github-url=github.com/acme":     "--allowed-github-url",
		"--allowed-github-url=https://u:p@x.com":   "no user name",
		"stray":                                    `"stray"`,
		"--auto-scaler-image-pull-secrets=":        "empty",
	} {
		usage := &strings.Builder{}
		_, err := manager.ParseOptions([]string{argument}, environment, usage)
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: got error %v, want one that says %q", argument, err, part)
		}
		if usage.Len() > 0 { // usage is printed only on request
			t.Errorf("%s: also prints %s", argument, usage)
		}
	}
}

func TestHelpNamesTheOtherCommands(t *testing.T) {
	usage := &strings.Builder{}
	if _, err := manager.ParseOptions([]string{"--help"}, environment, usage); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("got %v", err)
	}
	for _, part := range []string{"manager doctor", "manager validate", "-metrics-addr"} {
		if !strings.Contains(usage.String(), part) {
			t.Errorf("the usage does not name %q:\n%s", part, usage)
		}
	}
}

// The caches of a namespace that can't exist would never be filled, so the manager would start forever.
func TestANamespaceThatCannotExistIsRefused(t *testing.T) {
	for _, name := range []string{"watch-namespace", "watch-single-namespace"} {
		for _, value := range []string{"Bad NS", "Runners", "a.b", "-a", strings.Repeat("a", 64)} {
			_, err := manager.ParseOptions([]string{"--" + name + "=" + value, "--sync-period=0s"}, environment, io.Discard)
			if err != nil && strings.Count(err.Error(), "is not a namespace name") != 1 {
				t.Errorf("got error %v, want the flag that was given", err)
			}
			for _, part := range []string{fmt.Sprintf("--%s=%q", name, value), "positive"} {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("got error %v, want one that says %q", err, part)
				}
			}
		}
	}
}

func TestEnvironmentIsRequiredToRunOnly(t *testing.T) {
	empty := func(string) string { return "" }
	_, err := manager.ParseOptions(nil, empty, io.Discard)
	for _, variable := range []string{envNamespace, envImage} {
		if err == nil || !strings.Contains(err.Error(), variable) {
			t.Errorf("got %v, want an error that names %s", err, variable)
		}
	}
	if _, err := manager.ParseOptions([]string{"--check-uninstall"}, empty, io.Discard); err != nil {
		t.Errorf("the uninstall check needs no environment, got %v", err)
	}
}
