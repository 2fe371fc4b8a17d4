package integration

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/internal/testkube/fakestorage"
	"github.com/harrier-ci/harrier/test/rig"
)

// uidsOf returns the UIDs of all claims.
func uidsOf(t *testing.T, r *rig.Rig) []types.UID {
	t.Helper()
	return slices.Sorted(maps.Keys(claimsOf(t, r)))
}

// A claim costs its creation and no other request, whether the manager that leases it has created it or another one.
func TestALeaseCostsNoRequest(t *testing.T) {
	const jobs = 10
	r := rig.Start(t, testkube.Borrow(t), rig.Options{MaxRunners: jobs, ScaleSetValues: cacheTemplate(nil)})
	r.WaitDone(r.QueueJobs(jobs, 2*time.Second))
	r.AwaitQuiet()
	first := uidsOf(t, r)
	r.KillManager()
	r.WaitDone(r.QueueJobs(jobs, 2*time.Second))
	r.AwaitQuiet()
	if second := uidsOf(t, r); len(second) > jobs || !slices.Equal(first, second) {
		t.Errorf("%d claims, of which the second wave has %d", len(first), len(second))
	}
	requests := r.Requests()
	for what, most := range map[string]int{
		"create persistentvolumeclaims": len(first), "get persistentvolumeclaims": 0, "patch persistentvolumeclaims": 0, "list persistentvolumeclaims": 4,
	} {
		if got := requests.Manager[what]; got > most {
			t.Errorf("%d times %s, want at most %d\n%s", got, what, most, requests)
		}
	}
}

