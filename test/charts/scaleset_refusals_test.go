package charts

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/internal/testkube"
)

const otherAddress = "use https://HOST/ORGANIZATION, https://HOST/OWNER/REPOSITORY or " +
	"https://HOST/enterprises/ENTERPRISE"

const emptyToken = "empty the one that you don't use, as with --set githubConfigSecret.github_token="

func TestScaleSetRefusals(t *testing.T) {
	t.Parallel()
	const auth = "A valid .Values.githubConfigSecret is required for setting auth with GitHub server, provide " +
		".Values.githubConfigSecret."
	const label = "each label must be a non-empty string of less than 256 characters"
	for _, test := range []struct{ values, want string }{
		{"githubConfigUrl: ''", ".Values.githubConfigUrl is required"},
		{"githubConfigUrl: null", ".Values.githubConfigUrl is required"},
		{
			"githubConfigUrl: https://github.com/enterprises/big\ngithubConfigSecret: {github_token: '', " +
				"github_app_id: 1, github_app_installation_id: 2, github_app_private_key: key}",
			"the key of a GitHub App, which can't register runners of an enterprise",
		},
		{"githubConfigSecret: ''", "Values.githubConfigSecret is required for setting auth with GitHub server."},
		{"githubConfigSecret: null", "Values.githubConfigSecret is required for setting auth with GitHub server."},
		{"githubConfigSecret: {github_token: ''}", auth + "github_token or .Values.githubConfigSecret.github_app_id."},
		{"githubConfigSecret: {github_token: null}", auth + "github_token or .Values.githubConfigSecret.github_app_id."},
		{"githubConfigSecret: {github_token: '', github_app_id: 1}", auth + "github_app_installation_id and .Values.githubConfigSecret.github_app_private_key."},
		{"githubConfigSecret: {github_app_id: 1, github_app_installation_id: 2}", "provide .Values.githubConfigSecret.github_app_installation_id and"},
		{
			"githubConfigSecret: {github_app_id: 1, github_app_installation_id: 2, github_app_private_key: key}",
			"has both github_token and github_app_id, but the controller takes either a token or a GitHub App: " +
				emptyToken,
		},
		{"githubConfigSecret: {github_app_installation_id: 2}", "has both github_token and github_app_installation_id"},
		{"maxRunners: 0\nminRunners: 1", "maxRunners has to be greater or equal to minRunners"},
		{"maxRunners: '9'\nminRunners: '10'", "maxRunners has to be greater or equal to minRunners"},
		{"maxRunners: 2147483648", "maxRunners has to be 2147483647 at most, not 2147483648"},
		{"maxRunners: '999999999999999999999'", "maxRunners has to be a whole number"},
		{"maxRunners: -1", "maxRunners has to be greater or equal to 0"},
		{"maxRunners: 1\nminRunners: -1", "minRunners has to be greater or equal to 0"},
		{"minRunners: '-1'", "minRunners has to be greater or equal to 0"},
		{"schedules: [{name: a, schedule: 0 7 * * *, duration: 1h, minRunners: '2147483648'}]", "schedules[0].minRunners has to be 2147483647 at most"},
		{"scaleSetLabels: [a, '']", "scaleSetLabels contains an empty string, " + label},
		{"scaleSetLabels: [null]", "scaleSetLabels contains an empty string, " + label},
		{"scaleSetLabels: [" + strings.Repeat("a", 256) + "]", "scaleSetLabels contains a label that is 256 characters or more, " + label},
		{"keyVault: {type: other}", "Unsupported keyVault type: other"},
		{"keyVault: {type: azure_key_vault, azureKeyVault: {url: u, tenantId: t, clientId: c}}", "keyVault.azureKeyVault.certificatePath is required"},
		{"runnerScaleSetName: " + strings.Repeat("a", 46), "Name must have up to 45 characters"},
		{"runnerScaleSetName: Linux-Large", `runnerScaleSetName is "Linux-Large", which gives no valid name for a Kubernetes object`},
		{"namespaceOverride: " + strings.Repeat("a", 64), "Namespace must have up to 63 characters"},
		{"githubServerTLS: {runnerMountPath: /ca, certificateFrom: {configMapKeyRef: {name: ca}}}", "githubServerTLS.certificateFrom.configMapKeyRef.key is required"},
		{"containerMode: {type: DinD}", `containerMode.type is "DinD", which is no mode: use dind, or leave it out for jobs without containers`},
		{"containerMode: {type: docker}", "use dind"},
		{"containerMode: {type: K8s}", "use kubernetes, which needs kubernetesModeWorkVolumeClaim, or kubernetes-novolume"},
		{"containerMode: {type: kubernetes_noVolume}", "use kubernetes-novolume"},
		{"containerMode: {type: dind, kubernetesModeHookTemplate: {spec: {}}}", "containerMode.kubernetesModeHookTemplate has an effect only if"},
		{"annotations: {id: 9007199254740993}", "is too long to be kept as it was written: put it in quotes"},
		{mode("dind") + "\ntemplate: {spec: {nodeSelector: {kubernetes.io/os: windows}}}", "containerMode.type is dind, which needs Linux"},
		{mode("kubernetes-novolume") + "\ntemplate: {spec: {os: {name: windows}}}", "containerMode.type is kubernetes-novolume, which needs Linux"},
		{certificateAt(`\`) + "\ntemplate: {spec: {os: {name: windows}}}", `runnerMountPath is \, but a directory of Windows runners`},
		{certificateAt(`C:\`), `has to be one below a drive, such as C:\ca`},
		{certificateAt("D:ca"), "has to be one below a drive"},
		{certificateAt(`\\server\share`), `has to be one below a drive`},
		{certificateAt(`//server/share`) + "\ntemplate: {spec: {os: {name: windows}}}", `has to be one below a drive`},
		{certificateAt(` C:\ca`), "remove the space around it"},
		{hookTemplate + "\n  kubernetesModeHookTemplateFrom: {configMapKeyRef: {name: a, key: b}}", "are mutually exclusive"},
	} {
		checkContains(t, refusal(t, scaleSet, minimal, test.values), test.want)
	}
	for release, namespace := range map[string]string{strings.Repeat("a", 46): "short",
		"short": strings.Repeat("a", 64)} {
		// The first message is about the name, whatever else is wrong.
		said := refusal(t, scaleSet.as(release, namespace), minimal, "githubConfigSecret: ''")
		checkContains(t, said, "must have up to")
	}
}

// An address in another form is refused with the form to use, and an unknown address with all forms.
func TestAddressRefusals(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ values, want string }{
		{"githubConfigUrl: https://github.com/orgs/acme", "not the address at which runners register; use https://github.com/acme"},
		{"githubConfigUrl: https://github.com/orgs/acme/repositories?type=all", "use https://github.com/acme"},
		{"githubConfigUrl: https://github.com/organizations/acme/settings/actions/", "use https://github.com/acme"},
		{"githubConfigUrl: https://github.com/acme/web.git", "use https://github.com/acme/web"},
		{"githubConfigUrl: https://github.com/acme/web/settings/actions/runners/new#top", "use https://github.com/acme/web"},
		{"githubConfigUrl: https://github.com/enterprises/big/settings/actions", "use https://github.com/enterprises/big"},
		{"githubConfigUrl: https://api.github.com/orgs/acme", "use https://github.com/acme"},
		{"githubConfigUrl: https://api.big.ghe.com/repos/acme/web/actions", "use https://big.ghe.com/acme/web"},
		{"githubConfigUrl: https://ghes.example/api/v3/orgs/acme", "use https://ghes.example/acme"},
		{"githubConfigUrl: git@github.com:acme/web.git", "use https://github.com/acme/web"},
		{"githubConfigUrl: ssh://git@github.com:22/acme/web.git", "use https://github.com/acme/web"},
		{"githubConfigUrl: github.com/acme", "use https://github.com/acme"},
		{"githubConfigUrl: https://uploads.github.com/repos/acme/web/releases", "use https://github.com/acme/web"},
		{"githubConfigUrl: https://raw.githubusercontent.com/acme/web/main/a.sh", "use https://github.com/acme/web"},
		{"githubConfigUrl: ssh://git@ssh.github.com:443/acme/web.git", "use https://github.com/acme/web"},
		{"githubConfigUrl: https://gist.github.com/acme", otherAddress},
		{"githubConfigUrl: https://acme.github.io", otherAddress},
		{"githubConfigUrl: https://api.github.com/users/acme", otherAddress},
		{"githubConfigUrl: https://api.github.com/organizations/123/teams", otherAddress},
		{"githubConfigUrl: https://ghes.example/api/v3/repositories/123", otherAddress},
		{"githubConfigUrl: github.com/users/acme/projects/1", otherAddress},
		{"githubConfigUrl: https://github.com/Settings/apps/x", otherAddress},
		{"githubConfigUrl: https://github.com/marketplace?type=actions", otherAddress},
		{"githubConfigUrl: https://ghes.example/apps/x", otherAddress},
		{"githubConfigUrl: https://github.com/enterprises/", otherAddress},
		{"githubConfigUrl: https://github.com/orgs//acme", otherAddress},
		{"githubConfigUrl: https://ghes.example/acme//web", otherAddress},
		{"githubConfigUrl: https://ghes.example//acme", otherAddress},
		{"githubConfigUrl: https://github.com/../acme", otherAddress},
		{"githubConfigUrl: https://github.com/", otherAddress},
		{"githubConfigUrl: https://github.com/acme?tab=members", "use https://github.com/acme"},
		{"githubConfigUrl: ' https://github.com/acme/web'", "use https://github.com/acme/web"},
		{"githubConfigUrl: HTTPS://github.com/acme", "use https://github.com/acme"},
	} {
		checkContains(t, refusal(t, scaleSet, minimal, test.values), test.want)
	}
}

// The chart's message about an address never contains a password, whichever characters it has: the refusal is left to
// the API server.
func TestAddressWithAPasswordIsNotShown(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"https://bot:s3cr?t@github.com/acme", "https://bot:s3cr/t?x@github.com/acme", "https://bot:s3cr/t@github.com/acme/web", "https://bot:s3cr@t@github.com/orgs/acme", "ssh://git:s3cr@github.com/acme/web.git",
	} {
		if _, said, _ := scaleSet.template(t, minimal,
			fmt.Sprintf("githubConfigUrl: %q", address)); strings.Contains(said, "s3cr") {
			t.Errorf("%s: the chart says %s", address, said)
		}
	}
}

