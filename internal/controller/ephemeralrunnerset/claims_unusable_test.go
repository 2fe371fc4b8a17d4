package ephemeralrunnerset_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

// A runner whose claims can't be used is waited for until givesWayAfter, or lostNodeAfter if there are no other claims.
// After unseenAfter it is certain that a claim that may have been created again has not been.
const (
	givesWayAfter = time.Minute
	lostNodeAfter = 5 * time.Minute
	unseenAfter   = 2 * time.Minute
)

// showClaimedPod shows the watch the pod of a runner, with the runner's claims, as the test wants it.
func (f *fixture) showClaimedPod(runner *v1alpha1.EphemeralRunner, change func(*corev1.Pod)) {
	f.Helper()
	owner := metav1.OwnerReference{Kind: "EphemeralRunner", Name: runner.Name, UID: runner.UID, Controller: new(true)}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: runner.Namespace, Name: runner.Name, UID: types.UID("pod-" + runner.Name),
		OwnerReferences: []metav1.OwnerReference{owner},
	}}
	for volume, claim := range runner.Spec.VolumeClaims {
		source := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{
			ClaimName: claim}}
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: volume, VolumeSource: source})
	}
	change(pod)
	f.controller.ClaimedPodEvents().Create(f.Context(), event.CreateEvent{Object: pod}, &controllertest.Queue{})
}

func unplaced(pod *corev1.Pod) {
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
		Reason: corev1.PodReasonUnschedulable}}
}

// only returns the only runner that isn't being deleted.
func (f *fixture) only() *v1alpha1.EphemeralRunner {
	f.Helper()
	runners := slices.DeleteFunc(f.runners(), func(r v1alpha1.EphemeralRunner) bool {
		return r.DeletionTimestamp != nil
	})
	if len(runners) != 1 {
		f.Fatalf("%d runners, want one", len(runners))
	}
	return &runners[0]
}

// waitUntilGone lets a time pass, with a pass every few seconds, as long as the runner is wanted. It returns that time.
func (f *fixture) waitUntilGone(runner *v1alpha1.EphemeralRunner, most time.Duration) time.Duration {
	f.Helper()
	for waited := time.Duration(0); waited < most; waited += 5 * time.Second {
		f.reconcile()
		var now v1alpha1.EphemeralRunner
		if !controllertest.Read(f, f.api, client.ObjectKeyFromObject(runner), &now) || now.DeletionTimestamp != nil {
			return waited
		}
		controllertest.Elapse(5 * time.Second)
	}
	return most
}

// replace ends the runner that gave way, and its pod, and returns the one that takes its place.
func (f *fixture) replace(runner *v1alpha1.EphemeralRunner) *v1alpha1.EphemeralRunner {
	f.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: runner.Namespace, Name: runner.Name}}
	f.controller.ClaimedPodEvents().Delete(f.Context(), event.DeleteEvent{Object: pod}, &controllertest.Queue{})
	var now v1alpha1.EphemeralRunner
	if controllertest.Read(f, f.api, client.ObjectKeyFromObject(runner), &now) {
		now.Finalizers = nil
		if err := f.api.Update(f.Context(), &now); err != nil {
			f.Fatal(err)
		}
	}
	for waited := time.Duration(0); len(f.runners()) == 0 && waited < unseenAfter; waited += 5 * time.Second {
		f.reconcile()
		controllertest.Elapse(5 * time.Second)
	}
	f.provision()
	return f.only()
}

func (f *fixture) claimExists(name string) bool {
	f.Helper()
	return controllertest.Read(f, f.api, runnerKey(name), &corev1.PersistentVolumeClaim{})
}

