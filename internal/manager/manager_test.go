package manager_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/testkube"
)

// startTimeout is for an API server that shares two cores with everything else that is being tested.
const startTimeout = 3 * time.Minute

const (
	// leaseName is the Lease of managers that are started without --leader-election-id.
	leaseName = "actions-runner-controller"
	// leaseLost is a part of what a manager says that ends because it has lost its Lease.
	leaseLost = "another manager holds it: this one ends"
)

// TestManagerStarts starts two managers with the permissions of the chart on a cluster without CRDs: they are alive but
// not ready and say why. When the CRDs are there both are ready, the leader and the standby, and end when told to.
func TestManagerStarts(t *testing.T) {
	g := gomega.NewWithT(t)
	cluster := testkube.Start(t, testkube.Options{CRDs: []string{}})
	grantChartPermissions(t, cluster.Client())
	var log output
	managers := []*process{startInCluster(t, cluster, &log), startInCluster(t, cluster, &log)}
	for _, manager := range managers {
		g.Eventually(manager.probe("/healthz")).WithTimeout(startTimeout).Should(gomega.Equal(http.StatusOK))
		g.Expect(manager.probe("/readyz")()).To(gomega.Equal(http.StatusInternalServerError))
	}
	g.Eventually(log.String).WithTimeout(startTimeout).Should(gomega.ContainSubstring(
		"lack AutoscalingListener, AutoscalingRunnerSet",
	))

	crds := envtest.CRDInstallOptions{
		Paths:              []string{filepath.Join("..", "..", "apis", "crds")},
		ErrorIfPathMissing: true,
		MaxTime:            startTimeout,
	}
	if _, err := envtest.InstallCRDs(cluster.Config(), crds); err != nil {
		t.Fatal(err)
	}
	for _, manager := range managers {
		g.Eventually(manager.probe("/readyz")).WithTimeout(startTimeout).Should(gomega.Equal(http.StatusOK), log.String)
	}
	for _, manager := range managers {
		if err := manager.stop(); err != nil {
			t.Errorf("the manager ended with: %v", err)
		}
	}
	if strings.Contains(log.String(), "forbidden") {
		t.Errorf("the chart's permissions were not enough:\n%s", log.String())
	}
}

// A manager whose Lease another holds ends, and leaves the Lease to it.
func TestManagerEndsWhenAnotherHoldsItsLease(t *testing.T) {
	g := gomega.NewWithT(t)
	cluster := testkube.Start(t, testkube.Options{})
	grantChartPermissions(t, cluster.Client())
	var log output
	manager := startInCluster(t, cluster, &log)
	lease := &coordinationv1.Lease{}
	g.Eventually(func() error {
		return cluster.Client().Get(
			t.Context(), client.ObjectKey{Namespace: "default", Name: leaseName}, lease,
		)
	}).WithTimeout(startTimeout).Should(gomega.Succeed(), log.String)
	taken := []byte(`{"spec":{"holderIdentity":"another"}}`)
	if err := cluster.Client().Patch(
		t.Context(), lease, client.RawPatch("application/merge-patch+json", taken),
	); err != nil {
		t.Fatal(err)
	}
	g.Eventually(manager.Done()).WithTimeout(startTimeout).Should(gomega.BeClosed(), log.String)
	g.Expect(manager.ExitCode()).To(gomega.Equal(1), log.String)
	g.Expect(log.String()).To(gomega.ContainSubstring(leaseLost))
	if err := cluster.Client().Get(
		t.Context(), client.ObjectKeyFromObject(lease), lease,
	); err != nil || *lease.Spec.HolderIdentity != "another" {
		t.Errorf("the Lease is %+v, %v", lease.Spec, err)
	}
}

// TestManagerServesAScaleSet follows a scale set through all four controllers, with the chart's permissions: from an
// AutoscalingRunnerSet to a runner pod, and away again with nothing left on GitHub.
func TestManagerServesAScaleSet(t *testing.T) {
	g := gomega.NewWithT(t)
	g.SetDefaultEventuallyTimeout(startTimeout)
	cluster := testkube.Start(t, testkube.Options{AddToScheme: []func(*runtime.Scheme) error{v1alpha1.AddToScheme}})
	kube, namespace := cluster.Client(), cluster.NewNamespace(t)
	grantChartPermissions(t, kube, namespace)
	github := fakegithub.New(fakegithub.Options{PATs: []string{"token"}})
	defer github.Close()
	address, err := github.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var log output
	startInCluster(t, cluster, &log, "--allowed-github-url="+address)

	set := scaleSet(namespace, address+"/org")
	for _, object := range []client.Object{secret(namespace, "github", credentials.KeyToken, "token"), set} {
		if err := kube.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	count := func(list client.ObjectList, options ...client.ListOption) func() (int, error) {
		return func() (int, error) {
			err := kube.List(t.Context(), list, options...)
			return meta.LenList(list), err
		}
	}
	listeners := count(&corev1.PodList{}, client.InNamespace("default"))
	g.Eventually(listeners).Should(gomega.Equal(1), log.String)
	g.Expect(github.Snapshot().ScaleSets).To(gomega.HaveLen(1))

	// What the listener would do for an assigned job.
	runnerSets := &v1alpha1.EphemeralRunnerSetList{}
	g.Expect(count(runnerSets, client.InNamespace(namespace))()).To(gomega.Equal(1))
	demand := client.RawPatch(
		"application/merge-patch+json", []byte(`{"spec":{"replicas":1,"patchID":1,"assignedJobs":1}}`),
	)
	if err := kube.Patch(t.Context(), &runnerSets.Items[0], demand); err != nil {
		t.Fatal(err)
	}
	g.Eventually(count(&corev1.PodList{}, client.InNamespace(namespace))).Should(gomega.Equal(1), log.String)
	g.Expect(github.Snapshot().Runners).To(gomega.HaveLen(1))

	if err := kube.Delete(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	g.Eventually(count(&v1alpha1.AutoscalingRunnerSetList{})).Should(gomega.Equal(0), log.String)
	g.Expect(github.Snapshot().ScaleSets).To(gomega.BeEmpty())
	g.Expect(github.Snapshot().Runners).To(gomega.BeEmpty())
	g.Expect(log.String()).NotTo(gomega.ContainSubstring("forbidden"))
}

func secret(namespace, name, key, value string) *corev1.Secret {
	made := &corev1.Secret{Data: map[string][]byte{key: []byte(value)}}
	made.Namespace, made.Name = namespace, name
	return made
}

func scaleSet(namespace, url string) *v1alpha1.AutoscalingRunnerSet {
	set := &v1alpha1.AutoscalingRunnerSet{}
	set.Namespace, set.Name = namespace, "set"
	set.Spec.GitHubConfigUrl, set.Spec.GitHubConfigSecret = url, "github"
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: v1alpha1.RunnerContainerName, Image: "runner"}}
	return set
}
