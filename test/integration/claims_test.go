package integration

import (
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

// cacheTemplate are the values of a scale set whose runners have a claim each.
func cacheTemplate(pool map[string]any) rig.Values {
	return rig.Values{"volumeClaimTemplates": rig.ClaimTemplates("cache"), "volumeClaimPool": pool}
}

// claimsOf returns the UIDs of the claims in the runners' namespace.
func claimsOf(t *testing.T, r *rig.Rig) map[types.UID]corev1.PersistentVolumeClaim {
	t.Helper()
	var list corev1.PersistentVolumeClaimList
	if err := r.Cluster.Client().List(t.Context(), &list, client.InNamespace(r.RunnerNamespace)); err != nil {
		t.Fatal(err)
	}
	found := map[types.UID]corev1.PersistentVolumeClaim{}
	for _, claim := range list.Items {
		found[claim.UID] = claim
	}
	return found
}

// watchMounts watches the runners' pods until the test ends. The returned function lists the claims that two running
// pods mounted, and counts the pods that mounted a claim.
func watchMounts(t *testing.T, r *rig.Rig) func() (shared []string, mounted int) {
	t.Helper()
	watching, err := r.Cluster.Client().Watch(t.Context(), &corev1.PodList{}, client.InNamespace(r.RunnerNamespace))
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var shared []string
	users, mounted := map[string]sets.Set[types.UID]{}, sets.New[types.UID]()
	go func() {
		for event := range watching.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok {
				continue
			}
			over := event.Type == "DELETED" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
			mu.Lock()
			for i := range pod.Spec.Volumes {
				claim := pod.Spec.Volumes[i].PersistentVolumeClaim
				if claim == nil {
					continue
				}
				if users[claim.ClaimName] == nil {
					users[claim.ClaimName] = sets.New[types.UID]()
				}
				mounted.Insert(pod.UID)
				if users[claim.ClaimName].Insert(pod.UID); over {
					users[claim.ClaimName].Delete(pod.UID)
				}
				if len(users[claim.ClaimName]) > 1 {
					shared = append(shared, claim.ClaimName+" by "+pod.Name)
				}
			}
			mu.Unlock()
		}
	}()
	t.Cleanup(watching.Stop)
	return func() ([]string, int) {
		mu.Lock()
		defer mu.Unlock()
		return shared, mounted.Len()
	}
}

// Two waves of jobs, the manager killed in the second: the claims of the first wave serve the second, none serves two
// runners at a time, and all go with the set.
func TestClaimsOutliveRunners(t *testing.T) {
	const wave = 10
	r := rig.Start(t, testkube.Borrow(t), rig.Options{MaxRunners: wave, ScaleSetValues: cacheTemplate(map[string]any{})})
	mounts := watchMounts(t, r)
	r.WaitDone(r.QueueJobs(wave, 2*time.Second))
	r.AwaitQuiet()
	first := claimsOf(t, r)
	if len(first) == 0 || len(first) > wave {
		t.Fatalf("%d claims after %d jobs", len(first), wave)
	}
	ids := r.QueueJobs(wave, 2*time.Second)
	r.AwaitCompleted(ids, 2)
	r.KillManager()
	r.WaitDone(ids)
	r.AwaitQuiet()
	second := claimsOf(t, r)
	for uid, claim := range first {
		if _, still := second[uid]; !still {
			t.Errorf("claim %s is gone", claim.Name)
		}
		if len(claim.OwnerReferences) != 1 || claim.OwnerReferences[0].Kind != "AutoscalingRunnerSet" {
			t.Errorf("claim %s has owners %v", claim.Name, claim.OwnerReferences)
		}
	}
	if len(second) > wave {
		t.Errorf("%d claims for at most %d runners", len(second), wave)
	}
	shared, mounted := mounts()
	if len(shared) > 0 || mounted < 2*wave {
		t.Errorf("of %d pods with a claim these shared one: %v", mounted, shared)
	}
	if refused := r.Requests().Refused; len(refused) > 0 {
		t.Errorf("refused: %v", refused)
	}
	counts := func() *v1alpha1.VolumeClaimCounts {
		var list v1alpha1.AutoscalingRunnerSetList
		if err := r.Cluster.Client().List(t.Context(), &list, client.InNamespace(r.RunnerNamespace)); err != nil ||
			len(list.Items) != 1 {
			return nil
		}
		return list.Items[0].Status.VolumeClaims
	}
	want := &v1alpha1.VolumeClaimCounts{Total: len(second), Free: len(second)}
	gomega.NewWithT(t).Eventually(counts, rig.Patience).Should(gomega.Equal(want))
}

// With one claim at most, runners wait for it. After a job of an untrusted event they get another one.
func TestOneClaimServesOneRunnerAfterAnother(t *testing.T) {
	const jobs = 3
	pool := map[string]any{"max": 1, "keepAfter": map[string]any{"events": []any{"push"}}}
	r := rig.Start(t, testkube.Borrow(t), rig.Options{MaxRunners: 5, ScaleSetValues: cacheTemplate(pool)})
	mounts := watchMounts(t, r)
	queue := func(event string) {
		var ids []int64
		for range jobs {
			ids = append(ids, r.Queue(fakegithub.JobRequest{ScaleSet: rig.DefaultSet, Event: event,
				Duration: fakegithub.Duration(time.Second)})...)
		}
		r.WaitDone(ids)
		r.AwaitQuiet()
	}
	queue("push")
	first := claimsOf(t, r)
	if shared, mounted := mounts(); len(first) != 1 || len(shared) > 0 || mounted != jobs {
		t.Errorf("%d claims, %d pods, shared: %v", len(first), mounted, shared)
	}
	r.WaitDone(r.Queue(fakegithub.JobRequest{
		ScaleSet: rig.DefaultSet,
		Event:    "pull_request",
		Duration: fakegithub.Duration(time.Second),
	}))
	r.AwaitQuiet()
	for uid, claim := range claimsOf(t, r) {
		if _, kept := first[uid]; kept && claim.DeletionTimestamp == nil {
			t.Errorf("claim %s is kept after a job of a pull request", claim.Name)
		}
	}
}
