package e2e

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/hack/installation"
	"github.com/harrier-ci/harrier/hack/site"
)

// componentManager is the component label of the controller's pods.
const componentManager = "controller-manager"

func (s *scaleSet) awaitNoRunners() {
	s.t.Helper()
	s.await(s.t.Context(), "no runner to be left", func() (string, error) {
		left, err := site.RunnersLeft(s.t.Context(), kube, s.namespace)
		return installation.Shorten(left, 5), err
	})
}

// runnerPods returns the pods of runners that are not being deleted.
func (s *scaleSet) runnerPods() []corev1.Pod {
	s.t.Helper()
	var pods corev1.PodList
	err := kube.List(s.t.Context(), &pods, client.InNamespace(s.namespace),
		client.MatchingLabels{v1alpha1.LabelRunner: "True"})
	if err != nil {
		s.t.Fatal(err)
	}
	return slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
}

// listenerPod returns the one pod that listens for this set.
func (s *scaleSet) listenerPod() corev1.Pod {
	s.t.Helper()
	pods := systemPods(s.t, v1alpha1.ComponentListener, client.MatchingLabels{v1alpha1.LabelScaleSetName: s.name})
	if len(pods) != 1 {
		s.t.Fatalf("%d listener pods of %s, want 1", len(pods), s.name)
	}
	return pods[0]
}

// systemPods returns the pods of a component in the controller's namespace that are not being deleted.
func systemPods(t *testing.T, component string, options ...client.ListOption) []corev1.Pod {
	t.Helper()
	labels := client.MatchingLabels{v1alpha1.LabelComponent: component}
	var pods corev1.PodList
	if err := kube.List(t.Context(), &pods,
		append(options, client.InNamespace(site.SystemNamespace), labels)...); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
}

// kill deletes a pod without grace, as if its node had lost power.
func kill(t *testing.T, pod corev1.Pod) {
	t.Helper()
	if err := kube.Delete(t.Context(), &pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
}
