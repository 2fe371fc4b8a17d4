package charts

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// runnerSet renders the scale set with the minimal values and more.
func runnerSet(t *testing.T, c chart, values ...string) v1alpha1.AutoscalingRunnerSet {
	t.Helper()
	return one[v1alpha1.AutoscalingRunnerSet](t, renderSet(t, c, values...), "autoscalingrunnerset.yaml")
}

func renderSet(t *testing.T, c chart, values ...string) manifests {
	t.Helper()
	return render(t, c, append([]string{minimal}, values...)...)
}

func mode(name string) string { return "containerMode: {type: " + name + "}" }

// chartLabels returns the labels of every object of the scale set with the name.
func chartLabels(name, component string) map[string]string {
	labels := map[string]string{
		"helm.sh/chart":                          "gha-rs-0.1.0",
		"app.kubernetes.io/name":                 name,
		"app.kubernetes.io/instance":             name,
		"app.kubernetes.io/version":              "0.1.0",
		"app.kubernetes.io/managed-by":           "Helm",
		"app.kubernetes.io/part-of":              "gha-rs",
		"actions.github.com/scale-set-name":      name,
		"actions.github.com/scale-set-namespace": "arc-runners",
	}
	if component != "" {
		labels["app.kubernetes.io/component"] = component
	}
	return labels
}

func TestScaleSetNamesAndLabels(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ values, name, prefix, ofRoles string }{
		{"", "test-runners", "test-runners", "test-runners"},
		{"runnerScaleSetName: linux_x64", "linux_x64", "linux-x64", "linux_x64"}, // as in ARC
		{"runnerScaleSetName: " + strings.Repeat("a", 41), strings.Repeat("a", 41), strings.Repeat("a", 41), strings.Repeat("a", 41)},
	} {
		for containerMode, files := range map[string]map[string]string{
			"kubernetes": {
				"githubsecret.yaml": "-gha-rs-github-secret", "kube_mode_role.yaml": "-gha-rs-kube-mode",
				"kube_mode_role_binding.yaml": "-gha-rs-kube-mode", "kube_mode_serviceaccount.yaml": "-gha-rs-kube-mode",
				"manager_role.yaml": "-gha-rs-manager", "manager_role_binding.yaml": "-gha-rs-manager",
				"manager_pod_metadata_role.yaml": "-gha-rs-pod-metadata", "manager_pod_metadata_role_binding.yaml": "-gha-rs-pod-metadata",
				"autoscalingrunnerset.yaml": "",
			},
			"none": {"no_permission_serviceaccount.yaml": "-gha-rs-no-permission"},
		} {
			rendered := renderSet(t, scaleSet, mode(containerMode), test.values)
			for file, suffix := range files {
				object := decode[object](t, rendered[file][0]).Metadata
				prefix := test.prefix
				if arcRoles[file] {
					prefix = test.ofRoles
				}
				check(t, file, object.Namespace+"/"+object.Name, "arc-runners/"+prefix+suffix)
				check(t, "labels of "+file, object.Labels, chartLabels(test.name, components[file]))
				check(t, "finalizers of "+file, len(object.Finalizers), 0)
			}
		}
	}
}

// arcRoles are the Roles and bindings that ARC's chart has, too.
var arcRoles = map[string]bool{
	"kube_mode_role.yaml":         true,
	"kube_mode_role_binding.yaml": true,
	"manager_role.yaml":           true,
	"manager_role_binding.yaml":   true,
}

var components = map[string]string{
	"autoscalingrunnerset.yaml":              "autoscaling-runner-set",
	"manager_role.yaml":                      "manager-role",
	"manager_role_binding.yaml":              "manager-role-binding",
	"manager_pod_metadata_role.yaml":         "manager-role",
	"manager_pod_metadata_role_binding.yaml": "manager-role-binding",
}

// object has any object's metadata. Its other fields only satisfy strict decoding.
type object struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   objectMetadata `json:"metadata"`
	Spec       any            `json:"spec"`
	Data       any            `json:"data"`
	Rules      any            `json:"rules"`
	RoleRef    any            `json:"roleRef"`
	Subjects   any            `json:"subjects"`
	Automount  any            `json:"automountServiceAccountToken"`
}

type objectMetadata struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	Finalizers  []string          `json:"finalizers"`
}

