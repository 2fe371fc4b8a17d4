package integration

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

// A backup of one cluster is restored into another, which only has its controller: first the objects that
// docs/backup.md says to save, then the runners as well. The second takes nothing from the first while the first's
// runners work, not even the registration of a runner that is offline at that moment. When the first takes no more
// jobs, the second does.
func TestRestoreIntoASecondCluster(t *testing.T) {
	first := rig.Start(t, testkube.Borrow(t), rig.Options{
		MinRunners: 2, MaxRunners: mostRestored, SingleNamespace: true,
		GitHub: fakegithub.Options{PollLength: 2 * time.Second},
	})
	t.Cleanup(func() { // after the second is gone
		if err := first.ScaleManagers(context.Background(), 1); err != nil {
			t.Error(err)
		}
	})
	awaitIdle(t, first, 2)
	held := first.QueueJobs(1, rig.Held)
	g := gomega.NewWithT(t)
	g.Eventually(func() [2]int { idle, busy := online(first); return [2]int{idle, busy} }, rig.Patience).
		Should(gomega.Equal([2]int{2, 1}))
	saved, runners := saveAll(t, first)

	first.StopManager() // it would replace the runner that goes offline
	pod := &corev1.Pod{}
	pod.Namespace = first.RunnerNamespace
	for _, runner := range first.GitHub.Snapshot().Runners {
		if !runner.Busy {
			pod.Name = runner.Name
		}
	}
	g.Expect(first.Cluster.Client().Delete(t.Context(), pod, client.GracePeriodSeconds(0))).To(gomega.Succeed())
	g.Eventually(func() int { idle, _ := online(first); return idle }, rig.Patience).Should(gomega.Equal(1))

	second := rig.Start(t, testkube.Borrow(t), rig.Options{
		Beside: first, MinRunners: 2, MaxRunners: mostRestored, SingleNamespace: true,
	})
	exceeded := (&backup{Rig: second, WithT: g, t: t}).watchPods()
	restored := restoreAll(t, first, second, saved)
	awaitTrue(t, second, rig.DefaultSet, v1alpha1.ConditionScaleSetRegistered)
	g.Eventually(second.ListenerPod, rig.Patience).ShouldNot(gomega.BeNil())
	before := registeredNames(first)
	restoreAll(t, first, second, runners)
	g.Eventually(func() (int, error) {
		var left v1alpha1.EphemeralRunnerList
		err := second.Cluster.Client().List(t.Context(), &left, client.InNamespace(second.RunnerNamespace))
		return len(left.Items), err
	}, rig.Patience).Should(gomega.BeZero(), "restored runners")
	g.Expect(registeredNames(first)).To(gomega.Equal(before), "registrations of the first cluster")
	first.StartManager()

	first.UpgradeSet(rig.DefaultSet, rig.Values{"minRunners": 0, "maxRunners": 0})
	first.EndJobs(held)
	g.Eventually(func() (count int) {
		for _, pod := range second.RunnerPods() {
			if pod.Status.Phase == corev1.PodRunning {
				count++
			}
		}
		return count
	}, rig.Patience).Should(gomega.Equal(2), "idle runners in the second cluster")
	second.WaitDone(second.QueueJobs(2, 0))
	if sets := first.GitHub.Snapshot().ScaleSets; len(sets) != 1 {
		t.Errorf("scale sets on GitHub: %+v", sets)
	}
	for _, violation := range exceeded() {
		t.Error(violation)
	}

	g.Eventually(func() int { return len(first.RunnerPods()) }, rig.Patience).
		Should(gomega.BeZero(), "runners of the first cluster")
	first.StopManager() // it would make the scale set again
	removeAll(t, second, restored)
}

// registeredNames returns the names of the registered runners.
func registeredNames(r *rig.Rig) (names []string) {
	for _, runner := range r.GitHub.Snapshot().Runners {
		names = append(names, runner.Name)
	}
	return slices.Sorted(slices.Values(names))
}

// saveAll reads the scale set's objects of the chart, as they are now, and the runners with their sets.
func saveAll(t *testing.T, r *rig.Rig) (saved, runners []*unstructured.Unstructured) {
	t.Helper()
	for _, object := range r.Rendered(rig.DefaultSet, nil) {
		if object.GetNamespace() != r.RunnerNamespace || object.GetKind() == "CustomResourceDefinition" {
			continue
		}
		if err := r.Cluster.Client().Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			t.Fatal(err)
		}
		saved = append(saved, object)
	}
	for _, kind := range []string{"EphemeralRunner", "EphemeralRunnerSet"} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
		if err := r.Cluster.Client().List(t.Context(), list, client.InNamespace(r.RunnerNamespace)); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			runners = append(runners, &list.Items[i])
		}
	}
	return saved, runners
}

// restoreAll creates the saved objects with their status, each in the second cluster's namespace for that of the first.
// Existing objects stay.
func restoreAll(
	t *testing.T, first, second *rig.Rig, saved []*unstructured.Unstructured,
) (restored []*unstructured.Unstructured) {
	t.Helper()
	elsewhere := strings.NewReplacer(first.RunnerNamespace, second.RunnerNamespace, first.SystemNamespace,
		second.SystemNamespace)
	for _, object := range saved {
		content, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		object := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(elsewhere.Replace(string(content))), &object.Object); err != nil {
			t.Fatal(err)
		}
		for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"} {
			unstructured.RemoveNestedField(object.Object, "metadata", field)
		}
		status, had := object.Object["status"]
		switch err := second.Cluster.Client().Create(t.Context(), object); {
		case apierrors.IsAlreadyExists(err):
			continue
		case err != nil:
			t.Fatal(err)
		}
		restored = append(restored, object)
		if had && object.GetKind() != "AutoscalingRunnerSet" { // which docs/backup.md restores without one
			patch, err := json.Marshal(map[string]any{"status": status})
			if err != nil {
				t.Fatal(err)
			}
			// It may be gone by now.
			_ = second.Cluster.Client().Status().Patch(t.Context(), object, client.RawPatch(types.MergePatchType, patch))
		}
	}
	return restored
}

// removeAll deletes the restored scale set, and after it the objects that the chart had made.
func removeAll(t *testing.T, r *rig.Rig, restored []*unstructured.Unstructured) {
	t.Helper()
	g := gomega.NewWithT(t)
	remove := func(object *unstructured.Unstructured) {
		if err := client.IgnoreNotFound(r.Cluster.Client().Delete(t.Context(), object)); err != nil {
			t.Fatal(err)
		}
	}
	for _, object := range restored {
		if object.GetKind() == "AutoscalingRunnerSet" {
			remove(object)
			g.Eventually(func() bool {
				return apierrors.IsNotFound(r.Cluster.Client().Get(t.Context(), client.ObjectKeyFromObject(object), object))
			}, rig.Patience).Should(gomega.BeTrue(), "the restored scale set is left")
		}
	}
	for _, object := range restored {
		remove(object)
	}
	r.AwaitUninstalled()
}
