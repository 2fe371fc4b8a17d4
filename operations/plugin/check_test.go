package plugin_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/testkube"
)

// preflight is a namespace, a GitHub, and values to be installed there.
type preflight struct {
	*testing.T
	cluster            *testkube.Cluster
	namespace, address string
}

func newPreflight(t *testing.T) *preflight {
	t.Helper()
	github := fakegithub.New(fakegithub.Options{PATs: []string{"mine"}})
	address, err := github.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(github.Close)
	p := &preflight{T: t, cluster: testkube.Shared(t), address: address + "/acme"}
	p.namespace = p.cluster.NewNamespace(t)
	return p
}

// check runs the command on values that name the controller's account, and returns its exit code and what it says.
func (p *preflight) check(values string, arguments ...string) (code int, said string) {
	p.Helper()
	return p.find("controllerServiceAccount: {name: arc, namespace: arc-systems}\n"+values, arguments...)
}

// find does so with values of which the chart looks for the controller.
func (p *preflight) find(values string, arguments ...string) (code int, said string) {
	p.Helper()
	file := filepath.Join(p.TempDir(), "values.yaml")
	values = "githubConfigUrl: " + p.address + "\ngithubConfigSecret: {github_token: mine}\n" + values
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		p.Fatal(err)
	}
	code, stdout, stderr := run(p.Context(), p.cluster.AdminKubeconfig(),
		append([]string{"check", "my-runners", "-f", file, "-n", p.namespace,
			"--allowed-github-url", strings.TrimSuffix(p.address, "/acme")}, arguments...)...)
	return code, stdout + stderr
}

// enforce sets the Pod Security Standard of the namespace.
func (p *preflight) enforce(level string) {
	p.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}}
	if err := p.cluster.Client().Patch(p.Context(), namespace, client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"`+level+`"}}}`))); err != nil {
		p.Fatal(err)
	}
}

// restrictedRunner is a runner that the Pod Security Standard restricted lets through.
const restrictedRunner = `
template:
  spec:
    securityContext: {runAsNonRoot: true, runAsUser: 1001, seccompProfile: {type: RuntimeDefault}}
    containers:
      - name: runner
        image: ghcr.io/actions/actions-runner:latest
        command: [/home/runner/run.sh]
        securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