// Values of ARC's experimental chart are refused with the key that replaces each. Empty values, as in a copy of that
// chart's values.yaml, aren't listed.
func TestValuesOfTheExperimentalChart(t *testing.T) {
	t.Parallel()
	said := refusal(t, scaleSet, minimal,
		"scaleset: {name: builders, minRunners: 0, labels: []}\nauth: {url: https://github.com/a, secretName: cred, "+
			"app: {clientId: ''}}",
		"runner: {mode: dind, dind: {copyRunnerExternals: false, container: {image: mine}}}")
	for _, part := range []string{
		"auth, runner, scaleset: values of actions-runner-controller's chart gha-runner-scale-set-experimental", "auth.secretName -> githubConfigSecret",
		"auth.url -> githubConfigUrl", "runner.mode -> containerMode.type", "runner.dind.container -> template.spec.initContainers, an entry named dind",
		"runner.dind.copyRunnerExternals -> no value", "scaleset.name -> runnerScaleSetName", "scaleset.minRunners -> minRunners",
	} {
		checkContains(t, said, part)
	}
	for _, part := range []string{"labels", "clientId", "runner.dind ->"} {
		check(t, part+" is listed", strings.Contains(said, part), false)
	}
	for _, values := range []string{"resource: {}", "runner: 5", "secretResolution: {type: ''}",
		"listenerPodTemplate: []"} {
		checkContains(t, refusal(t, scaleSet, minimal, values),
			"gha-runner-scale-set-experimental, which this chart doesn't have (docs/from-arc-experimental.md); "+
				"remove them")
	}
	// Also where no controller can be found.
	checkContains(t, refusal(t, scaleSet,
		"scaleset: {name: builders}\nauth: {url: https://github.com/a, secretName: cred}"),
		"auth.url -> githubConfigUrl")
	said = refusal(t, controller,
		"controller: {replicaCount: 2, pod: {metadata: {labels: {}}, spec: {nodeSelector: {a: b}}}}")
	checkContains(t, said,
		"controller: values of actions-runner-controller's chart gha-runner-scale-set-controller-experimental")
	checkContains(t, said, "controller.pod.spec.nodeSelector -> nodeSelector\n  controller.replicaCount -> "+
		"replicaCount\n")
}

