package manager_test

import (
	"testing"

	"github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/internal/testkube"
)

// A process that was stopped, as by a freezer or an overloaded node, ends as soon as it goes on, and leaves the Lease
// to the manager that has taken it meanwhile. client-go's elector alone would let it lead for six seconds more.
func TestAManagerThatWasStoppedEndsWhenItGoesOn(t *testing.T) {
	g := gomega.NewWithT(t)
	g.SetDefaultEventuallyTimeout(startTimeout)
	cluster := testkube.Start(t, testkube.Options{})
	grantChartPermissions(t, cluster.Client())
	holder := func() string {
		lease := &coordinationv1.Lease{}
		key := client.ObjectKey{Namespace: "default", Name: leaseName}
		if err := cluster.Client().Get(t.Context(), key, lease); err != nil || lease.Spec.HolderIdentity == nil {
			return ""
		}
		return *lease.Spec.HolderIdentity
	}

	var log, others output
	stopped := startInCluster(t, cluster, &log)
	g.Eventually(holder).ShouldNot(gomega.BeEmpty(), log.String)
	first := holder()
	if err := stopped.Pause(); err != nil {
		t.Fatal(err)
	}
	startInCluster(t, cluster, &others)
	g.Eventually(holder).ShouldNot(gomega.BeElementOf(first, ""), others.String)
	second := holder()
	if err := stopped.Resume(); err != nil {
		t.Fatal(err)
	}
	g.Eventually(stopped.Done()).Should(gomega.BeClosed(), log.String)
	g.Expect(log.String()).To(gomega.ContainSubstring(leaseLost))
	g.Expect(holder()).To(gomega.Equal(second))
}
