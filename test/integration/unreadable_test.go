package integration

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

// unreadable is a patch that the API server takes, since most of a runner's pod has no schema. Go can't decode the
// result.
const unreadable = `{"spec":{"spec":{"restartPolicy":3}}}`

// An object that can't be decoded is named, and hides no other, neither when it is written nor when a manager starts.
func TestAnObjectThatCantBeReadHidesNoOther(t *testing.T) {
	g := gomega.NewWithT(t)
	r := rig.Start(t, testkube.Borrow(t), rig.Options{MaxRunners: 5})
	stranger := r.Cluster.NewNamespace(t)
	bad := unreadableRunner(stranger)
	create(t, r, bad)
	remove := func() error { return client.IgnoreNotFound(r.Cluster.Client().Delete(context.Background(), bad)) }
	t.Cleanup(func() { _ = remove() })
	named := func() bool {
		return strings.Contains(r.ManagerLog(), "EphemeralRunner "+stranger+"/unreadable can't be read")
	}
	g.Eventually(named, rig.Patience).Should(gomega.BeTrue(), "the manager does not name the object")
	r.WaitDone(r.QueueJobs(3, time.Second))

	r.KillManager()
	r.WaitDone(r.QueueJobs(3, time.Second))
	g.Eventually(func() int { return readyManagers(r) }, rig.Patience).Should(gomega.Equal(1))
	if err := r.Cluster.Client().Get(t.Context(), client.ObjectKeyFromObject(bad), bad); err != nil {
		t.Fatal(err)
	}
	if _, reported := bad.Object["status"].(map[string]any)["phase"]; reported || len(bad.GetFinalizers()) > 0 {
		t.Errorf("what can't be read was touched: %v", bad.Object)
	}
	if err := remove(); err != nil {
		t.Error(err)
	}
	r.WaitDone(r.QueueJobs(1, time.Second))
	r.AwaitQuiet()
	checkRequests(t, r, 7)
}

// A runner that can't be decoded any more keeps its slot and its job, and is finalized, also by a manager that never
// could decode it.
func TestARunnerThatCantBeReadEndsItsJob(t *testing.T) {
	r := rig.Start(t, testkube.Borrow(t), rig.Options{MaxRunners: 2})
	ids := r.QueueJobs(2, rig.Held)
	gomega.NewWithT(t).Eventually(func() int { _, busy := online(r); return busy }, rig.Patience).Should(gomega.Equal(2))
	runners := &v1alpha1.EphemeralRunnerList{}
	if err := r.Cluster.Client().List(t.Context(), runners, client.InNamespace(r.RunnerNamespace)); err != nil {
		t.Fatal(err)
	}
	for i := range runners.Items {
		// Its answer can't be decoded into a runner either.
		spoilt := &unstructured.Unstructured{}
		spoilt.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("EphemeralRunner"))
		spoilt.SetNamespace(runners.Items[i].Namespace)
		spoilt.SetName(runners.Items[i].Name)
		if err := r.Cluster.Client().Patch(t.Context(), spoilt,
			client.RawPatch(types.MergePatchType, []byte(unreadable))); err != nil {
			t.Fatal(err)
		}
	}
	r.KillManager()
	gomega.NewWithT(t).Eventually(func() int { return readyManagers(r) }, rig.Patience).Should(gomega.Equal(1))
	r.EndJobs(ids)
	r.AwaitQuiet()
	checkRequests(t, r, 2)
}

func unreadableRunner(namespace string) *unstructured.Unstructured {
	runner := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"githubConfigUrl": "https://github.com/my-org", "githubConfigSecret": "credentials", "runnerScaleSetId": int64(1),
		"spec": map[string]any{"restartPolicy": int64(3)},
	}}}
	runner.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("EphemeralRunner"))
	runner.SetNamespace(namespace)
	runner.SetName("unreadable")
	return runner
}
