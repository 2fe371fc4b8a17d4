package integration

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

// makeNode creates the Node object of the node that plays pods, until the end of the test.
func makeNode(t *testing.T, r *rig.Rig) *corev1.Node {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "fake-node"}}
	if err := r.Cluster.Client().Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Cluster.Client().Delete(context.Background(), node); err != nil {
			t.Error(err)
		}
	})
	return node
}

// setNode cordons a node, or makes it an ordinary one again.
func setNode(t *testing.T, r *rig.Rig, node *corev1.Node, cordoned bool) {
	t.Helper()
	before := node.DeepCopy()
	node.Spec.Unschedulable = cordoned
	if err := r.Cluster.Client().Patch(t.Context(), node, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// runnerPods returns the sorted UIDs of the runners' pods.
func runnerPods(r *rig.Rig) []types.UID {
	var uids []types.UID
	for _, pod := range r.RunnerPods() {
		uids = append(uids, pod.UID)
	}
	slices.Sort(uids)
	return uids
}

// Idle runners leave a cordoned node within a second after that shows, and the one with a job stays. The node that
// plays pods takes every pod, so their replacements come to the cordoned node, and stay there.
func TestCordonedNode(t *testing.T) {
	g := gomega.NewWithT(t)
	r := rig.Start(t, testkube.Borrow(t), rig.Options{MinRunners: 4})
	node := makeNode(t, r)
	awaitIdle(t, r, 4)
	ids := r.QueueJobs(1, rig.Held)
	g.Eventually(func() []int { idle, busy := online(r); return []int{idle, busy} }, rig.Patience).
		Should(gomega.Equal([]int{4, 1}))

	registered := map[string]bool{}
	for _, runner := range r.GitHub.Snapshot().Runners {
		if !runner.Busy {
			registered[runner.Name] = true
		}
	}
	left := func() (names int) {
		for _, runner := range r.GitHub.Snapshot().Runners {
			if registered[runner.Name] {
				names++
			}
		}
		return names
	}
	began := time.Now()
	setNode(t, r, node, true)
	g.Eventually(left, rig.Patience, 5*time.Millisecond).Should(gomega.BeZero())
	t.Logf("GitHub has removed four idle runners %s after their node was cordoned", time.Since(began))
	g.Eventually(func() []int { idle, busy := online(r); return []int{idle, busy} }, rig.Patience).
		Should(gomega.Equal([]int{4, 1}))
	pods := runnerPods(r)
	g.Consistently(func() []types.UID { return runnerPods(r) }, 3*time.Second).Should(gomega.Equal(pods))

	setNode(t, r, node, false)
	r.EndJobs(ids)
	r.AwaitQuiet()
}

// A condition is all that announces the end of a node: idle runners leave it as if it were cordoned, and pods that follow
// are kept from it, which the scheduler isn't by a condition. When the notice is withdrawn, nothing keeps them.
func TestNodeThatOnlyAConditionAnnounces(t *testing.T) {
	g := gomega.NewWithT(t)
	r := rig.Start(t, testkube.Borrow(t), rig.Options{MinRunners: 2})
	node := makeNode(t, r)
	awaitIdle(t, r, 2)
	before := runnerPods(r)
	setNotice(t, r, node, corev1.ConditionTrue)
	excluded := func() (pods int) {
		for _, pod := range r.RunnerPods() {
			affinity := pod.Spec.Affinity
			if affinity != nil && affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.
				NodeSelectorTerms[0].MatchFields[0].Values[0] == node.Name && !slices.Contains(before, pod.UID) {
				pods++
			}
		}
		return pods
	}
	g.Eventually(excluded, rig.Patience).Should(gomega.Equal(2))
	awaitIdle(t, r, 2)
	setNotice(t, r, node, corev1.ConditionFalse)
	r.EndJobs(r.QueueJobs(2, rig.Held))
	g.Eventually(excluded, rig.Patience).Should(gomega.BeZero())
	r.AwaitQuiet()
}

// setNotice gives a node the condition by which a cloud announces its end.
func setNotice(t *testing.T, r *rig.Rig, node *corev1.Node, status corev1.ConditionStatus) {
	t.Helper()
	node.Status.Conditions = []corev1.NodeCondition{{Type: "PreemptionScheduled", Status: status}}
	if err := r.Cluster.Client().Status().Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
}
