package charts

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

const runnerImage = "ghcr.io/actions/actions-runner:latest"

func TestSpecByDefault(t *testing.T) {
	t.Parallel()
	got := runnerSet(t, scaleSet)
	got.Spec.GitHubConfigSecretRevision = "" // see below
	withoutToken(&got.Spec.Template.Spec)
	check(t, "kind", got.APIVersion+" "+got.Kind, "actions.github.com/v1alpha1 AutoscalingRunnerSet")
	check(t, "spec", got.Spec, v1alpha1.AutoscalingRunnerSetSpec{
		GitHubConfigUrl:    "https://github.com/actions",
		GitHubConfigSecret: "test-runners-gha-rs-github-secret",
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy:      corev1.RestartPolicyNever,
			ServiceAccountName: "test-runners-gha-rs-no-permission",
			Containers: []corev1.Container{{Name: "runner", Image: runnerImage,
				Command: []string{"/home/runner/run.sh"}}},
		}},
	})
}

func TestSpecValues(t *testing.T) {
	t.Parallel()
	got := runnerSet(t, scaleSet, `
githubConfigUrl: https://github.com/actions/
scaleSetLabels: [gpu, 5]
runnerScaleSetName: linux
runnerGroup: group
maxRunners: 1000000
minRunners: 0
headroom: {percent: 20, max: 1000000}
scaleDownDelay: 5m
maxIdleTime: 12h
maxStartsPerMinute: "60"
schedules:
  - {name: office, schedule: "0 7 * * 1-5", duration: 11h, timeZone: Europe/Berlin, minRunners: "20", maxRunners: 1000000}
  - {name: 2, schedule: "30 1 * * *", duration: 90m, timeZone: null, minRunners: 0, maxRunners: null}
pendingTimeout: 5m
registrationTimeout: 90s
sidecarGracePeriod: 2m
jobGracePeriod: 110s
failedHistoryLimit: 0
proxy:
  http: {url: http://proxy:1, credentialSecretRef: one}
  https: {url: http://proxy:2}
  noProxy: [example.com]
githubServerTLS: {certificateFrom: {configMapKeyRef: {name: ca, key: ca.crt}}}
listenerTemplate: {spec: {hostname: h, containers: [{name: listener, image: i}]}}
listenerMetrics:
  counters: {c: {labels: [l]}}
  gauges: {g: {labels: [l]}}
  histograms: {h: {labels: [l], buckets: [0.5, 1]}}
template: {metadata: {labels: {l: 1}, annotations: {a: b}}}
`).Spec
	got.Template.Spec, got.GitHubConfigSecretRevision = corev1.PodSpec{}, ""
	check(t, "spec", got, v1alpha1.AutoscalingRunnerSetSpec{
		GitHubConfigUrl:      "https://github.com/actions",
		GitHubConfigSecret:   "linux-gha-rs-github-secret",
		RunnerScaleSetName:   "linux",
		RunnerScaleSetLabels: []string{"gpu", "5"},
		RunnerGroup:          "group",
		MaxRunners:           ptr.To(1000000),
		MinRunners:           ptr.To(0),
		FailedHistoryLimit:   ptr.To(0),
		PlannedCapacity: v1alpha1.PlannedCapacity{
			Headroom: &v1alpha1.Headroom{Percent: 20, Max: 1000000}, MaxStartsPerMinute: 60,
			ScaleDownDelay: &metav1.Duration{Duration: 5 * time.Minute},
			MaxIdleTime:    &metav1.Duration{Duration: 12 * time.Hour},
			Schedules: []v1alpha1.Schedule{
				{Name: "office", Schedule: "0 7 * * 1-5", Duration: metav1.Duration{Duration: 11 * time.Hour}, TimeZone: "Europe/Berlin", MinRunners: ptr.To(20), MaxRunners: ptr.To(1000000)},
				{Name: "2", Schedule: "30 1 * * *", Duration: metav1.Duration{Duration: 90 * time.Minute}, MinRunners: ptr.To(0)},
			},
		},
		RunnerTimeouts: v1alpha1.RunnerTimeouts{
			PendingTimeout:      &metav1.Duration{Duration: 5 * time.Minute},
			RegistrationTimeout: &metav1.Duration{Duration: 90 * time.Second},
			SidecarGracePeriod:  &metav1.Duration{Duration: 2 * time.Minute},
			JobGracePeriod:      &metav1.Duration{Duration: 110 * time.Second},
		},
		Proxy: &v1alpha1.ProxyConfig{
			HTTP:    &v1alpha1.ProxyServerConfig{Url: "http://proxy:1", CredentialSecretRef: "one"},
			HTTPS:   &v1alpha1.ProxyServerConfig{Url: "http://proxy:2"},
			NoProxy: []string{"example.com"},
		},
		GitHubServerTLS: &v1alpha1.TLSConfig{CertificateFrom: &v1alpha1.TLSCertificateSource{
			ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "ca"},
				Key: "ca.crt"},
		}},
		ListenerTemplate: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Hostname: "h", Containers: []corev1.Container{{Name: "listener", Image: "i"}},
		}},
		ListenerMetrics: &v1alpha1.MetricsConfig{
			Counters:   map[string]*v1alpha1.CounterMetric{"c": {Labels: []string{"l"}}},
			Gauges:     map[string]*v1alpha1.GaugeMetric{"g": {Labels: []string{"l"}}},
			Histograms: map[string]*v1alpha1.HistogramMetric{"h": {Labels: []string{"l"}, Buckets: []float64{0.5, 1}}},
		},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"a": "b"},
		}},
	})
}