`

// What is wrong before the installation is told before it, with whose step it is, and nothing stays behind.
func TestCheckBeforeAnInstallation(t *testing.T) {
	p := newPreflight(t)
	for name, test := range map[string]struct {
		level, values string
		code          int
		says, not     []string
	}{
		"nothing is wrong": {"", "", 0, []string{"✓ values", "✓ pod: the runner's pod", "✓ github: ",
			"✓ object: AutoscalingRunnerSet", "0 problems, 0 warnings, 0 could not be tried. Nothing was created."}, nil},
		"the runner's pod": {"baseline", "containerMode: {type: dind}", 1, []string{"✗ pod: the runner's pod: PodForbidden",
			`violates PodSecurity "baseline:latest"`, "To do, by the cluster's administrator"}, nil},
		"the job's pod": {"restricted", "containerMode: {type: kubernetes-novolume}\n" + restrictedRunner, 1,
			[]string{"✓ pod: the runner's pod", "✗ pod: the job's pod: PodForbidden", "kubernetesModeHookTemplate"}, nil},
		"jobs that need no pod": {"restricted", "containerMode: {type: kubernetes-novolume}\n" + restrictedRunner +
			"        env: [{name: ACTIONS_RUNNER_REQUIRE_JOB_CONTAINER, value: \"false\"}]\n", 0,
			[]string{"! pod: the job's pod"}, nil},
		"prepull": {"restricted", "prepull: {enabled: true}\n" + restrictedRunner, 0, []string{"✓ pod: pod of DaemonSet"}, nil},
		"a claim": {"", "containerMode: {type: kubernetes, kubernetesModeWorkVolumeClaim: {accessModes: [ReadWriteOnce], " +
			"storageClassName: nowhere, resources: {requests: {storage: 1Gi}}}}", 1,
			[]string{"StorageClass nowhere, which doesn't exist", "✓ claim: the claim of volume work"}, nil},
		"a class of pods": {"", "template: {spec: {priorityClassName: nowhere}}", 1,
			[]string{"no PriorityClass with name nowhere was found"}, nil},
		"an account": {"", "template: {spec: {serviceAccountName: nowhere}}", 1,
			[]string{`serviceaccount "nowhere" not found`}, nil},
		"a group": {"", "runnerGroup: nowhere", 1, []string{"✗ github", "RunnerGroupNotFound"}, nil},
		"values":  {"", "minRuners: 5", 1, []string{"✗ values", "minRuners"}, []string{"✓ pod"}},
	} {
		t.Run(name, func(t *testing.T) {
			if test.level != "" {
				p.enforce(test.level)
				defer p.enforce("privileged")
			}
			code, said := p.check(test.values)
			for _, part := range test.says {
				if code != test.code || !strings.Contains(said, part) {
					t.Errorf("ends with %d, want %d and %q:\n%s", code, test.code, part, said)
				}
			}
			for _, part := range test.not {
				if strings.Contains(said, part) {
					t.Errorf("says %q:\n%s", part, said)
				}
			}
		})
	}
	for _, list := range []client.ObjectList{&corev1.PodList{}, &corev1.SecretList{}, &corev1.PersistentVolumeClaimList{}} {
		if err := p.cluster.Client().List(t.Context(), list, client.InNamespace(p.namespace)); err != nil {
			t.Fatal(err)
		}
		if left := countOf(list); left > 0 {
			t.Errorf("left: %d of %T", left, list)
		}
	}
}

func countOf(list client.ObjectList) int {
	switch l := list.(type) {
	case *corev1.PodList:
		return len(l.Items)
	case *corev1.SecretList:
		return len(l.Items)
	case *corev1.PersistentVolumeClaimList:
		return len(l.Items)
	}
	return 0
}

// Where no namespace exists yet, another one stands for it, and that is said.
func TestCheckWithoutANamespace(t *testing.T) {
	p := newPreflight(t)
	like := p.namespace
	p.namespace = "not-there-yet"
	code, said := p.check("", "--try-in", like)
	if code != 0 || !strings.Contains(said, "! namespace: Namespace not-there-yet: NamespaceMissing") ||
		!strings.Contains(said, "tried in namespace "+like) || !strings.Contains(said, "✓ pod: the runner's pod") {
		t.Errorf("ends with %d:\n%s", code, said)
	}
	if code, said = p.check("", "--try-in", "not-there-either"); code != 2 || !strings.Contains(said, "--try-in") {
		t.Errorf("ends with %d:\n%s", code, said)
	}
}

// What GitHub refuses, or nobody can ask, has a reason; it can be left out.
func TestCheckOfGitHub(t *testing.T) {
	p := newPreflight(t)
	p.address = "http://harrier.invalid/acme"
	code, said := p.check("")
	if code != 1 || !strings.Contains(said, "✗ github: http://harrier.invalid/acme: HostNotFound") {
		t.Errorf("ends with %d:\n%s", code, said)
	}
	if code, said = p.check("", "--skip-github"); code != 0 || strings.Contains(said, "github:") {
		t.Errorf("ends with %d:\n%s", code, said)
	}
}

// Devices are claimed by templates, which are tried, too.
func TestCheckOfResourceClaims(t *testing.T) {
	p := newPreflight(t)
	const values = "template: {spec: {resourceClaims: [{name: gpu, resourceClaimTemplateName: gpus}]}}"
	code, said := p.check(values)
	if strings.Contains(said, "✗ claim: the ResourceClaim gpu: ResourceClaim: the cluster has no kind") && code == 1 {
		return // as Kubernetes 1.33 and older
	}
	if code != 1 || !strings.Contains(said, "there is no ResourceClaimTemplate "+p.namespace+"/gpus") {
		t.Errorf("ends with %d:\n%s", code, said)
	}
	template := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"spec": map[string]any{
		"devices": map[string]any{"requests": []any{map[string]any{"name": "gpu",
			"exactly": map[string]any{"deviceClassName": "nowhere"}}}}}}}}
	template.SetGroupVersionKind(schema.GroupVersionKind{Group: "resource.k8s.io", Version: "v1", Kind: "ResourceClaimTemplate"})
	template.SetNamespace(p.namespace)
	template.SetName("gpus")
	if err := p.cluster.Client().Create(t.Context(), template); err != nil {
		t.Fatal(err)
	}
	if code, said = p.check(values); code != 1 || !strings.Contains(said, "✓ claim: the ResourceClaim gpu") ||
		!strings.Contains(said, "there is no DeviceClass nowhere") {
		t.Errorf("ends with %d:\n%s", code, said)
	}
}

// The list is for programs, too, and the controller's chart has one.
func TestCheckForProgramsAndOfTheController(t *testing.T) {
	p := newPreflight(t)
	p.enforce("restricted")
	code, said := p.check("containerMode: {type: dind}", "-o", "json")
	var told struct {
		Checks []struct{ Check, Status, Object, Reason, Message, Fix, Whose string }
	}
	if err := json.Unmarshal([]byte(said), &told); err != nil || code != 1 {
		t.Fatalf("ends with %d, %v:\n%s", code, err, said)
	}
	refused := false
	for _, line := range told.Checks {
		refused = refused || line.Check == "pod" && line.Status == "problem" && line.Whose != "" && line.Fix != ""
	}
	if !refused {
		t.Errorf("%+v", told.Checks)
	}
	code, stdout, stderr := run(t.Context(), p.cluster.AdminKubeconfig(), "check", "arc", "--set", "replicaCount=2",
		"-n", p.namespace)
	if code != 0 || !strings.Contains(stdout, "✓ pod: pod of Deployment") || !strings.Contains(stdout, "✓ pod: pod of Job") {
		t.Errorf("ends with %d:\n%s%s", code, stdout, stderr)
	}
}

// The chart looks for the controller as it does in an installation. Without one the rest is tried all the same.
func TestCheckLooksForTheController(t *testing.T) {
	p := newPreflight(t)
	code, said := p.find("")
	if code != 1 || !strings.Contains(said, "✗ controller: ControllerMissing: no controller is installed") ||
		!strings.Contains(said, "✓ pod: the runner's pod") {
		t.Errorf("ends with %d:\n%s", code, said)
	}
	pod := map[string]string{"app": "controller"}
	controller := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "controller",
		Labels: map[string]string{"app.kubernetes.io/part-of": "gha-rs-controller",
			"actions.github.com/controller-service-account-name":      "arc",
			"actions.github.com/controller-service-account-namespace": p.namespace}},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: pod},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}}}
	if err := p.cluster.Client().Create(t.Context(), controller); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cluster.Client().Delete(context.WithoutCancel(t.Context()), controller) })
	if code, said = p.find(""); code != 0 || strings.Contains(said, "controller: Controller") {
		t.Errorf("ends with %d:\n%s", code, said)
	}
}
