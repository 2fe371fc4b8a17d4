package integration

import (
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

// The deletion of the AutoscalingRunnerSet removes everything that was made for it, here and on GitHub.
func TestDeleteScaleSet(t *testing.T) {
	r := rig.Start(t, testkube.Borrow(t), rig.Options{MinRunners: 2})
	awaitIdle(t, r, 2)
	set := &v1alpha1.AutoscalingRunnerSet{}
	set.Namespace, set.Name = r.RunnerNamespace, rig.DefaultSet
	if err := r.Cluster.Client().Delete(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	gomega.NewWithT(t).Eventually(r.MadeFor, rig.Patience).WithArguments(t.Context(), rig.DefaultSet).
		Should(gomega.BeEmpty())
	if anomalies := r.Anomalies(); len(anomalies) > 0 {
		t.Error(anomalies)
	}
}

// Helm deletes RoleBinding, Role, Secret and ServiceAccount before the AutoscalingRunnerSet. A running job is finished.
func TestUninstallScaleSet(t *testing.T) {
	r := rig.Start(t, testkube.Borrow(t), rig.Options{MinRunners: 2})
	awaitIdle(t, r, 2)
	ids := r.QueueJobs(1, rig.Held)
	g := gomega.NewWithT(t)
	g.Eventually(func() int { _, busy := online(r); return busy }, rig.Patience).Should(gomega.Equal(1))
	r.UninstallSet(rig.DefaultSet)
	g.Eventually(func() []int { idle, busy := online(r); return []int{idle, busy} }, rig.Patience).
		Should(gomega.Equal([]int{0, 1}))
	r.EndJobs(ids)
	r.AwaitUninstalled()
	if anomalies := r.Anomalies(); len(anomalies) > 0 {
		t.Error(anomalies)
	}
}

// The uninstall of an idle scale set ends within uninstalledWithin, from helm's start to the last object.
const uninstalledWithin = 30 * time.Second

// An idle scale set is gone half a minute after helm uninstall, although that takes the manager's rights in the
// namespace away, and nothing of it is left on GitHub. The manager then ends with exit code 0 when it is told to.
func TestUninstallOfAnIdleScaleSet(t *testing.T) {
	r := rig.Start(t, testkube.Borrow(t), rig.Options{MinRunners: 3})
	awaitIdle(t, r, 3)
	began := time.Now()
	r.UninstallSet(rig.DefaultSet)
	r.AwaitUninstalled()
	if took := time.Since(began); took > uninstalledWithin {
		t.Errorf("it took %s", took)
	}
	checkStops(t, r, &managerPods(r)[0])
}

func awaitIdle(t *testing.T, r *rig.Rig, count int) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func() int { idle, _ := online(r); return idle }, rig.Patience).
		Should(gomega.Equal(count))
}
