package integration

import (
	"context"
	"slices"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/arc"
	"github.com/harrier-ci/harrier/test/rig"
)

// Somebody applies CRDs of an earlier release while jobs run, and later ours again. Meanwhile a running manager serves
// jobs, and a starting one waits. No runner is killed, the scale set on GitHub stays the same, and the status gets back
// everything that the earlier CRDs dropped.
func TestCRDsGoBackWhileJobsRun(t *testing.T) {
	g := gomega.NewWithT(t)
	always := rig.Values{"name": "always", "schedule": "* * * * *", "duration": "1h", "maxRunners": 5}
	r := rig.Start(t, testkube.Borrow(t), rig.Options{
		MinRunners:     2,
		ScaleSetValues: rig.Values{"schedules": []rig.Values{always}},
	})
	ours := installedCRDs(t, r)
	t.Cleanup(func() { replaceCRDs(t, r, ours, true) })
	held := r.QueueJobs(1, rig.Held)
	g.Eventually(func() []int { idle, busy := online(r); return []int{idle, busy} }, rig.Patience).
		Should(gomega.Equal([]int{2, 1}))
	before, registered := r.RunnerPods(), readSet(t, r, rig.DefaultSet).Status.Registration

	earlier, err := arc.CRDs("../../apis/crds")
	if err != nil {
		t.Fatal(err)
	}
	replaceCRDs(t, r, earlier, false)
	next := r.WaitDone(r.QueueJobs(1, 0))[0]
	if !slices.ContainsFunc(before, func(pod corev1.Pod) bool { return pod.Name == next.Runner }) {
		t.Errorf("a job ran on %s, and not on one of the runners that were there", next.Runner)
	}
	more := r.QueueJobs(3, rig.Held) // one more than there are idle runners
	g.Eventually(func() int { _, busy := online(r); return busy }, rig.Patience).
		Should(gomega.Equal(4), "a job beyond the idle runners has none")
	r.KillManager()
	g.Eventually(r.ManagerLog, rig.Patience).
		Should(gomega.ContainSubstring("Waiting for the CustomResourceDefinitions to be upgraded"))
	g.Eventually(readyManagers, rig.Patience).WithArguments(r).Should(gomega.BeZero())

	replaceCRDs(t, r, ours, true)
	g.Eventually(readyManagers, rig.Patience).WithArguments(r).Should(gomega.Equal(1))
	r.UpgradeSet(rig.DefaultSet, nil) // brings the schedule back
	g.Eventually(func() []string { return readSet(t, r, rig.DefaultSet).Status.ActiveSchedules }, rig.Patience).
		Should(gomega.Equal([]string{"always"}))
	awaitTrue(t, r, rig.DefaultSet, v1alpha1.ConditionReady)
	if set := readSet(t, r, rig.DefaultSet); set.Status.Registration == nil || *set.Status.Registration != *registered ||
		len(set.Status.Registrations) != 1 {
		t.Errorf("the scale set was registered as %+v, and is as %+v, in %+v",
			registered, set.Status.Registration, set.Status.Registrations)
	}
	r.WaitDone(r.QueueJobs(1, 0))
	r.EndJobs(more)
	if job := r.EndJobs(held)[0]; !slices.ContainsFunc(before,
		func(pod corev1.Pod) bool { return pod.Name == job.Runner }) {
		t.Errorf("the job that ran all the time ran on %s, and not where it began", job.Runner)
	}
	r.UpgradeSet(rig.DefaultSet, rig.Values{"schedules": []rig.Values{}})
	r.AwaitQuiet()
	if sets := r.GitHub.Snapshot().ScaleSets; len(sets) != 1 {
		t.Errorf("on GitHub there are %+v", sets)
	}
}

// installedCRDs returns the cluster's CRDs.
func installedCRDs(t *testing.T, r *rig.Rig) (found []*unstructured.Unstructured) {
	t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{
		Group:   "apiextensions.k8s.io",
		Version: "v1",
		Kind:    "CustomResourceDefinitionList",
	})
	if err := r.Cluster.Client().List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		found = append(found, &list.Items[i])
	}
	return found
}

// replaceCRDs gives the cluster other schemas, and returns when the API server drops exactly the fields that these
// lack. It also works after the test, when its context has ended.
func replaceCRDs(t *testing.T, r *rig.Rig, wanted []*unstructured.Unstructured, hasSchedules bool) {
	t.Helper()
	ctx, kube := context.Background(), r.Cluster.Client()
	for _, crd := range wanted {
		live := crd.DeepCopy()
		if err := kube.Get(ctx, client.ObjectKeyFromObject(crd), live); err != nil {
			t.Fatal(err)
		}
		live.Object["spec"] = crd.DeepCopy().Object["spec"]
		if err := kube.Update(ctx, live); err != nil {
			t.Fatal(err)
		}
	}
	gomega.NewWithT(t).Eventually(func() (bool, error) {
		set := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
			"schedules": []any{map[string]any{"name": "a", "schedule": "* * * * *", "duration": "1h", "maxRunners": int64(1)}},
		}}}
		set.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("AutoscalingRunnerSet"))
		set.SetNamespace(r.RunnerNamespace)
		set.SetName("probe")
		err := kube.Create(ctx, set, client.DryRunAll)
		_, kept, _ := unstructured.NestedSlice(set.Object, "spec", "schedules")
		return kept, err
	}, rig.Patience).Should(gomega.Equal(hasSchedules))
}
