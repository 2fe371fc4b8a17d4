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

// A runner whose claims can't be used is waited for until givesWayAfter, and until pendingTimeout if a node may come.
// After unseenAfter it is certain that a claim that may have been created again has not been.
const (
	givesWayAfter  = time.Minute
	pendingTimeout = 10 * time.Minute
	unseenAfter    = 2 * time.Minute
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
	f.leave(runner)
	f.provision()
	return f.only()
}

// leave ends a runner that gave way, and its pod, and waits for the one that takes its place.
func (f *fixture) leave(runner *v1alpha1.EphemeralRunner) {
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

// nodeOf returns a node of a zone, which was made before everything else: the clock of a bubble begins in 2000.
func nodeOf(name, zone string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(start.AddDate(-30, 0, 0)),
		Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelTopologyZone: zone}}}
}

// bindTo gives a claim a volume that can be used where a node has a label.
func (f *fixture) bindTo(name, label, value string) {
	f.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	controllertest.Read(f, f.api, runnerKey(name), claim)
	claim.Spec.VolumeName = "volume-of-" + name
	if err := f.api.Update(f.Context(), claim); err != nil {
		f.Fatal(err)
	}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: claim.Spec.VolumeName}}
	volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: claim.Namespace, Name: name, UID: claim.UID}
	in := corev1.NodeSelectorRequirement{Key: label, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}
	volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{in}}}}}
	controllertest.Create(f, f.api, volume)
}

// The only claim that there may be can be used on a node that is no more, in a zone that has no node, or nobody knows
// where. It is given up as soon as its place is known to be gone, and never if nothing is known.
func TestTheOnlyClaimIsGivenUpForWhatIsKnown(t *testing.T) {
	const soon, never = time.Minute, 2 * time.Hour
	for name, test := range map[string]struct {
		label, value string
		shown        bool // all nodes
		waits        time.Duration
	}{
		"its node is gone":                            {corev1.LabelHostname, "lost", true, soon},
		"the watch has not shown all nodes":           {corev1.LabelHostname, "lost", false, never},
		"its node is there":                           {corev1.LabelHostname, "other", true, never},
		"its zone has no node":                        {corev1.LabelTopologyZone, "lost", true, never},
		"it is bound by a label that is kept nowhere": {"rack", "lost", true, never},
		"its volume can't be read":                    {"", "", true, never},
	} {
		t.Run(name, func(t *testing.T) {
			withClaims(t, 1, 1, func(f *fixture) {
				f.controller.AwaitNodes(func() bool { return test.shown })
				f.controller.NodeEvents().OnAdd(nodeOf("other", "a"), true)
				f.provision()
				runner := f.only()
				claim := runner.Spec.VolumeClaims["cache"]
				if test.label != "" {
					f.bindTo(claim, test.label, test.value)
				}
				f.showClaimedPod(runner, unplaced)
				waited := f.waitUntilGone(runner, never)
				if (waited < never) != (test.waits < never) || (test.waits < never && waited > test.waits) {
					t.Fatalf("the runner gave way after %s, want %s", waited, test.waits)
				}
				if test.waits == never {
					return
				}
				if next := f.replace(runner); next.Spec.VolumeClaims["cache"] == claim || f.claimExists(claim) {
					t.Errorf("runner %s has claim %s still", next.Name, claim)
				}
				if !f.event("VolumeClaimDiscarded") {
					t.Error("no Event tells that the claim is discarded")
				}
			})
		})
	}
}

// An autoscaler that says that it makes a node for a pod is waited for; one that says that it can't is believed.
func TestAutoscalersAreBelieved(t *testing.T) {
	for reason, most := range map[string]time.Duration{"": time.Minute, "NotTriggerScaleUp": time.Minute,
		"TriggeredScaleUp": pendingTimeout + time.Minute, "Nominated": pendingTimeout + time.Minute} {
		t.Run(reason, func(t *testing.T) {
			withClaims(t, 1, 2, func(f *fixture) {
				f.controller.AwaitNodes(func() bool { return true })
				f.controller.NodeEvents().OnAdd(nodeOf("other", "a"), true)
				f.provision()
				runner := f.only()
				f.bindTo(runner.Spec.VolumeClaims["cache"], corev1.LabelTopologyZone, "lost")
				claim := &corev1.PersistentVolumeClaim{}
				controllertest.Read(f, f.api, runnerKey(runner.Spec.VolumeClaims["cache"]), claim)
				metav1.SetMetaDataAnnotation(&claim.ObjectMeta, "volume.kubernetes.io/selected-node", "other")
				if err := f.api.Update(f.Context(), claim); err != nil {
					t.Fatal(err)
				}
				if reason != "" {
					said := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: runner.Namespace, Name: "said"},
						Reason: reason, FirstTimestamp: metav1.Now(), LastTimestamp: metav1.Now()}
					said.InvolvedObject = corev1.ObjectReference{Kind: "Pod", Name: runner.Name,
						UID: types.UID("pod-" + runner.Name)}
					controllertest.Create(t, f.api, said)
				}
				f.showClaimedPod(runner, unplaced)
				waited := f.waitUntilGone(runner, time.Hour)
				if waited > most || waited < most-time.Minute {
					t.Errorf("the runner gave way after %s, want %s at most", waited, most)
				}
				if !f.claimExists(claim.Name) {
					t.Error("its claim is deleted, though there may be another one")
				}
			})
		})
	}
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

