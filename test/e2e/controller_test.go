package e2e

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/hack/site"
)

// installController installs the controller that tests share, or restores its values.
func installController(ctx context.Context) error {
	return place.Install(ctx, site.ControllerName, site.ControllerChart, site.SystemNamespace, place.ControllerValues())
}

// reconfigureController upgrades the shared controller to changed values until the test ends. Tests that do so run
// before those that run in parallel.
func reconfigureController(t *testing.T, change func(site.Values)) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*limit)
		defer cancel()
		if err := installController(ctx); err != nil {
			t.Error(err)
		}
	})
	values := place.ControllerValues()
	change(values)
	if err := place.Install(t.Context(), site.ControllerName, site.ControllerChart, site.SystemNamespace,
		values); err != nil {
		t.Fatal(err)
	}
}

// managers waits until so many pods of the controller are ready and no other is left, and returns them.
func managers(t *testing.T, count int) []corev1.Pod {
	t.Helper()
	var found []corev1.Pod
	err := place.Await(t.Context(), fmt.Sprintf("%d pods of the controller", count), limit, func() (string, error) {
		found = systemPods(t, componentManager)
		ready := 0
		for i := range found {
			if isReady(&found[i]) {
				ready++
			}
		}
		if len(found) != count || ready != count {
			return fmt.Sprintf("%d of %d are ready", ready, len(found)), nil
		}
		return "", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