// The tables in docs/from-arc-experimental.md have every key that the charts refuse, and each replacement is a value of
// the chart.
func TestExperimentalKeysAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "docs", "from-arc-experimental.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []chart{scaleSet, controller} {
		var keys map[string]string
		text, err := os.ReadFile(filepath.Join(c.directory(), "experimental-keys.yaml"))
		if err == nil {
			err = yaml.UnmarshalStrict(text, &keys)
		}
		if err != nil || len(keys) < 30 {
			t.Fatalf("%s: %d keys, %v", c.name, len(keys), err)
		}
		values, err := os.ReadFile(filepath.Join(root, "docs", "values-"+c.name+".md"))
		if err != nil {
			t.Fatal(err)
		}
		for key, instead := range keys {
			replacement, _, _ := strings.Cut(instead, ",")
			if strings.HasPrefix(instead, "no value;") {
				checkContains(t, string(page), "| `"+key+"` | nothing: ")
				continue
			}
			checkContains(t, string(page), "| `"+key+"` | `"+strings.ReplaceAll(replacement, " and ", "` and `")+"`")
			for value := range strings.SplitSeq(replacement, " and ") {
				checkContains(t, string(values), strings.TrimPrefix(value, "githubConfigSecret."))
			}
		}
	}
}

// The chart refuses exactly the names that Kubernetes refuses for objects.
func TestScaleSetNamesAreThoseOfObjects(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"a", "7", "a.b", "a__b", "1-a_b.c", "Linux-Large", "linux large", "abc-", "abc_", "_abc_", "-", ".a", "a.", "a..b", "a_.b", "a._b", "gpu+1", "ä", "a\nb",
	} {
		_, _, err := scaleSet.template(t, minimal, fmt.Sprintf("runnerScaleSetName: %q", name))
		check(t, "name "+name+" is taken", err == nil,
			validation.IsDNS1123Subdomain(strings.ReplaceAll(name, "_", "-")) == nil)
	}
}