// A claim that the API server refuses, or that gets no volume, costs a minute where an empty directory will do. Then its
// runner's place is taken by one without a claim.
func TestStorageThatFailsCostsAMinuteWhereADirectoryWillDo(t *testing.T) {
	for name, fails := range map[string]func(f *fixture, runner *v1alpha1.EphemeralRunner){
		"refused": func(f *fixture, runner *v1alpha1.EphemeralRunner) {
			runner.Status.Reason = v1alpha1.ReasonVolumeClaimRefused
			if err := f.api.Status().Update(f.Context(), runner); err != nil {
				f.Fatal(err)
			}
		},
		"no volume": func(f *fixture, runner *v1alpha1.EphemeralRunner) {
			f.provision()
			claim := &corev1.PersistentVolumeClaim{}
			controllertest.Read(f, f.api, runnerKey(runner.Spec.VolumeClaims["cache"]), claim)
			claim.Status.Phase = corev1.ClaimPending
			if err := f.api.Status().Update(f.Context(), claim); err != nil {
				f.Fatal(err)
			}
			said := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: runner.Namespace, Name: "said"},
				Reason: "ProvisioningFailed", FirstTimestamp: metav1.Now(), LastTimestamp: metav1.Now()}
			said.InvolvedObject = corev1.ObjectReference{Kind: "PersistentVolumeClaim", Name: claim.Name, UID: claim.UID}
			controllertest.Create(f, f.api, said)
			f.showClaimedPod(runner, unplaced)
		},
	} {
		t.Run(name, func(t *testing.T) {
			withClaims(t, 1, 5, func(f *fixture) {
				origin := &v1alpha1.AutoscalingRunnerSet{}
				controllertest.Read(t, f.api, setKey, origin)
				origin.Spec.VolumeClaimPool.WhenExhausted = v1alpha1.EphemeralVolume
				if err := f.api.Update(t.Context(), origin); err != nil {
					t.Fatal(err)
				}
				runner := f.only()
				fails(f, runner)
				if waited := f.waitUntilGone(runner, time.Hour); waited < givesWayAfter ||
					waited > givesWayAfter+30*time.Second {
					t.Errorf("the runner gave way after %s", waited)
				}
				f.leave(runner)
				if next := f.only(); next.Spec.VolumeClaims["cache"] != "" {
					t.Errorf("runner %s has claim %s", next.Name, next.Spec.VolumeClaims["cache"])
				}
			})
		})
	}
}

// Where a driver can't make a volume, such as a copy, the set says so a minute later, and whose step it is.
func TestAVolumeThatCantBeMadeIsToldAfterAMinute(t *testing.T) {
	withClaims(t, 1, 5, func(f *fixture) {
		runner := f.only()
		f.provision()
		claim := &corev1.PersistentVolumeClaim{}
		controllertest.Read(f, f.api, runnerKey(runner.Spec.VolumeClaims["cache"]), claim)
		claim.Status.Phase = corev1.ClaimPending
		if err := f.api.Status().Update(f.Context(), claim); err != nil {
			f.Fatal(err)
		}
		said := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: runner.Namespace, Name: "said"},
			Reason: "ProvisioningFailed", FirstTimestamp: metav1.Now(), LastTimestamp: metav1.Now()}
		said.InvolvedObject = corev1.ObjectReference{Kind: "PersistentVolumeClaim", Name: claim.Name, UID: claim.UID}
		controllertest.Create(f, f.api, said)
		f.showClaimedPod(runner, unplaced)
		for range 30 {
			f.reconcile()
			controllertest.Elapse(5 * time.Second)
		}
		f.reconcile()
		controllertest.WantCondition(t, f.set().Status.Conditions, v1alpha1.ConditionVolumeClaimsReady,
			metav1.ConditionFalse, v1alpha1.ReasonVolumeClaimUnprovisioned)
	})
}
