package churn

import (
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/internal/testkube/fakenode"
	"github.com/harrier-ci/harrier/test/rig"
)

const (
	// churnPeriod exceeds the sum of a runner's pauses (155 s): if its ends counted, each runner would have failed by
	// then.
	churnPeriod = 3 * time.Minute
	// longestPause is a runner's pause after its fifth lost pod. startSlack is the time in which twenty runners start
	// on a busy machine.
	longestPause, startSlack = 80 * time.Second, time.Minute
)

// Nodes vanish under every pod for three minutes while 20 jobs wait. That is nobody's fault: all runners are back
// within one pause.
func TestNodesVanishUnderEveryPod(t *testing.T) {
	const jobs = 20
	g := gomega.NewWithT(t)
	r := rig.Start(t, testkube.Shared(t), rig.Options{MaxRunners: jobs})
	r.Node.OnStart(func(pod *corev1.Pod) fakenode.Fault {
		return fakenode.Fault{NeverStart: pod.Namespace == r.RunnerNamespace}
	})
	ids := r.QueueJobs(jobs, time.Second)
	lost, until := map[types.UID]bool{}, time.Now().Add(churnPeriod)
	vanish := func() {
		for _, pod := range r.RunnerPods() {
			lost[pod.UID] = true
			r.LoseNodeOf(&pod)
		}
	}
	g.Eventually(func() bool { vanish(); return time.Now().After(until) }, 2*churnPeriod, 500*time.Millisecond).
		Should(gomega.BeTrue())
	r.Node.OnStart(nil)
	vanish()
	ended := time.Now()

	var runners v1alpha1.EphemeralRunnerList
	if err := r.Cluster.Client().List(t.Context(), &runners, client.InNamespace(r.RunnerNamespace)); err != nil {
		t.Fatal(err)
	}
	for i := range runners.Items {
		if status := &runners.Items[i].Status; status.Done() || len(status.Failures) > 0 {
			t.Errorf("runner %s: %s, failures %v, disruptions %v",
				runners.Items[i].Name, status.Phase, status.Failures, status.Disruptions)
		}
	}
	set := &v1alpha1.AutoscalingRunnerSet{}
	key := client.ObjectKey{Namespace: r.RunnerNamespace, Name: rig.DefaultSet}
	if err := r.Cluster.Client().Get(t.Context(), key, set); err != nil {
		t.Fatal(err)
	}
	if meta.IsStatusConditionTrue(set.Status.Conditions, v1alpha1.ConditionDegraded) || len(runners.Items) != jobs {
		t.Errorf("%d runners for %d jobs; conditions %+v", len(runners.Items), jobs, set.Status.Conditions)
	}
	r.WaitDone(ids)
	took := time.Since(ended)
	t.Logf("%d pods vanished; all jobs were done %s after the last", len(lost), took)
	if took > longestPause+startSlack {
		t.Errorf("all jobs were done %s after the nodes had stopped to vanish, want %s at most",
			took, longestPause+startSlack)
	}
}
