package charts

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// clashing has labels and annotations of the chart, and some of the user's several times.
const clashing = metricsOn + `  secure: true
labels:
  team: a
  app.kubernetes.io/part-of: mine
  app.kubernetes.io/instance: mine
  app.kubernetes.io/component: mine
  actions.github.com/controller-service-account-name: mine
podLabels: {app.kubernetes.io/version: mine, app.kubernetes.io/name: mine, app.kubernetes.io/component: mine}
podAnnotations: {kubectl.kubernetes.io/default-container: mine}
monitoring:
  podMonitor: {enabled: true, labels: {team: b, app.kubernetes.io/part-of: mine}}
  prometheusRule: {enabled: true, labels: {team: b}}
  dashboards: {enabled: true, labels: {team: b}}
`

const services = "monitoring: {podMonitor: {enabled: false}, serviceMonitor: {enabled: true, labels: {team: b}}}"

// kustomize and other readers of YAML refuse a map with the same key twice, as decoding does here.
func TestNoKeyIsRenderedTwice(t *testing.T) {
	t.Parallel()
	for _, more := range []string{"", services, "replicaCount: 2\nnetworkPolicy: {enabled: true}"} {
		for _, documents := range render(t, controller, clashing, more) {
			for _, document := range documents {
				decode[unstructured.Unstructured](t, document)
			}
		}
	}
}

// Labels for one kind of object win over labels for all, and the chart's over both: objects are found by them.
func TestChartsLabelsWin(t *testing.T) {
	t.Parallel()
	rendered := render(t, controller, clashing)
	for _, file := range []string{"podmonitor.yaml", "prometheusrule.yaml", "dashboards.yaml"} {
		labels := decode[object](t, rendered[file][0]).Metadata.Labels
		check(t, "labels of "+file, labels["team"]+" "+labels["app.kubernetes.io/part-of"], "b gha-rs-controller")
	}
	got, plain := one[appsv1.Deployment](t, rendered, "deployment.yaml"), deployment(t)
	check(t, "labels", got.Labels, extended(plain.Labels, map[string]string{
		"team":                        "a",
		"app.kubernetes.io/component": "mine",
	}))
	check(t, "labels of the pod", got.Spec.Template.Labels, plain.Spec.Template.Labels)
	check(t, "annotations of the pod", got.Spec.Template.Annotations, plain.Spec.Template.Annotations)
}

// Budget, monitors and NetworkPolicy of the controller never select a listener, whatever labels its scale set gives it.
func TestOnlyTheControllersPodsAreSelected(t *testing.T) {
	t.Parallel()
	own := labels.Set(deployment(t).Spec.Template.Labels)
	listener := labels.Set(extended(own, map[string]string{
		v1alpha1.LabelPartOf:    v1alpha1.PartOfScaleSet,
		v1alpha1.LabelComponent: v1alpha1.ComponentListener,
	}))
	seen := map[string]bool{}
	for _, monitor := range []string{"podMonitor", "serviceMonitor"} {
		rendered := render(t, controller, metricsOn, "replicaCount: 2", "networkPolicy: {enabled: true}",
			"monitoring: {"+monitor+": {enabled: true}}")
		for _, documents := range rendered {
			for _, document := range documents {
				found := decode[unstructured.Unstructured](t, document)
				path := map[string][]string{
					"PodDisruptionBudget": {"spec", "selector", "matchLabels"}, "PodMonitor": {"spec", "selector", "matchLabels"},
					"NetworkPolicy": {"spec", "podSelector", "matchLabels"}, "Service": {"spec", "selector"},
				}[found.GetKind()]
				if path == nil || strings.Contains(found.GetName(), "listener") {
					continue
				}
				seen[found.GetKind()] = true
				selected, _, err := unstructured.NestedStringMap(found.Object, path...)
				check(t, "error", err, error(nil))
				check(t, found.GetKind()+" selects the controller", labels.SelectorFromSet(selected).Matches(own), true)
				check(t, found.GetKind()+" selects a listener", labels.SelectorFromSet(selected).
					Matches(listener), false)
			}
		}
	}
	check(t, "kinds with selectors", len(seen), 4)
}

func TestServicesAreFoundByTheirComponent(t *testing.T) {
	t.Parallel()
	components := map[string]string{}
	for _, document := range render(t, controller, clashing, services)["servicemonitor.yaml"] {
		if found := decode[unstructured.Unstructured](t, document); found.GetKind() == "Service" {
			components[found.GetName()] = found.GetLabels()["app.kubernetes.io/component"]
		}
	}
	check(t, "components", components, map[string]string{
		"arc-gha-rs-controller-manager": "metrics-of-manager", "arc-gha-rs-controller-listeners": "metrics-of-listeners",
	})
}

// The name of a Service is a DNS label, unlike that of a release: no dots, and a letter first. Other objects have the
// release's name unchanged.
func TestNamesOfServices(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("1", 53)
	for release, want := range map[string]string{
		"arc.prod": "arc-prod-gha-rs-controller-manager", "1arc": "svc-1arc-gha-rs-controller-manager",
		"1.2": "svc-1-2-gha-rs-controller-manager", long: "svc-" + long[:49] + "-manager",
	} {
		names := map[string]string{}
		for _, document := range render(t, controller.as(release, "arc-systems"), clashing,
			services)["servicemonitor.yaml"] {
			if found := decode[unstructured.Unstructured](t, document); strings.HasSuffix(found.GetName(), "-manager") {
				names[found.GetKind()] = found.GetName()
			}
		}
		check(t, "Service of "+release, names["Service"], want)
		check(t, "what is wrong with its name", validation.IsDNS1035Label(names["Service"]), []string(nil))
		check(t, "monitor is called after "+release, strings.HasPrefix(names["ServiceMonitor"], release+"-"), true)
	}
}

// A release's name may be a number. In labels it is a string all the same.
func TestReleaseNameOfDigits(t *testing.T) {
	t.Parallel()
	for _, documents := range render(t, controller.as("123", "arc-systems"), clashing, services) {
		for _, document := range documents {
			got := decode[unstructured.Unstructured](t, document)
			if got.GetKind() == "ServiceMonitor" {
				selected, _, err := unstructured.NestedStringMap(got.Object, "spec", "selector", "matchLabels")
				check(t, "error", err, error(nil))
				check(t, "selected release", selected["app.kubernetes.io/instance"], "123")
			}
		}
	}
}