func TestScaleSetNamespaceOverride(t *testing.T) {
	t.Parallel()
	for _, containerMode := range []string{"none", "kubernetes"} {
		for file, documents := range renderSet(t, scaleSet, "namespaceOverride: elsewhere", mode(containerMode)) {
			got := decode[object](t, documents[0]).Metadata
			check(t, "namespace of "+file, got.Namespace, "elsewhere")
			check(t, "label of "+file, got.Labels["actions.github.com/scale-set-namespace"], "elsewhere")
		}
	}
}

// The ARS names the objects of the chart by annotations: ARC's controller would look for them.
func TestCleanupAnnotations(t *testing.T) {
	t.Parallel()
	always := map[string]string{
		"cleanup-manager-role-binding": "test-runners-gha-rs-manager",
		"cleanup-manager-role-name":    "test-runners-gha-rs-manager",
	}
	secret := map[string]string{"cleanup-github-secret-name": "test-runners-gha-rs-github-secret"}
	none := map[string]string{"cleanup-no-permission-service-account-name": "test-runners-gha-rs-no-permission"}
	kube := map[string]string{
		"cleanup-kubernetes-mode-role-binding-name":    "test-runners-gha-rs-kube-mode",
		"cleanup-kubernetes-mode-role-name":            "test-runners-gha-rs-kube-mode",
		"cleanup-kubernetes-mode-service-account-name": "test-runners-gha-rs-kube-mode",
	}
	const own = "template: {spec: {serviceAccountName: own}}"
	for _, test := range []struct {
		values string
		want   map[string]string
	}{
		{"", extended(extended(always, secret), none)},
		{mode("dind"), extended(extended(always, secret), none)},
		{mode("kubernetes"), extended(extended(always, secret), kube)},
		{mode("kubernetes-novolume"), extended(extended(always, secret), kube)},
		{"githubConfigSecret: own-secret", extended(always, none)},
		{own, extended(always, secret)},
		{own + "\n" + mode("kubernetes"), extended(always, secret)},
	} {
		got := map[string]string{}
		for key, value := range runnerSet(t, scaleSet, test.values).Annotations {
			if name, found := strings.CutPrefix(key, "actions.github.com/"); found && name != "values-hash" {
				got[name] = value
			}
		}
		check(t, "annotations with "+test.values, got, test.want)
	}
}

func TestValuesHash(t *testing.T) {
	t.Parallel()
	hash := func(values string) string {
		return runnerSet(t, scaleSet, values).Annotations["actions.github.com/values-hash"]
	}
	check(t, "length", len(hash("")), 63)
	check(t, "hash of the same values", hash("maxRunners: 5"), hash("maxRunners: 5"))
	if hash("maxRunners: 5") == hash("maxRunners: 6") {
		t.Error("the hash doesn't change with the values")
	}
}

func TestScaleSetTemplatesByMode(t *testing.T) {
	t.Parallel()
	always := []string{
		"autoscalingrunnerset.yaml", "manager_pod_metadata_role.yaml", "manager_pod_metadata_role_binding.yaml",
		"manager_role.yaml", "manager_role_binding.yaml", "poddisruptionbudget.yaml",
	}
	kube := []string{"kube_mode_role.yaml", "kube_mode_role_binding.yaml", "kube_mode_serviceaccount.yaml"}
	none := []string{"no_permission_serviceaccount.yaml"}
	secret := []string{"githubsecret.yaml"}
	const own = "\ntemplate: {spec: {serviceAccountName: own}}"
	for values, want := range map[string][]string{
		"":                                sorted(always, none, secret),
		mode("none"):                      sorted(always, none, secret),
		mode("dind"):                      sorted(always, none, secret),
		mode("kubernetes"):                sorted(always, kube, secret),
		mode("kubernetes-novolume"):       sorted(always, kube, secret),
		"githubConfigSecret: own":         sorted(always, none),
		hookTemplate:                      sorted(always, kube, secret, []string{"hook_extension.yaml"}),
		own:                               sorted(always, secret),
		mode("kubernetes") + own:          sorted(always, secret),
		mode("kubernetes-novolume") + own: sorted(always, secret),
	} {
		check(t, "templates with "+values, sortedKeys(renderSet(t, scaleSet, values)), want)
	}
	_, stderr, _ := scaleSet.with("--show-only", "templates/githubsecret.yaml").template(t, minimal,
		"githubConfigSecret: own")
	checkContains(t, stderr, "could not find template templates/githubsecret.yaml in chart")
}

