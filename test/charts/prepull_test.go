package charts

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/internal/testkube"
)

func prepull(t *testing.T, values ...string) appsv1.DaemonSet {
	t.Helper()
	return one[appsv1.DaemonSet](t, renderSet(t, scaleSet, append(values, "prepull: {enabled: true}")...),
		"prepull.yaml")
}

func imagesOf(set appsv1.DaemonSet) []string {
	return names(set.Spec.Template.Spec.Containers, func(c corev1.Container) string { return c.Image })
}

func TestPrepullHasTheRunnersImages(t *testing.T) {
	t.Parallel()
	const usual = "ghcr.io/actions/actions-runner:latest"
	for values, want := range map[string][]string{
		"":           {usual},
		mode("dind"): {usual, "docker:dind"},
		"template: {spec: {containers: [{name: runner, image: own}, {name: side, image: side}], initContainers: [{name: i, image: own}]}}": {"own", "side"},
		"prepull: {images: [job, " + usual + ", null, '']}": {usual, "job"},
	} {
		check(t, "images with "+values, imagesOf(prepull(t, values)), want)
	}
	check(t, "without being enabled", len(renderSet(t, scaleSet, "prepull: {images: [job]}")["prepull.yaml"]), 0)
	checkContains(t, refusal(t, scaleSet, minimal,
		"prepull: {enabled: true}\ntemplate: {spec: {nodeSelector: {kubernetes.io/os: windows}}}"),
		"the runners are on Windows")
}

func TestPrepullIsWhereRunnersMayBe(t *testing.T) {
	t.Parallel()
	const nodes = `
template:
  spec:
    nodeSelector: {pool: runners}
    tolerations: [{key: runners, operator: Exists}]
    imagePullSecrets: [{name: registry}]
    affinity:
      nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}
      podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: []}
`
	got := prepull(t, nodes).Spec.Template.Spec
	check(t, "nodes", got.NodeSelector, map[string]string{"pool": "runners"})
	check(t, "tolerations", got.Tolerations, []corev1.Toleration{{Key: "runners", Operator: corev1.TolerationOpExists}})
	check(t, "pull secrets", got.ImagePullSecrets, []corev1.LocalObjectReference{{Name: "registry"}})
	check(t, "has node affinity", got.Affinity.NodeAffinity != nil, true)
	check(t, "has pod affinity", got.Affinity.PodAntiAffinity != nil, false)
	got = prepull(t, nodes, "prepull: {nodeSelector: {big: true}, tolerations: [{key: big}]}").Spec.Template.Spec
	check(t, "given nodes", got.NodeSelector, map[string]string{"big": "true"})
	check(t, "given tolerations", got.Tolerations, []corev1.Toleration{{Key: "big"}})
	check(t, "has affinity", got.Affinity != nil, false)
}

// The user's account for the runners may have the pull secrets, and the rights to be admitted. The chart's accounts
// have neither.
func TestPrepullHasTheUsersAccount(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{
		"": "", mode("kubernetes-novolume"): "", "template: {spec: {serviceAccountName: own}}": "own",
		mode("kubernetes-novolume") + "\ntemplate: {spec: {serviceAccountName: own}}": "own",
	} {
		pod := prepull(t, values).Spec.Template.Spec
		check(t, "account with "+values, pod.ServiceAccountName, want)
		check(t, "gets a token with "+values, *pod.AutomountServiceAccountToken, false)
	}
}

// A variant has a DaemonSet of its own only for images, nodes or an account of its own.
func TestPrepullOfVariants(t *testing.T) {
	t.Parallel()
	rendered := renderSet(t, scaleSet, `
prepull: {enabled: true}
variants:
  - {name: same, scaleSetLabels: [a]}
  - {name: image, template: {spec: {containers: [{name: runner, image: own}]}}}
  - {name: node, template: {spec: {nodeSelector: {a: b}}}}
  - {name: account, template: {spec: {serviceAccountName: own}}}
`)
	var found []string
	for _, document := range append(rendered["prepull.yaml"], rendered["variants.yaml"]...) {
		if strings.Contains(document, "\nkind: DaemonSet\n") {
			set := decode[appsv1.DaemonSet](t, document)
			found = append(found, set.Name+" "+strings.Join(imagesOf(set), " "))
		}
	}
	check(t, "DaemonSets", found, []string{
		"test-runners-gha-rs-prepull ghcr.io/actions/actions-runner:latest", "test-runners-image-gha-rs-prepull own",
		"test-runners-node-gha-rs-prepull ghcr.io/actions/actions-runner:latest",
		"test-runners-account-gha-rs-prepull ghcr.io/actions/actions-runner:latest",
	})
}

// An API server that enforces the Pod Security Standard "restricted" takes its pods. They are small, and no other
// object of the set takes them for runners.
func TestPrepullIsRestrictedAndSmall(t *testing.T) {
	t.Parallel()
	cluster := testkube.Shared(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "restricted-prepull",
		Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "default"}}
	for _, object := range []client.Object{namespace, account} {
		if err := client.IgnoreAlreadyExists(cluster.Client().Create(t.Context(), object)); err != nil {
			t.Fatal(err)
		}
	}
	const values = "protectRunners: All\nlabels: {team: ci}\ncontainerMode: {type: dind}"
	set := prepull(t, values)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "pod"},
		Spec: set.Spec.Template.Spec}
	if err := cluster.Client().Create(t.Context(), pod, client.DryRunAll); err != nil {
		t.Error(err)
	}
	for _, container := range set.Spec.Template.Spec.Containers {
		check(t, "writes to its own file system", *container.SecurityContext.ReadOnlyRootFilesystem, true)
		check(t, "CPU and memory",
			container.Resources.Requests.Cpu().String()+" "+container.Resources.Requests.Memory().String(), "1m 2Mi")
	}
	check(t, "gets a token", *set.Spec.Template.Spec.AutomountServiceAccountToken, false)
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil || !selector.Matches(labels.Set(set.Spec.Template.Labels)) {
		t.Errorf("its own pods aren't selected: %v", err)
	}
	check(t, "label of the user's", set.Spec.Template.Labels["team"], "ci")
	budget := one[policyv1.PodDisruptionBudget](t, renderSet(t, scaleSet, values), "poddisruptionbudget.yaml")
	if selector, err = metav1.LabelSelectorAsSelector(budget.Spec.Selector); err != nil ||
		selector.Matches(labels.Set(set.Spec.Template.Labels)) {
		t.Errorf("its pods are protected as if they were runners: %v", err)
	}
}