// While the API server refuses claims, runners wait and the set says why. Nothing is lost.
func TestARefusedClaimIsTold(t *testing.T) {
	r := rig.Start(t, testkube.Borrow(t), rig.Options{ScaleSetValues: cacheTemplate(nil)})
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: r.RunnerNamespace, Name: "no-claims"}}
	quota.Spec.Hard = corev1.ResourceList{corev1.ResourcePersistentVolumeClaims: resource.MustParse("0")}
	if err := r.Cluster.Client().Create(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	g := gomega.NewWithT(t)
	g.Eventually(func() (corev1.ResourceQuota, error) {
		var now corev1.ResourceQuota
		return now, r.Cluster.Client().Get(t.Context(), client.ObjectKeyFromObject(quota), &now)
	}, rig.Patience).Should(gomega.HaveField("Status.Hard", gomega.HaveLen(1)))
	jobs := r.QueueJobs(2, time.Second)
	ready := func() string {
		c := meta.FindStatusCondition(readSet(t, r, rig.DefaultSet).Status.Conditions, v1alpha1.ConditionVolumeClaimsReady)
		if c == nil {
			return ""
		}
		return string(c.Status) + " " + c.Reason + ": " + c.Message
	}
	g.Eventually(ready, rig.Patience).Should(gomega.And(
		gomega.HavePrefix("False "+v1alpha1.ReasonVolumeClaimRefused), gomega.ContainSubstring("no-claims")))
	if err := r.Cluster.Client().Delete(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	r.WaitDone(jobs)
	r.AwaitQuiet()
	g.Eventually(ready, rig.Patience).Should(gomega.HavePrefix("True "))
}

// Retained claims outlive their set, and a set of the same name has them again. They go with it when they are no longer
// retained.
func TestRetainedClaimsServeTheNextSet(t *testing.T) {
	retained := cacheTemplate(nil)
	retained["persistentVolumeClaimRetentionPolicy"] = rig.Values{"whenDeleted": "Retain"}
	r := rig.Start(t, testkube.Borrow(t), rig.Options{MaxRunners: 3, ScaleSetValues: retained})
	r.WaitDone(r.QueueJobs(3, 2*time.Second))
	r.AwaitQuiet()
	kept := uidsOf(t, r)
	r.UninstallSet(rig.DefaultSet)
	gomega.NewWithT(t).Eventually(func() []string { return objectsOf(t, r) }, rig.Patience).
		Should(gomega.BeEmpty(), "scale sets and runner sets")
	if left := uidsOf(t, r); !slices.Equal(left, kept) {
		t.Errorf("of %d retained claims %d are left", len(kept), len(left))
	}
	r.InstallSet(rig.DefaultSet, nil)
	r.AwaitListening(rig.DefaultSet)
	r.WaitDone(r.QueueJobs(3, 2*time.Second))
	r.AwaitQuiet()
	if again := uidsOf(t, r); !slices.Equal(again, kept) {
		t.Errorf("of %d retained claims the next set has made %v", len(kept), again)
	}
	r.UpgradeSet(rig.DefaultSet, rig.Values{"persistentVolumeClaimRetentionPolicy": rig.Values{"whenDeleted": "Delete"}})
	gomega.NewWithT(t).Eventually(func() (owners int) {
		for _, claim := range claimsOf(t, r) {
			owners += len(claim.OwnerReferences)
		}
		return owners
	}, rig.Patience).Should(gomega.Equal(len(kept)), "claims that go with their set")
}

// A set that had no claims gets them by an upgrade: a running job is left alone, and later runners have claims. They go
// with their template when no runner has them.
func TestClaimsComeAndGoWithTheirTemplate(t *testing.T) {
	r := rig.Start(t, testkube.Borrow(t), rig.Options{MaxRunners: 3})
	running := r.QueueJobs(1, 8*time.Second)
	g := gomega.NewWithT(t)
	g.Eventually(func() int { return len(r.GitHub.Jobs("running")) }, rig.Patience).Should(gomega.Equal(1))
	r.UpgradeSet(rig.DefaultSet, cacheTemplate(map[string]any{"max": 3}))
	g.Eventually(func() int { return len(readSet(t, r, rig.DefaultSet).Spec.VolumeClaimTemplates) }, rig.Patience).
		Should(gomega.Equal(1))
	r.WaitDone(append(running, r.QueueJobs(3, time.Second)...))
	r.AwaitQuiet()
	if claims := claimsOf(t, r); len(claims) == 0 || len(claims) > 3 {
		t.Errorf("%d claims after the upgrade, of 3 at most", len(claims))
	}
	r.UpgradeSet(rig.DefaultSet, rig.Values{"volumeClaimTemplates": []any{}, "volumeClaimPool": rig.Values{"max": 3}})
	g.Eventually(func() int { return len(claimsOf(t, r)) }, rig.Patience).
		Should(gomega.BeZero(), "claims without a template")
	r.WaitDone(r.QueueJobs(1, time.Second))
	r.AwaitQuiet()
}

// objectsOf returns the names of all scale sets and runner sets.
func objectsOf(t *testing.T, r *rig.Rig) (names []string) {
	t.Helper()
	var sets v1alpha1.AutoscalingRunnerSetList
	var runnerSets v1alpha1.EphemeralRunnerSetList
	for _, list := range []client.ObjectList{&sets, &runnerSets} {
		if err := r.Cluster.Client().List(t.Context(), list, client.InNamespace(r.RunnerNamespace)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range sets.Items {
		names = append(names, sets.Items[i].Name)
	}
	for i := range runnerSets.Items {
		names = append(names, runnerSets.Items[i].Name)
	}
	return names
}

// A pod whose claim's zone is full waits for pendingTimeout; then one with a new claim takes its place. The claim stays.
func TestAFullZoneGivesWay(t *testing.T) {
	values := cacheTemplate(nil)
	values["pendingTimeout"] = "40s"
	r := rig.Start(t, testkube.Borrow(t), rig.Options{
		MaxRunners: 1, ScaleSetValues: values, Storage: fakestorage.Options{Zones: []string{"a", "b"}},
	})
	r.WaitDone(r.QueueJobs(1, time.Second))
	r.AwaitQuiet()
	r.Storage.FillZone("a", true)
	began := time.Now()
	r.WaitDone(r.QueueJobs(1, time.Second))
	r.AwaitQuiet()
	if took := time.Since(began); took < 40*time.Second || took > 90*time.Second {
		t.Errorf("the job was done %s after its claim's zone was full", took.Round(time.Second))
	}
	var zones []string
	for _, claim := range claimsOf(t, r) {
		zones = append(zones, r.Storage.ZoneOf(&claim))
	}
	if slices.Sort(zones); !slices.Equal(zones, []string{"a", "b"}) {
		t.Errorf("there are claims in zones %v", zones)
	}
}
