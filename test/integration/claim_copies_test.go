package integration

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
	"github.com/harrier-ci/harrier/test/rig"
)

// In a burst a single free claim is copied for all runners. No runner has it until the copies have volumes, however
// long the driver takes. Then it is free again.
func TestABurstGetsCopiesOfTheWarmestClaim(t *testing.T) {
	const burst = 3
	r := rig.Start(t, testkube.Borrow(t), rig.Options{
		MaxRunners: burst + 1, ScaleSetValues: cacheTemplate(map[string]any{"seedFrom": map[string]any{"newest": true}}),
	})
	r.WaitDone(r.QueueJobs(1, time.Second))
	r.AwaitQuiet()
	var original corev1.PersistentVolumeClaim
	for _, claim := range claimsOf(t, r) {
		if original = claim; claim.Spec.DataSource != nil {
			t.Errorf("the first claim is a copy of %v", claim.Spec.DataSource)
		}
	}

	r.Storage.RefuseVolumes(func(claim *corev1.PersistentVolumeClaim) string {
		if claim.Spec.DataSource == nil {
			return ""
		}
		return "the driver makes no copies now"
	})
	jobs := r.QueueJobs(burst, time.Second)
	g := gomega.NewWithT(t)
	counts := func() v1alpha1.VolumeClaimCounts {
		if counts := readSet(t, r, rig.DefaultSet).Status.VolumeClaims; counts != nil {
			return *counts
		}
		return v1alpha1.VolumeClaimCounts{}
	}
	g.Eventually(counts, rig.Patience).Should(gomega.Equal(v1alpha1.VolumeClaimCounts{Total: 1 + burst, Leased: burst}),
		"claims, of which the copied one is neither leased nor free")
	want := &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: original.Name}
	for uid, claim := range claimsOf(t, r) {
		if uid == original.UID {
			continue
		}
		if diff := cmp.Diff(want, claim.Spec.DataSource); diff != "" {
			t.Errorf("dataSource of %s (-want +got):\n%s", claim.Name, diff)
		}
		if size := claim.Spec.Resources.Requests[corev1.ResourceStorage]; size.Cmp(original.Spec.Resources.Requests[corev1.ResourceStorage]) < 0 {
			t.Errorf("%s is smaller than what it copies: %s", claim.Name, size.String())
		}
	}
	g.Eventually(func() (mounted []string) {
		for _, pod := range podsOf(t, r) {
			mounted = append(mounted, volumeclaims.MountedBy(&pod)...)
		}
		return mounted
	}, rig.Patience).Should(gomega.And(gomega.HaveLen(burst), gomega.Not(gomega.ContainElement(original.Name))))

	r.Storage.RefuseVolumes(nil)
	r.WaitDone(jobs)
	r.AwaitQuiet()
	g.Eventually(counts, rig.Patience).Should(gomega.Equal(v1alpha1.VolumeClaimCounts{Total: 1 + burst, Free: 1 + burst}))
	if still := claimsOf(t, r)[original.UID]; still.UID == "" {
		t.Error("what was copied is gone")
	}
	r.WaitDone(r.QueueJobs(burst, time.Second))
	r.AwaitQuiet()
	if now := len(claimsOf(t, r)); now != 1+burst {
		t.Errorf("%d claims after a second burst, want those %d that there were", now, 1+burst)
	}
}

// podsOf returns the pods in the runners' namespace.
func podsOf(t *testing.T, r *rig.Rig) []corev1.Pod {
	t.Helper()
	var list corev1.PodList
	if err := r.Cluster.Client().List(t.Context(), &list, client.InNamespace(r.RunnerNamespace)); err != nil {
		t.Fatal(err)
	}
	return list.Items
}
