package integration

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

// shared is the label of the sets that share jobs.
const shared = "shared"

// placing returns values of a set that announces as many runners as its cluster places. A test can't wait for minutes
// until a pod is late.
func placing(more rig.Values) rig.Values {
	values := rig.Values{
		"capacity":       rig.Values{"mode": "Placement", "placementTimeout": "5s"},
		"scaleSetLabels": []any{shared},
	}
	for key, value := range more {
		values[key] = value
	}
	return values
}

// multiLabel is a GitHub on which sets may have more labels than their name.
var multiLabel = fakegithub.Options{Rules: fakegithub.Rules{MultiLabel: true}, PollLength: 10 * time.Second}

// placed is a set's status about its room.
type placed struct {
	Advertised int
	Reason     string
	Limited    bool
}

func roomOf(t *testing.T, r *rig.Rig, name string) placed {
	t.Helper()
	set := &v1alpha1.AutoscalingRunnerSet{}
	key := client.ObjectKey{Namespace: r.RunnerNamespace, Name: name}
	if err := r.Cluster.Client().Get(t.Context(), key, set); err != nil {
		t.Fatal(err)
	}
	said := placed{Advertised: -1}
	if set.Status.AdvertisedCapacity != nil {
		said.Advertised = *set.Status.AdvertisedCapacity
	}
	if limited := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionCapacityLimited); limited != nil {
		said.Reason, said.Limited = limited.Reason, limited.Status == metav1.ConditionTrue
	}
	return said
}

// announced returns the number in the last poll of a set.
func announced(r *rig.Rig, name string) int {
	snapshot := r.GitHub.Snapshot()
	for _, set := range snapshot.ScaleSets {
		for _, session := range snapshot.Sessions {
			if set.Name == name && session.ScaleSetID == set.ID {
				return session.Capacity
			}
		}
	}
	return -1
}

// Two sets in two namespaces share a label. One has room for two runners, and finds that out with the first jobs. The
// next ones run in the other, all but a few.
func TestJobsRunWhereThereIsRoom(t *testing.T) {
	const small, large = 2, 30
	first := rig.Start(t, testkube.Borrow(t), rig.Options{
		SingleNamespace: true, GitHub: multiLabel, MaxRunners: 100, ScaleSetValues: placing(nil),
		Slots: func() int { return small },
	})
	second := rig.Start(t, testkube.Borrow(t), rig.Options{
		Beside: first, SingleNamespace: true, MaxRunners: 100, ScaleSetValues: placing(nil),
		Slots: func() int { return large },
	})
	second.InstallSet("second", nil)
	second.AwaitListening("second")
	g := gomega.NewWithT(t)
	g.Expect([]int{announced(first, rig.DefaultSet), announced(first, "second")}).
		To(gomega.Equal([]int{10, 10}), "announced at first")

	first.WaitDone(first.Queue(fakegithub.JobRequest{
		Labels:   []string{shared},
		Count:    40,
		Duration: fakegithub.Duration(4 * time.Second),
	}))
	before := roomOf(t, first, rig.DefaultSet)
	if before.Advertised > small+3 || !before.Limited {
		t.Errorf("after 40 jobs the small cluster says %+v", before)
	}
	held := first.Queue(fakegithub.JobRequest{
		Labels:   []string{shared},
		Count:    large,
		Duration: fakegithub.Duration(rig.Held),
	})
	// A job that waits in the small cluster can't be given back. It has 3 while it finds out, and one more after 1, 2, 4 …
	// times placementTimeout as long as jobs are queued: log2(180 s / 5 s) = 5 in the time that a test waits.
	const stuck = 3 + 5
	g.Eventually(func() []int {
		waiting := 0
		for _, pod := range first.RunnerPods() {
			if pod.Status.Phase == corev1.PodPending {
				waiting++
			}
		}
		return []int{len(first.GitHub.Jobs("running")) + waiting, max(stuck, waiting)}
	}, rig.Patience).Should(gomega.Equal([]int{large, stuck}), "jobs that run or wait in the small cluster")
	if got := announced(first, rig.DefaultSet); got > small+stuck {
		t.Errorf("the small cluster announces %d", got)
	}
	first.EndJobs(held)
	first.UninstallSet(rig.DefaultSet) // the second looks after what is left on the GitHub of both
}

// A set that places no runner is given at most few jobs: 10 at first, and one more after 1, 2, 4 … times
// placementTimeout. That is 2 + log2(180 s / 5 s) more in the time that a test waits.
const few = 10 + 2 + 6

// A cluster that places nothing, as with an autoscaler that never delivers, is given a few jobs and now and then one
// more, and the set's status has the reason why it gets no others. When its nodes come late, it gets the others.
func TestNodesThatComeLate(t *testing.T) {
	var slots atomic.Int64
	r := rig.Start(t, testkube.Borrow(t), rig.Options{
		GitHub: multiLabel, MaxRunners: 40, ScaleSetValues: placing(nil), Slots: func() int { return int(slots.Load()) },
	})
	ids := r.QueueJobs(40, rig.Held)
	g := gomega.NewWithT(t)
	g.Eventually(func() placed { return roomOf(t, r, rig.DefaultSet) }, rig.Patience).Should(gomega.And(
		gomega.HaveField("Reason", v1alpha1.ReasonPodsUnschedulable), gomega.HaveField("Limited", true),
		gomega.HaveField("Advertised", gomega.And(gomega.BeNumerically(">=", 10+3), gomega.BeNumerically("<=", few)))))
	g.Expect(len(r.RunnerPods())).To(gomega.BeNumerically("<=", few), "pods that no node fits")
	slots.Store(100)
	g.Eventually(func() int { return len(r.GitHub.Jobs("running")) }, rig.Patience).
		Should(gomega.Equal(40), "jobs that run once there are nodes")
	g.Eventually(func() placed { return roomOf(t, r, rig.DefaultSet) }, rig.Patience).
		Should(gomega.Equal(placed{40, "AllAnnounced", false}))
	r.EndJobs(ids)
}

// A quota admits three pods: the set is given one job more, and no other.
func TestQuotaLimitsWhatIsAnnounced(t *testing.T) {
	r := rig.Start(t, testkube.Borrow(t), rig.Options{GitHub: multiLabel, MaxRunners: 40, ScaleSetValues: placing(nil)})
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: r.RunnerNamespace, Name: "pods"}}
	quota.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("3")}
	g := gomega.NewWithT(t)
	g.Expect(r.Cluster.Client().Create(t.Context(), quota)).To(gomega.Succeed())
	g.Eventually(func() (int, error) {
		err := r.Cluster.Client().Get(t.Context(), client.ObjectKeyFromObject(quota), quota)
		return len(quota.Status.Hard), err
	}, rig.Patience).Should(gomega.Equal(1))
	ids := r.QueueJobs(30, rig.Held)
	g.Eventually(func() placed { return roomOf(t, r, rig.DefaultSet) }, rig.Patience).
		Should(gomega.Equal(placed{4, v1alpha1.ReasonQuotaExceeded, true}))
	g.Eventually(func() int { return announced(r, rig.DefaultSet) }, rig.Patience).Should(gomega.Equal(4))
	g.Expect(r.Cluster.Client().Delete(t.Context(), quota)).To(gomega.Succeed())
	g.Eventually(func() int { return len(r.GitHub.Jobs("running")) }, rig.Patience).
		Should(gomega.Equal(30), "jobs that run without a quota")
	r.EndJobs(ids)
}