// A node says only in Events that it can't mount a volume. The second runner in a row whose pod meets that has the
// claim discarded.
func TestAClaimThatNoNodeMountsIsDiscarded(t *testing.T) {
	withClaims(t, 1, 1, func(f *fixture) {
		runner := f.only()
		claim := runner.Spec.VolumeClaims["cache"]
		for range 2 {
			f.provision()
			if got := runner.Spec.VolumeClaims["cache"]; got != claim {
				t.Fatalf("the runner has claim %s, want %s", got, claim)
			}
			f.showClaimedPod(runner, func(pod *corev1.Pod) { pod.Spec.NodeName = "node" })
			began := time.Now()
			said := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: runner.Namespace, Name: runner.Name},
				Reason: "FailedMount"}
			said.InvolvedObject = corev1.ObjectReference{Kind: "Pod", Name: runner.Name,
				UID: types.UID("pod-" + runner.Name)}
			said.Message = "Unable to attach or mount volumes: unmounted volumes=[cache], unattached volumes=[]: " +
				"timed out"
			said.FirstTimestamp, said.LastTimestamp = metav1.Now(), metav1.Now()
			controllertest.Create(t, f.api, said)
			if waited := f.waitUntilGone(runner, givesWayAfter); waited < givesWayAfter {
				t.Errorf("a runner gave way after %s for a failure that was told once", waited)
			}
			said.LastTimestamp = metav1.Now()
			if err := f.api.Update(t.Context(), said); err != nil {
				t.Fatal(err)
			}
			f.waitUntilGone(runner, time.Hour)
			if waited := time.Since(began); waited > givesWayAfter+slowStart+mountEventsPeriod {
				t.Errorf("a runner whose volume can't be mounted gave way after %s", waited)
			}
			runner = f.replace(runner)
		}
		if f.claimExists(claim) || runner.Spec.VolumeClaims["cache"] == claim {
			t.Errorf("claim %s is not discarded after two runners in a row could not use it", claim)
		}
		if !f.event("VolumeClaimDiscarded") {
			t.Error("no Event tells that the claim is discarded")
		}
	})
}

// The only claim that there may be is bound to a node that is lost. It is given up when Kubernetes gives up the node.
func TestTheOnlyClaimIsNotWaitedForLongerThanALostNode(t *testing.T) {
	withClaims(t, 1, 1, func(f *fixture) {
		f.provision()
		runner := f.only()
		claim := runner.Spec.VolumeClaims["cache"]
		f.showClaimedPod(runner, unplaced)
		if waited := f.waitUntilGone(runner, time.Hour); waited < lostNodeAfter ||
			waited > lostNodeAfter+30*time.Second {
			t.Errorf("the runner gave way after %s", waited)
		}
		if next := f.replace(runner); next.Spec.VolumeClaims["cache"] == claim || f.claimExists(claim) {
			t.Errorf("runner %s has claim %s still", next.Name, claim)
		}
		if !f.event("VolumeClaimDiscarded") {
			t.Error("no Event tells that the claim is discarded")
		}
	})
}

// What the documentation advises for a claim whose node does not come back: to delete it. Its runner waits for a node
// at that moment.
func TestARunnerWhoseClaimTheUserDeletesGivesWay(t *testing.T) {
	withClaims(t, 1, 1, func(f *fixture) {
		f.provision()
		runner := f.only()
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: runner.Namespace,
			Name: runner.Spec.VolumeClaims["cache"]}}
		f.showClaimedPod(runner, unplaced)
		f.reconcile()
		if err := f.api.Delete(t.Context(), claim); err != nil {
			t.Fatal(err)
		}
		if waited := f.waitUntilGone(runner, time.Hour); waited > givesWayAfter+30*time.Second {
			t.Errorf("the runner gave way after %s", waited)
		}
		f.replace(runner)
	})
}

// A StorageClass is misspelt: no claim gets a volume, and no runner goes, until the template is corrected. Then runners
// get new claims, and the old ones go.
func TestACorrectedTemplateReplacesClaimsWithoutAVolume(t *testing.T) {
	withClaims(t, 1, 1, func(f *fixture) {
		runner := f.only()
		claim := &corev1.PersistentVolumeClaim{}
		f.provision()
		controllertest.Read(t, f.api, runnerKey(runner.Spec.VolumeClaims["cache"]), claim)
		claim.Status.Phase = corev1.ClaimPending
		if err := f.api.Status().Update(t.Context(), claim); err != nil {
			if err = f.api.Update(t.Context(), claim); err != nil {
				t.Fatal(err)
			}
		}
		f.showClaimedPod(runner, unplaced)
		if waited := f.waitUntilGone(runner, 30*time.Minute); waited < 30*time.Minute {
			t.Fatalf("the runner gave way after %s for a claim that gets no volume either", waited)
		}
		origin := &v1alpha1.AutoscalingRunnerSet{}
		controllertest.Read(t, f.api, setKey, origin)
		origin.Spec.VolumeClaimTemplates[0].Spec.StorageClassName = new("fast")
		if err := f.api.Update(t.Context(), origin); err != nil {
			t.Fatal(err)
		}
		if waited := f.waitUntilGone(runner, time.Hour); waited > givesWayAfter {
			t.Errorf("the runner gave way %s after the template was corrected", waited)
		}
		next := f.replace(runner)
		f.reconcile()
		if f.claimExists(claim.Name) {
			t.Errorf("claim %s is left", claim.Name)
		}
		if next.Spec.VolumeClaims["cache"] == claim.Name {
			t.Errorf("the next runner has claim %s again", claim.Name)
		}
	})
}
