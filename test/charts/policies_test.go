package charts

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/podtrial"
	"github.com/harrier-ci/harrier/internal/testkube"
)

// Common policies are played by the API server itself: each is a ValidatingAdmissionPolicy that warns, so that one dry
// run of an object tells of all policies. docs/policies.md has what comes out.
func TestPoliciesOfTheLibraries(t *testing.T) {
	t.Parallel()
	guard := newGuard(t)
	page := policiesPage(t)
	const all, prepulled = "history: {enabled: true}\nreplicaCount: 2", "prepull: {enabled: true}"
	shipped := map[string]map[string][]string{}
	for name, objects := range map[string][]*unstructured.Unstructured{
		"defaults": shippedObjects(t, []string{all}, []string{minimal, mode("kubernetes-novolume"), prepulled}),
		"restricted": shippedObjects(t, []string{all, platform(t, "restricted-controller.yaml")},
			[]string{platform(t, "restricted.yaml"), ofInstaller, prepulled}),
	} {
		shipped[name] = guard.failures(t, objects)
	}
	for _, p := range policies {
		row := fmt.Sprintf("| `%s` | %s | %s | %s |", p.name, p.asks, breaking(shipped["defaults"][p.name]),
			breaking(shipped["restricted"][p.name]))
		if page[p.name] != row {
			t.Errorf("docs/policies.md needs this row:\n%s", row)
		}
		delete(page, p.name)
	}
	for name := range page {
		t.Errorf("docs/policies.md has a row for %s, which no test tries", name)
	}
}

// ofInstaller are values that an installation without a cluster needs.
const ofInstaller = "\ncontrollerServiceAccount: {name: arc, namespace: arc-system}\n"

// platform returns a values file of docs/platforms.
func platform(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, "docs", "platforms", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// row matches a row of the table: policy, what it asks, what breaks it by default, and what with the values files.
var row = regexp.MustCompile("(?m)^\\| `([a-z0-9-]+)` \\|.*\\|$")

// policiesPage returns the rows of the page by the policy's name.
func policiesPage(t *testing.T) map[string]string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, "docs", "policies.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := map[string]string{}
	for _, found := range row.FindAllStringSubmatch(string(content), -1) {
		page[found[1]] = found[0]
	}
	return page
}

// breaking names objects in a cell.
func breaking(objects []string) string {
	if len(objects) == 0 {
		return "–"
	}
	return strings.Join(objects, ", ")
}

// guard asks an API server with all policies.
type guard struct {
	client    client.Client
	namespace string
	mu        sync.Mutex
	warnings  []string
}

// HandleWarningHeader remembers a warning of the API server.
func (g *guard) HandleWarningHeader(_ int, _ string, text string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.warnings = append(g.warnings, text)
}

// warned names a policy in a warning.
var warned = regexp.MustCompile(`ValidatingAdmissionPolicy 'policies-([a-z0-9-]+)'`)

// policyUser is the only one whose requests the policies see: other tests share the API server.
const policyUser = "policies"

func newGuard(t *testing.T) *guard {
	t.Helper()
	cluster := testkube.Shared(t)
	g := &guard{namespace: cluster.NewNamespace(t)}
	for _, p := range policies {
		policy, binding := p.objects()
		for _, object := range []client.Object{policy, binding} {
			if err := cluster.Client().Create(t.Context(), object); err != nil {
				t.Fatalf("%s: %v", p.name, err)
			}
			t.Cleanup(func() { _ = cluster.Client().Delete(t.Context(), object) })
		}
	}
	config := cluster.ConfigFor(t, testkube.User(policyUser, "system:masters"))
	config.WarningHandler = g
	var err error
	if g.client, err = client.New(config, client.Options{Scheme: cluster.Client().Scheme()}); err != nil {
		t.Fatal(err)
	}
	gomega.NewWithT(t).Eventually(func() []string { // the API server learns of policies by a watch of its own
		known := map[string]bool{}
		for _, object := range worst(g.namespace) {
			for _, name := range g.ask(t, object) {
				known[name] = true
			}
		}
		missing := []string{}
		for _, p := range policies {
			if !known[p.name] {
				missing = append(missing, p.name)
			}
		}
		return missing
	}, "1m", "200ms").Should(gomega.BeEmpty(), "policies that refuse nothing")
	return g
}

