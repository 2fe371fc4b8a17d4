package manager_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/internal/testkube"
)

// A rollout from ARC's template to ours and back, with ARC's pod played: it ignores its SIGTERM for its whole grace and
// longer, and takes no Lease. Of our two replicas none acts beside it. When it comes back, the one that acts ends before
// it is told to.
func TestManagersActBesideNoOtherTemplate(t *testing.T) {
	g := gomega.NewWithT(t)
	g.SetDefaultEventuallyTimeout(startTimeout)
	cluster := testkube.Start(t, testkube.Options{})
	kube := cluster.Client()
	grantChartPermissions(t, kube)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "default"}}
	if err := kube.Create(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	theirs := rolledOut(t, kube, "theirs", "old")
	rolledOut(t, kube, "ours-1", "new", "--program=harrier")
	rolledOut(t, kube, "ours-2", "new", "--program=harrier")
	if err := kube.Delete(t.Context(), theirs, client.GracePeriodSeconds(600)); err != nil {
		t.Fatal(err)
	}
	var log output
	kubeconfig := cluster.Kubeconfig(t, testkube.User("manager"))
	t.Setenv(envPod, "ours-1")
	first := startManager(t, kubeconfig, &log)
	t.Setenv(envPod, "ours-2")
	second := startManager(t, kubeconfig, &log)
	waits := gomega.ContainSubstring("pods of its Deployment arc with another template live, and may act: theirs (is being")
	for _, manager := range []*process{first, second} {
		g.Eventually(manager.log.String).Should(waits)
		g.Eventually(manager.probe("/readyz")).Should(gomega.Equal(http.StatusInternalServerError))
	}
	g.Consistently(func() string { return holder(t, kube) }, 3*time.Second, 100*time.Millisecond).
		Should(gomega.BeEmpty(), log.String)

	if err := kube.Delete(t.Context(), theirs, client.GracePeriodSeconds(0)); err != nil { // its node has killed it
		t.Fatal(err)
	}
	g.Eventually(func() string { return holder(t, kube) }).ShouldNot(gomega.BeEmpty(), log.String)
	for _, manager := range []*process{first, second} {
		g.Eventually(manager.probe("/readyz")).Should(gomega.Equal(http.StatusOK), log.String)
	}

	rolledOut(t, kube, "theirs-again", "old")
	g.Eventually(func() bool { return ended(first) || ended(second) }).Should(gomega.BeTrue(), log.String)
	g.Expect(log.String()).To(gomega.ContainSubstring("has started that acts without the Lease: theirs-again"))
	g.Expect(log.String()).NotTo(gomega.ContainSubstring("forbidden"))
}

func ended(manager *process) bool {
	select {
	case <-manager.Done():
		return true
	default:
		return false
	}
}

// rolledOut creates a pod as Kubernetes makes it for the managers' Deployment, on a node that says that it runs.
func rolledOut(t *testing.T, cluster client.Client, name, hash string, arguments ...string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, Labels: map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: hash},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "arc-" + hash, UID: "uid", Controller: new(true),
			}},
		},
		Spec: corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{
			{Name: "manager", Image: "manager", Args: arguments},
		}},
	}
	if err := cluster.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	pod.Status.Phase = corev1.PodRunning
	if err := cluster.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

// holder returns who holds the managers' Lease.
func holder(t *testing.T, cluster client.Client) string {
	t.Helper()
	lease := &coordinationv1.Lease{}
	err := cluster.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: leaseName}, lease)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}