// A pasted pod template may have metadata besides labels and annotations: ARC's chart leaves it out, or its controller
// ignores it.
func TestMetadataWithoutEffect(t *testing.T) {
	t.Parallel()
	const metadata = "{metadata: {name: mine, finalizers: [example.com/mine], creationTimestamp: null, labels: " +
		"{team: a}}}"
	set := runnerSet(t, scaleSet, "template: "+metadata, "listenerTemplate: "+metadata)
	check(t, "the runner's", set.Spec.Template.ObjectMeta, metav1.ObjectMeta{Labels: map[string]string{"team": "a"}})
	check(t, "the listener's labels", set.Spec.ListenerTemplate.Labels, map[string]string{"team": "a"})
	checkContains(t, refusal(t, scaleSet, minimal, "template: {metadata: {nickname: a}}"),
		"/template/metadata/nickname")
}

// An upgrade that keeps the token beside the keys of an App is refused with the way out. Null is none: Helm replaces it
// by the former value.
func TestTokenIsReplacedByApp(t *testing.T) {
	t.Parallel()
	helm := installer{cluster: testkube.Shared(t), version: "4"}
	release := []string{"set", scaleSet.directory(), "--namespace", helm.cluster.NewNamespace(t)}
	helm.succeed(t, append([]string{"install", "--set",
		"controllerServiceAccount.name=arc,controllerServiceAccount.namespace=arc-system",
		"--set", "githubConfigUrl=https://github.com/actions,githubConfigSecret.github_token=t"}, release...)...)
	upgrade := append([]string{"upgrade", "--reuse-values", "--set", "githubConfigSecret.github_app_id=1",
		"--set", "githubConfigSecret.github_app_installation_id=2,githubConfigSecret.github_app_private_key=k"}, release...)
	checkContains(t, helm.refused(t, upgrade...), emptyToken)
	helm.succeed(t, append(upgrade, "--set", "githubConfigSecret.github_token=")...)
}