// ask returns the policies that an object breaks.
func (g *guard) ask(t *testing.T, object *unstructured.Unstructured) (broken []string) {
	t.Helper()
	g.mu.Lock()
	g.warnings = nil
	g.mu.Unlock()
	if err := g.client.Create(t.Context(), object.DeepCopy(), client.DryRunAll); client.IgnoreAlreadyExists(err) != nil {
		t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, text := range g.warnings {
		if found := warned.FindStringSubmatch(text); found != nil {
			broken = append(broken, found[1])
		} else if strings.Contains(text, "policies-") {
			t.Errorf("%s %s: %s", object.GetKind(), object.GetName(), text)
		}
	}
	return broken
}

// failures returns the objects that break each policy, by the policy's name.
func (g *guard) failures(t *testing.T, objects []*unstructured.Unstructured) map[string][]string {
	t.Helper()
	found := map[string]map[string]bool{}
	for _, object := range objects {
		object.SetNamespace(g.namespace)
		for _, name := range g.ask(t, object) {
			if found[name] == nil {
				found[name] = map[string]bool{}
			}
			found[name][shownAs(object)] = true
		}
	}
	sorted := map[string][]string{}
	for name, objects := range found {
		sorted[name] = slices.Sorted(maps.Keys(objects))
	}
	return sorted
}

// shownAs names an object as the page does.
func shownAs(object *unstructured.Unstructured) string {
	if name := object.GetAnnotations()["shown-as"]; name != "" {
		return name
	}
	switch kind := object.GetKind(); kind {
	case "Deployment":
		return "manager"
	case "StatefulSet":
		return "ledger"
	case "Job":
		return "uninstall check"
	case "DaemonSet":
		return "prepull"
	case "Role", "ClusterRole":
		return "Roles"
	case "RoleBinding", "ClusterRoleBinding":
		return "bindings"
	case "ServiceAccount":
		return "accounts"
	default:
		return kind
	}
}

// shippedObjects returns all objects of both charts with these values, and what the manager makes of them.
func shippedObjects(t *testing.T, ofController, ofSet []string) (objects []*unstructured.Unstructured) {
	t.Helper()
	add := func(content []byte, as string) *unstructured.Unstructured {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(content, &object.Object); err != nil {
			t.Fatal(err)
		}
		if as != "" {
			object.SetAnnotations(map[string]string{"shown-as": as})
		}
		objects = append(objects, object)
		return object
	}
	sets := render(t, scaleSet, ofSet...)
	for _, rendered := range []manifests{render(t, controller, ofController...), sets} {
		for _, documents := range rendered {
			for _, document := range documents {
				if !strings.Contains(document, "kind: CustomResourceDefinition") && strings.Contains(document, "kind:") {
					add([]byte(document), "")
				}
			}
		}
	}
	set := one[v1alpha1.AutoscalingRunnerSet](t, sets, "autoscalingrunnerset.yaml")
	runner := runnersPod(&set)
	hooks := podtrial.HooksOf(runner)
	template := ""
	if files := sets["hook_extension.yaml"]; len(files) > 0 {
		template = decode[corev1.ConfigMap](t, files[0]).Data["extension"]
	}
	job, err := hooks.JobPod(runner, template)
	if err != nil {
		t.Fatal(err)
	}
	add(asJSON(t, job), "job")
	runner.Spec.ServiceAccountName = "" // it comes with the chart, and a dry run leaves none
	runner.Annotations = nil
	add(asJSON(t, runner), "runner")
	for name, object := range listenersObjects(t, &set) {
		add(asJSON(t, object), name)
	}
	return objects
}

func asJSON(t *testing.T, object any) []byte {
	t.Helper()
	content, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// runnersPod returns a pod as the manager makes it: with an owner, labels, and the registration in a variable.
func runnersPod(set *v1alpha1.AutoscalingRunnerSet) *corev1.Pod {
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{
		Name: "runner", Namespace: set.Namespace, Annotations: set.Spec.Template.Annotations, Labels: map[string]string{v1alpha1.LabelScaleSetName: set.Name,
			v1alpha1.LabelScaleSetNamespace: set.Namespace, v1alpha1.LabelRunner: "True"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "EphemeralRunner",
			Name: "runner", UID: "1"}},
	}, Spec: *set.Spec.Template.Spec.DeepCopy()}
	maps.Copy(pod.Labels, set.Spec.Template.Labels)
	pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env, corev1.EnvVar{Name: "ACTIONS_RUNNER_INPUT_JITCONFIG",
		ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "runner"}, Key: "jitToken"}}})
	return pod
}

// listenersObjects returns what the manager makes for a listener: its golden pod, with what the set's template says of
// its resources, and its account and rights.
func listenersObjects(t *testing.T, set *v1alpha1.AutoscalingRunnerSet) map[string]client.Object {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, "internal", "controller", "autoscalinglistener", "listenerpod",
		"testdata", "plain.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	pod := decode[corev1.Pod](t, string(content))
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	pod.Spec.ServiceAccountName = ""
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "AutoscalingListener",
		Name: "listener", UID: "1"}}
	if template := set.Spec.ListenerTemplate; template != nil {
		pod.Spec.Containers[0].Resources = template.Spec.Containers[0].Resources
	}
	pod.Spec.Containers[0].Image = "registry.example.com/gha-runner-scale-set-controller:0.1.0"
	named := metav1.ObjectMeta{Name: "listener", Labels: pod.Labels}
	return map[string]client.Object{
		"listener": &pod,
		"accounts": &corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
			ObjectMeta: named, AutomountServiceAccountToken: new(false)},
		"Roles": &rbacv1.Role{TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "Role"},
			ObjectMeta: named, Rules: []rbacv1.PolicyRule{{APIGroups: []string{v1alpha1.GroupVersion.Group},
				Resources: []string{"ephemeralrunnersets", "ephemeralrunners/status"}, Verbs: []string{"get", "patch"}}}},
	}
}

// objects returns the policy, which warns of what it would refuse, and its binding.
func (p *libraryPolicy) objects() (client.Object, client.Object) {
	var rules []admissionregistrationv1.NamedRuleWithOperations
	for _, of := range kindsOf[p.about] {
		group, resource, _ := strings.Cut(of, "/")
		rules = append(rules, admissionregistrationv1.NamedRuleWithOperations{
			RuleWithOperations: admissionregistrationv1.RuleWithOperations{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule: admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{"v1"},
					Resources: []string{resource}},
			}})
	}
	name := "policies-" + p.name
	return &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
				MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: rules},
				MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "ours",
					Expression: fmt.Sprintf("request.userInfo.username == %q", policyUser)}},
				Variables:   variablesOf[p.about],
				Validations: []admissionregistrationv1.Validation{{Expression: p.expression, Message: p.asks}},
			}},
		&admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: name,
				ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Warn}}}
}
