package integration

import (
	"slices"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

// An eviction, as kubectl drain and node autoscalers request it, is refused while a pod runs a job, or is new, and
// granted for an idle pod unless the set protects all. Another budget on the same pods turns the refusal into an error;
// the set says so, and names the budget.
func TestEvictionsWaitForJobs(t *testing.T) {
	r := rig.Start(t, testkube.Borrow(t), rig.Options{MinRunners: 1, Flags: rig.Values{"jobPodMetadata": false}})
	jobs := r.QueueJobs(1, rig.Held)
	busy, idle := awaitPods(t, r)
	awaitBudget(t, r)
	if err := evict(t, r, busy); !apierrors.IsTooManyRequests(err) {
		t.Errorf("the eviction of a busy pod is answered with %v, want 429", err)
	}
	if err := evict(t, r, idle); err != nil {
		t.Errorf("the eviction of an idle pod is answered with %v", err)
	}
	successor := awaitNewPod(t, r, idle.UID)
	if err := evict(t, r, successor); !apierrors.IsTooManyRequests(err) {
		t.Errorf("the eviction of a new pod is answered with %v, want 429", err)
	}
	gomega.NewWithT(t).Eventually(func() types.UID { _, again := awaitPods(t, r); return again.UID }, rig.Patience).
		Should(gomega.Equal(successor.UID), "the other pod for the idle runner is let go")

	r.UpgradeSet(rig.DefaultSet, rig.Values{"protectRunners": "All"})
	awaitBudget(t, r)
	_, idle = awaitPods(t, r)
	if err := evict(t, r, idle); !apierrors.IsTooManyRequests(err) {
		t.Errorf("with All the eviction of an idle pod is answered with %v, want 429", err)
	}

	foreign := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: r.RunnerNamespace,
		Name: "of-the-platform-team"}}
	foreign.Spec.Selector = &metav1.LabelSelector{}
	if err := r.Cluster.Client().Create(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	if err := evict(t, r, busy); !apierrors.IsInternalError(err) {
		t.Errorf("with two budgets the eviction is answered with %v, want 500", err)
	}
	unprotected := func() string {
		c := meta.FindStatusCondition(readSet(t, r, rig.DefaultSet).Status.Conditions, v1alpha1.ConditionRunnersUnprotected)
		if c == nil || c.Status != metav1.ConditionTrue {
			return ""
		}
		return c.Reason + ": " + c.Message
	}
	gomega.NewWithT(t).Eventually(unprotected, rig.Patience).Should(gomega.And(
		gomega.ContainSubstring(v1alpha1.ReasonSeveralDisruptionBudgets), gomega.ContainSubstring("of-the-platform-team")))
	r.EndJobs(jobs)
}

// awaitPods waits for a runner pod that is marked as busy and another one that is up without the mark, and returns
// both.
func awaitPods(t *testing.T, r *rig.Rig) (busy, idle corev1.Pod) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func() bool {
		busy, idle = corev1.Pod{}, corev1.Pod{}
		for _, pod := range r.RunnerPods() {
			switch label := pod.Labels[v1alpha1.LabelRunnerBusy]; {
			case label == "true":
				busy = pod
			case label == "" && isUp(&pod):
				idle = pod
			}
		}
		return busy.Name != "" && idle.Name != ""
	}, rig.Patience).Should(gomega.BeTrue(), "a busy and an idle pod")
	return busy, idle
}

func isUp(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// awaitNewPod waits for a runner pod that is up, but has not been for so long that it is idle, and is not the one that
// was evicted.
func awaitNewPod(t *testing.T, r *rig.Rig, evicted types.UID) (found corev1.Pod) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func() bool {
		for _, pod := range r.RunnerPods() {
			if pod.UID != evicted && isUp(&pod) && pod.Labels[v1alpha1.LabelRunnerBusy] == "unknown" {
				found = pod
			}
		}
		return found.Name != ""
	}, rig.Patience).Should(gomega.BeTrue(), "a new pod")
	return found
}

// awaitBudget waits until the disruption controller has seen the set's budget: before that the API server refuses all
// evictions of its pods.
func awaitBudget(t *testing.T, r *rig.Rig) {
	t.Helper()
	budget := &policyv1.PodDisruptionBudget{}
	gomega.NewWithT(t).Eventually(func() (bool, error) {
		err := r.Cluster.Client().Get(t.Context(),
			client.ObjectKey{Namespace: r.RunnerNamespace, Name: rig.DefaultSet + "-gha-rs-runners"}, budget)
		return err == nil && budget.Status.ObservedGeneration == budget.Generation && budget.Status.ExpectedPods > 0, err
	}, rig.Patience).Should(gomega.BeTrue(), "the budget is in force")
}

// evict asks for a pod's eviction, as kubectl drain does.
func evict(t *testing.T, r *rig.Rig, pod corev1.Pod) error {
	t.Helper()
	return r.Cluster.Client().SubResource("eviction").Create(t.Context(), &pod, &policyv1.Eviction{})
}