func TestScaleSetRules(t *testing.T) {
	t.Parallel()
	const tls = "githubServerTLS: {certificateFrom: {configMapKeyRef: {name: ca}}}"
	base := []string{
		"/pods: create delete get",
		"/pods/status: get",
		"/secrets: create delete get list patch update",
		"/serviceaccounts: patch",
		rbacGroup + "rolebindings: create delete patch",
		rbacGroup + "roles: create delete patch",
		"batch/jobs: delete list",
	}
	kube := []string{
		"/pods: get list create delete",
		"/pods/exec: get create",
		"/pods/log: get list watch",
		"batch/jobs: get list create delete",
		"/secrets: get list create delete",
	}
	const claims = `volumeClaimTemplates: [{metadata: {name: cache}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]`
	const more = `containerMode: {kubernetesModeAdditionalRoleRules: [{apiGroups: [apps], resources: [deployments], verbs: [get]}]}`
	for _, test := range []struct {
		file, values string
		want         []string
	}{
		{"manager_role.yaml", "", base},
		{"manager_role.yaml", tls, append(base, "/configmaps: get")},
		// in this mode, Events say why a runner's work volume isn't there
		{"manager_pod_metadata_role.yaml", "", []string{"/pods: patch", "policy/poddisruptionbudgets: list", "/events: list"}},
		{"manager_pod_metadata_role.yaml", "protectRunners: None", []string{"/pods: patch", "/events: list"}},
		{"manager_pod_metadata_role.yaml", "protectRunners: None\ntemplate: {spec: {volumes: [{name: work, emptyDir: {}}], " +
			"containers: [{name: runner, image: runner}]}}", []string{"/pods: patch"}},
		{"manager_pod_metadata_role.yaml", "protectRunners: None\n" + claims, []string{
			"/pods: patch", "/persistentvolumeclaims: create delete get patch", "/events: list"}},
		{"manager_pod_metadata_role.yaml", "protectRunners: None\nvolumeClaimPool: {max: 3}", []string{
			"/pods: patch", "/persistentvolumeclaims: create delete get patch", "/events: list"}},
		{"kube_mode_role.yaml", mode("kubernetes"), kube},
		{"kube_mode_role.yaml", mode("kubernetes-novolume"), append(append([]string{}, kube[:3]...), kube[4])},
		{"kube_mode_role.yaml", more, append(kube, "apps/deployments: get")},
	} {
		role := one[rbacv1.Role](t, renderSet(t, scaleSet, mode("kubernetes"), test.values), test.file)
		check(t, test.file+" with "+test.values, rules(role.Rules), test.want)
	}
}

func TestScaleSetBindings(t *testing.T) {
	t.Parallel()
	manager := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: "arc", Namespace: "arc-system"}
	runner := rbacv1.Subject{
		Kind:      rbacv1.ServiceAccountKind,
		Name:      "test-runners-gha-rs-kube-mode",
		Namespace: "arc-runners",
	}
	for file, want := range map[string]rbacv1.Subject{
		"manager_role_binding.yaml":              manager,
		"manager_pod_metadata_role_binding.yaml": manager,
		"kube_mode_role_binding.yaml":            runner,
	} {
		binding := one[rbacv1.RoleBinding](t, renderSet(t, scaleSet, mode("kubernetes")), file)
		check(t, "subjects of "+file, binding.Subjects, []rbacv1.Subject{want})
		check(t, "role of "+file, binding.RoleRef, rbacv1.RoleRef{
			APIGroup: rbacv1.GroupName,
			Kind:     "Role",
			Name:     binding.Name,
		})
	}
}

// Numbers come out as they were written, also those that YAML's floats would print as 1.2345678e+07.
func TestCredentials(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		values string
		want   map[string]string
	}{
		{"", map[string]string{"github_token": "gh_token12345"}},
		{
			"githubConfigSecret: {github_token: '', github_app_id: 12345678, github_app_installation_id: '100', " +
				"github_app_private_key: key}",
			map[string]string{"github_app_id": "12345678", "github_app_installation_id": "100",
				"github_app_private_key": "key"},
		},
		{"githubConfigSecret: {other: 1.5, empty: null}", map[string]string{"github_token": "gh_token12345", "other": "1.5"}},
	} {
		got := map[string]string{}
		for key, value := range one[corev1.Secret](t, renderSet(t, scaleSet, test.values), "githubsecret.yaml").Data {
			got[key] = string(value)
		}
		check(t, "secret with "+test.values, got, test.want)
		check(t, "its name", runnerSet(t, scaleSet, test.values).Spec.GitHubConfigSecret,
			"test-runners-gha-rs-github-secret")
	}
	check(t, "own secret", runnerSet(t, scaleSet, "githubConfigSecret: own").Spec.GitHubConfigSecret, "own")
}