// Without a cluster the controller can't be looked up.
func TestControllerAccountIsNeeded(t *testing.T) {
	t.Parallel()
	for field, other := range map[string]string{"name": "namespace", "namespace": "name"} {
		said := refusal(t, scaleSet, minimal, "controllerServiceAccount: {"+field+": null, "+other+": a}")
		checkContains(t, said,
			"No gha-rs-controller deployment found using label (app.kubernetes.io/part-of=gha-rs-controller). "+
				"Consider setting controllerServiceAccount."+field+
				" in values.yaml to be explicit if you think the discovery is wrong.")
	}
}

// --set turns some words into numbers or booleans. The chart reads them as words.
func TestScalarsAsNames(t *testing.T) {
	t.Parallel()
	roles := render(t, controller.with("--set", "flags.watchSingleNamespace=true,namespaceOverride=12,nameOverride=5"))
	check(t, "watched namespace", one[rbacv1.Role](t, roles, "manager_single_namespace_watch_role.yaml").Namespace,
		"true")
	check(t, "controller's", one[rbacv1.Role](t, roles, "manager_single_namespace_controller_role.yaml").Namespace,
		"12")
	check(t, "name", one[rbacv1.Role](t, roles, "manager_listener_role.yaml").Name, "arc-5-listener")
	set := runnerSet(t, scaleSet.with("--set", "namespaceOverride=12,runnerGroup=5,runnerScaleSetName=7"))
	check(t, "scale set", []string{set.Namespace, set.Name, set.Spec.RunnerGroup, set.Spec.RunnerScaleSetName},
		[]string{"12", "7", "5", "7"})
}