// A string as in NO_PROXY; ARC's chart ignored it.
func TestNoProxyAsString(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"example.com":                            {"example.com"},
		".example.com, 10.0.0.0/8,,example.org,": {".example.com", "10.0.0.0/8", "example.org"},
		"a b":                                    {"a", "b"},
		"":                                       nil,
	} {
		got := runnerSet(t, scaleSet, fmt.Sprintf(`proxy: {http: {url: "http://proxy"}, noProxy: %q}`, text)).Spec.Proxy
		check(t, "proxy", got, &v1alpha1.ProxyConfig{HTTP: &v1alpha1.ProxyServerConfig{Url: "http://proxy"},
			NoProxy: want})
	}
}

// The API takes a template without containers, and the listener's own container stays in it.
func TestListenerTemplateWithoutContainers(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]corev1.PodSpec{
		"{spec: {nodeSelector: {role: management}}}": {NodeSelector: map[string]string{"role": "management"}},
		"{spec: {}}": {},
		"{spec: {priorityClassName: p, containers: null}}":        {PriorityClassName: "p"},
		"{metadata: {labels: {l: m}}, spec: {hostNetwork: true}}": {HostNetwork: true},
	} {
		want.Containers = []corev1.Container{{Name: "listener"}}
		check(t, values, runnerSet(t, scaleSet, "listenerTemplate: "+values).Spec.ListenerTemplate.Spec, want)
	}
}

// Numbers in quotes count; ARC's chart ignored them.
func TestRunnerCounts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		values   string
		max, min *int
	}{
		{"", nil, nil},
		{"maxRunners: null", nil, nil},
		{"maxRunners: ''", nil, nil},
		{"maxRunners: 5", ptr.To(5), nil},
		{"maxRunners: 2147483647", ptr.To(2147483647), nil},
		{"minRunners: '0000000000005'", nil, ptr.To(5)},
		{"maxRunners: '5'\nminRunners: '2'", ptr.To(5), ptr.To(2)},
		{"minRunners: 5", nil, ptr.To(5)},
		{"maxRunners: 0\nminRunners: 0", ptr.To(0), ptr.To(0)},
		{"maxRunners: '010'\nminRunners: '007'", ptr.To(10), ptr.To(7)}, // YAML would read octal numbers
		{"maxRunners: '00'\nminRunners: '-0'", ptr.To(0), ptr.To(0)},
	} {
		got := runnerSet(t, scaleSet, test.values).Spec
		check(t, "max with "+test.values, got.MaxRunners, test.max)
		check(t, "min with "+test.values, got.MinRunners, test.min)
	}
}

// ARC's values.yaml showed snake case, and the proxy inside of the vault; its template read camel case and the proxy
// outside. All of it works.
func TestKeyVault(t *testing.T) {
	t.Parallel()
	want := &v1alpha1.VaultConfig{
		Type: "azure_key_vault",
		AzureKeyVault: &v1alpha1.AzureKeyVaultConfig{
			URL: "https://vault", TenantID: "t", ClientID: "c", CertificatePath: "/p",
		},
		Proxy: &v1alpha1.ProxyConfig{HTTP: &v1alpha1.ProxyServerConfig{Url: "http://proxy"}},
	}
	for _, values := range []string{
		"azureKeyVault: {url: https://vault, tenantId: t, clientId: c, certificatePath: /p, secretKey: s}",
		"azureKeyVault: {url: https://vault, tenant_id: t, client_id: c, certificate_path: /p}",
		"azure_key_vault: {url: https://vault, tenant_id: t, client_id: c, certificate_path: /p}",
		"proxy: null, azure_key_vault: {url: https://vault, tenant_id: t, client_id: c, certificate_path: /p, proxy: {http: {url: http://proxy}}}",
	} {
		got := runnerSet(t, scaleSet,
			"githubConfigSecret: key\nkeyVault: {type: azure_key_vault, proxy: {http: {url: http://proxy}}}",
			"keyVault: {"+values+"}")
		check(t, values, got.Spec.VaultConfig, want)
		check(t, "secret", got.Spec.GitHubConfigSecret, "key")
	}
}

// An upgrade that changes nothing but credentials in the values changes the AutoscalingRunnerSet, and one that changes
// none of them doesn't.
func TestCredentialsInTheValuesHaveARevision(t *testing.T) {
	t.Parallel()
	const app = "githubConfigSecret: {github_token: null, github_app_id: %s, github_app_installation_id: 5, " +
		"github_app_private_key: key}"
	revision := func(values ...string) string {
		return runnerSet(t, scaleSet, values...).Spec.GitHubConfigSecretRevision
	}
	seen := map[string]string{}
	for _, values := range []string{
		"githubConfigSecret: {github_token: ghp_a}", "githubConfigSecret: {github_token: ghp_b}", fmt.Sprintf(app, "7"), fmt.Sprintf(app, "8"),
		`githubConfigSecret: {github_token: ghp_a}
githubConfigSecretRevision: mine`,
	} {
		got := revision(values)
		if other, taken := seen[got]; taken || got == "" {
			t.Errorf("%s has the revision %q of %s", values, got, other)
		}
		seen[got] = values
		check(t, values+", with others", revision(values, "minRunners: 1"), got)
	}
	check(t, "an id as number and as text", revision(fmt.Sprintf(app, `"7"`)), revision(fmt.Sprintf(app, "7")))
	check(t, "a Secret of the user's", revision("githubConfigSecret: mine"), "")
	check(t, "a Secret of the user's with a revision",
		revision("githubConfigSecret: mine\ngithubConfigSecretRevision: 20260701"), "20260701")
}
