package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

// Restricted to a namespace, the manager serves the scale sets there with the rights of its chart's Roles, and leaves
// those of other namespaces alone. Uninstalling removes everything.
func TestSingleNamespace(t *testing.T) {
	r := rig.Start(t, testkube.Borrow(t), rig.Options{SingleNamespace: true, ManagerReplicas: 2})
	elsewhere := r.Cluster.NewNamespace(t)
	stranger := manifest(r, elsewhere, "stranger")
	create(t, r, credentialSecret(elsewhere), stranger)
	t.Cleanup(func() { // or the next rig's manager would serve it
		if err := r.Cluster.Client().Delete(context.Background(), stranger); err != nil {
			t.Error(err)
		}
	})
	r.WaitDone(r.QueueJobs(3, time.Second))
	r.AwaitQuiet()
	checkRequests(t, r, 3)
	r.UninstallSet(rig.DefaultSet)
	r.AwaitUninstalled()

	if err := r.Cluster.Client().Get(t.Context(), client.ObjectKeyFromObject(stranger), stranger); err != nil {
		t.Fatal(err)
	}
	if len(stranger.Finalizers) > 0 || len(stranger.Status.Conditions) > 0 {
		t.Errorf("the scale set of another namespace was touched: finalizers %v, conditions %v",
			stranger.Finalizers, stranger.Status.Conditions)
	}
}

// Two managers are both ready. When told to, the leader releases its Lease and ends with exit code 0 before the grace
// period is over, and the other leads immediately. No job of the burst meanwhile is lost.
func TestLeaderStepsDown(t *testing.T) {
	const jobs = 30
	g := gomega.NewWithT(t)
	r := rig.Start(t, testkube.Borrow(t), rig.Options{ManagerReplicas: 2, MaxRunners: 10})
	g.Eventually(func() int { return readyManagers(r) }, rig.Patience).Should(gomega.Equal(2))
	ids := r.QueueJobs(jobs, time.Second)
	r.AwaitCompleted(ids, 3)

	before, err := leaseHolder(r)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	checkStops(t, r, leaderPod(t, r))
	// The other looks every 1 to 2.2 s. A Lease that is not released stays with its holder for 7 s and more.
	g.Expect(leaseHolder(r)).NotTo(gomega.Equal(before), "the Lease was not given up")
	g.Eventually(func() (string, error) { return leaseHolder(r) }, rig.Patience).
		ShouldNot(gomega.BeElementOf("", before), "nobody leads")
	r.WaitDone(ids)
	r.AwaitQuiet()
	checkRequests(t, r, jobs)
}

func managerPods(r *rig.Rig) []corev1.Pod {
	var pods corev1.PodList
	err := r.Cluster.Client().List(context.Background(), &pods, client.InNamespace(r.SystemNamespace),
		client.MatchingLabels{v1alpha1.LabelComponent: "controller-manager"})
	if err != nil {
		return nil // it is asked again
	}
	return pods.Items
}

func readyManagers(r *rig.Rig) int {
	ready := 0
	for _, pod := range managerPods(r) {
		if condition := kube.PodCondition(&pod, corev1.PodReady); condition != nil &&
			condition.Status == corev1.ConditionTrue {
			ready++
		}
	}
	return ready
}

// leaderPod finds the leader's pod by its log: the Lease has the host name, which is the same for all managers of this
// machine.
func leaderPod(t *testing.T, r *rig.Rig) *corev1.Pod {
	t.Helper()
	for _, pod := range managerPods(r) {
		log, err := r.Node.Log(client.ObjectKeyFromObject(&pod), "manager")
		if err == nil && strings.Contains(strings.ToLower(log), "successfully acquired lease") {
			return &pod
		}
	}
	t.Fatal("no manager has said that it leads")
	return nil
}

// leaseHolder returns the manager that leads. The Leases of scale sets have labels.
func leaseHolder(r *rig.Rig) (string, error) {
	var leases coordinationv1.LeaseList
	if err := r.Cluster.Client().List(context.Background(), &leases, client.InNamespace(r.SystemNamespace)); err != nil {
		return "", err
	}
	leases.Items = slices.DeleteFunc(leases.Items, func(lease coordinationv1.Lease) bool {
		return lease.Labels[v1alpha1.LabelScaleSetName] != ""
	})
	if len(leases.Items) != 1 {
		return "", fmt.Errorf("%d Leases", len(leases.Items))
	}
	return ptr.Deref(leases.Items[0].Spec.HolderIdentity, ""), nil
}

// checkStops deletes a manager's pod and fails the test unless its program ends by itself within the grace period.
func checkStops(t *testing.T, r *rig.Rig, pod *corev1.Pod) {
	t.Helper()
	const hold = "example.com/hold" // keeps the pod until it has been seen how it ended
	if err := kube.AddFinalizer(t.Context(), r.Cluster.Client(), pod, hold); err != nil {
		t.Fatal(err)
	}
	if err := r.Cluster.Client().Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	var ended *corev1.ContainerStateTerminated
	gomega.NewWithT(t).Eventually(func() bool { ended = terminated(r, pod); return ended != nil }, rig.Patience,
		50*time.Millisecond).
		Should(gomega.BeTrue(), "the manager has not ended")
	if ended.ExitCode != 0 {
		t.Errorf("the manager ended with exit code %d (%s)", ended.ExitCode, ended.Reason)
	}
	if err := kube.RemoveFinalizers(t.Context(), r.Cluster.Client(), pod, hold); err != nil {
		t.Fatal(err)
	}
}

// terminated returns how the pod's container ended, nil while it runs.
func terminated(r *rig.Rig, pod *corev1.Pod) *corev1.ContainerStateTerminated {
	now := &corev1.Pod{}
	if err := r.Cluster.Client().Get(context.Background(), client.ObjectKeyFromObject(pod), now); err != nil ||
		len(now.Status.ContainerStatuses) == 0 {
		return nil // it is asked again
	}
	return now.Status.ContainerStatuses[0].State.Terminated
}