// A key that nobody reads is refused by name, unless ARC's chart documented it or it is the user's own.
func TestUnknownKeys(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ values, key string }{
		{"maxRuners: 5", "maxRuners"},
		{"containerMode: {tpye: dind}", "tpye"},
		{"controllerServiceAccount: {nane: a}", "nane"},
		{"resourceMeta: {runner: {labels: {}}}", "runner"},
		{"resourceMeta: {ephemeralRunner: {label: {}}}", "label"},
		{"template: {sepc: {}}", "sepc"},
		{"proxy: {htttp: {}}", "htttp"},
		{"keyVault: {azureKeyVault: {uri: u}}", "uri"},
		{"containerMode: {kubernetesModeHookTemplate: {spce: {}}}", "spce"},
		{"containerMode: {kubernetesModeAdditionalRoleRule: []}", "kubernetesModeAdditionalRoleRule"},
		{"listenerMetrics: {counters: {gha_started_jobs_total: {label: []}}}", "label"},
		{"template: {spec: {labels: {a: b}}}", "labels"},
		{"template: {spec: {containers: [{name: runner, imag: i}]}}", "imag"},
		{"template: {spec: {initContainers: [{name: i, comand: []}]}}", "comand"},
		{"listenerTemplate: {spec: {nodeSelectr: {}}}", "nodeSelectr"},
		{"listenerTemplate: {spec: {containers: [{name: listener, limits: {}}]}}", "limits"},
		{"githubServerTLS: {certificateFrom: {secretKeyRef: {name: ca}}}", "secretKeyRef"},
	} {
		checkContains(t, refusal(t, scaleSet, minimal, test.values), "'"+test.key+"' not allowed")
	}
	for _, test := range []struct{ values, path string }{
		{"maxRunners: many", "/maxRunners"},
		{"maxRunners: 1.5", "/maxRunners"},
		{"pendingTimeout: 10", "/pendingTimeout"},
		{"pendingTimeout: 9999999h", "/pendingTimeout"},
		{"registrationTimeout: 999999999999h", "/registrationTimeout"},
		{"sidecarGracePeriod: 20", "/sidecarGracePeriod"},
		{"jobGracePeriod: 2 minutes", "/jobGracePeriod"},
		{"containerMode: {type: dind, dindImage: docker dind}", "/containerMode/dindImage"},
		{"template: {spec: {containers: [{image: i}]}}", "/template/spec/containers/0"},
		{"githubServerTLS: {runnerMountPath: /ca}", "/githubServerTLS"},
		{"template: {spec: []}", "/template/spec"},
		{"scaleSetLabels: linux", "/scaleSetLabels"},
		{"enabled: false", "/enabled"},
		{"containerMode: dind", "/containerMode"},
		{"template: {spec: {containers: [{name: runner, env: {A: b}}]}}", "/template/spec/containers/0/env"},
		{"template: {spec: {containers: [{name: runner, env: [A=b]}]}}", "/template/spec/containers/0/env/0"},
		{"template: {spec: {initContainers: [{name: i, volumeMounts: [work]}]}}", "/template/spec/initContainers/0/volumeMounts/0"},
		{"template: {spec: {serviceAccountName: [a]}}", "/template/spec/serviceAccountName"},
		{"listenerTemplate: {spec: {containers: [{image: i}]}}", "/listenerTemplate/spec/containers/0"},
		{"listenerMetrics: {gauges: {gha_idle_runners: {labels: name}}}", "/listenerMetrics/gauges/gha_idle_runners/labels"},
		{"listenerMetrics: {histograms: {h: {buckets: ['1']}}}", "/listenerMetrics/histograms/h/buckets/0"},
		{"proxy: {https: {credentialSecretRef: a}}", "/proxy/https"},
		{"proxy: {http: http://proxy}", "/proxy/http"},
		{"failedHistoryLimit: -1", "/failedHistoryLimit"},
	} {
		checkContains(t, refusal(t, scaleSet, minimal, test.values), test.path)
	}
	renderSet(t, scaleSet,
		"enabled: true\nglobal: {a: b}\nx-anchors: {a: b}\nnameOverride: own\ncontainerMode: null\nproxy: "+
			"null\ngithubServerTLS: {}")
	render(t, controller, "global: {a: b}\nx-anchors: {a: b}\nmetrics: null\nflags: {updateStrategy: immediate}")
}

// The same for the controller. A level or format that would end its manager is refused before it starts.
func TestControllerUnknownKeys(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ values, want string }{
		{"logLevel: info", "'logLevel' not allowed"},
		{"resources: {limit: {cpu: 1}}", "'limit' not allowed"},
		{"imagePullSecrets: [{name: a, namespace: b}]", "'namespace' not allowed"},
		{"imagePullSecrets: [a]", "/imagePullSecrets/0"},
		{"env: {A: b}", "/env"},
		{"env: [A=b]", "/env/0"},
		{"volumeMounts: [tmp]", "/volumeMounts/0"},
		{"flags: [--log-level=info]", "/flags"},
		{"flags: {logLevel: trace}", "/flags/logLevel"},
		{"flags: {logFormat: xml}", "/flags/logFormat"},
		{"flags: {rateLimiter: {name: none}}", "/flags/rateLimiter/name"},
	} {
		checkContains(t, refusal(t, controller, test.values), test.want)
	}
	render(t, controller, "env: {}\nflags: {logLevel: '-2', logFormat: json, rateLimiter: {name: typed_rate_limiter}}")
	render(t, controller, "env: []\nflags: {logLevel: -2, logFormat: null, rateLimiter: null}")
}
