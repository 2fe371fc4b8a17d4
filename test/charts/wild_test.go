package charts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/listenertemplate"
	"github.com/harrier-ci/harrier/internal/testkube"
)

// testdata/wild has values files as users of ARC's charts write them: with omissions, repetitions, copies of comments,
// with and without quotes. The API server takes every rendered object without an unknown field, and the runner's pod.
func TestValuesFilesOfUsers(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/wild/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no values in testdata/wild: %v", err)
	}
	cluster := testkube.Shared(t)
	namespace := cluster.NewNamespace(t)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			values, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if chartFor(file).name == controller.name {
				// The CRDs are in the cluster.
				admitAll(t, cluster, namespace,
					render(t, controller.as("arc", namespace), string(values), "crds: {install: false}"))
				return
			}
			rendered := render(t, scaleSet.as("set", namespace), string(values))
			admitAll(t, cluster, namespace, rendered)
			spec := one[v1alpha1.AutoscalingRunnerSet](t, rendered, "autoscalingrunnerset.yaml").Spec
			admitPod(t, cluster, namespace, spec.Template)
			// A limit that the user wrote is a limit.
			check(t, "limit", spec.MaxRunners != nil, strings.Contains(string(values), "\nmaxRunners: "))
		})
	}
}

// The restricted policy leaves these settings of users' listeners out, and no others.
func TestWhatValuesFilesOfUsersLoseByTheListenerPolicy(t *testing.T) {
	t.Parallel()
	lost := map[string][]string{
		"scale-set-listener.yaml": {"listenerTemplate.metadata.labels[scraped]", "listenerTemplate.spec.tolerations", "listenerTemplate.spec.priorityClassName",
			"listenerTemplate.spec.containers[logs].image"},
		"scale-set-unquoted.yaml": {"listenerTemplate.metadata.annotations[example.com/on]"},
		"scale-set-umbrella.yaml": {"listenerServiceAccountMetadata.annotations[iam.example.com/role]"},
	}
	files, err := filepath.Glob("testdata/wild/scale-set-*.yaml")
	if err != nil || len(files) < len(lost) {
		t.Fatalf("values %v, %v", files, err)
	}
	for _, file := range files {
		values, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		spec := one[v1alpha1.AutoscalingRunnerSet](t, render(t, scaleSet, string(values)),
			"autoscalingrunnerset.yaml").Spec
		var refused []string
		for _, refusal := range (listenertemplate.Policy{}).Accept(&spec).Refused.First {
			refused = append(refused, refusal.Path)
		}
		check(t, filepath.Base(file)+" loses", refused, lost[filepath.Base(file)])
	}
	// The operator can allow the label, the class and the image of the one sidecar.
	values, err := os.ReadFile("testdata/wild/scale-set-listener.yaml")
	check(t, "error", err, error(nil))
	spec := one[v1alpha1.AutoscalingRunnerSet](t, render(t, scaleSet, string(values)), "autoscalingrunnerset.yaml").Spec
	accepted := listenertemplate.Policy{SidecarImages: []string{"fluent/fluent-bit"},
		MetadataKeys: []string{"scraped"}, PriorityClasses: []string{"system-cluster-critical"}}.Accept(&spec)
	check(t, "with those allowed", accepted.Refused.List(0), "listenerTemplate.spec.tolerations")
}

// admitAll has the API server look at the objects as if they were created in the namespace.
func admitAll(t *testing.T, cluster *testkube.Cluster, namespace string, rendered manifests) {
	t.Helper()
	rendered.eachIn(t, namespace, func(object *unstructured.Unstructured) error {
		return cluster.Client().Create(t.Context(), object, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
	})
}

// eachIn calls act with every object, which is moved to the namespace. An error fails the test.
func (m manifests) eachIn(t *testing.T, namespace string, act func(*unstructured.Unstructured) error) {
	t.Helper()
	for file, documents := range m {
		for _, document := range documents {
			object := &unstructured.Unstructured{}
			if err := yaml.UnmarshalStrict([]byte(document), &object.Object); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if object.GetNamespace() != "" {
				object.SetNamespace(namespace)
			}
			if err := act(object); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
}

// admitPod does the same with a pod of a template, under an account that exists.
func admitPod(t *testing.T, cluster *testkube.Cluster, namespace string, template corev1.PodTemplateSpec) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Namespace, pod.Name = namespace, "runner"
	// These name other objects, which the cluster doesn't have.
	pod.Spec.ServiceAccountName, pod.Spec.PriorityClassName, pod.Spec.RuntimeClassName = "default", "", nil
	if err := cluster.Client().Create(t.Context(), pod, client.DryRunAll,
		client.FieldValidation(metav1.FieldValidationStrict)); err != nil {
		t.Errorf("the runner's pod: %v", err)
	}
}
