package leases_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/leases"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/reconcile"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
)

var scaleSet = types.NamespacedName{Namespace: "ci", Name: "linux"}

const claimName = "linux-cache-bcdfg"

func newSet() *v1alpha1.AutoscalingRunnerSet {
	set := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: scaleSet.Namespace,
		Name: scaleSet.Name, UID: "set"}}
	set.Spec.VolumeClaimTemplates = []v1alpha1.VolumeClaimTemplate{
		{Metadata: v1alpha1.VolumeClaimTemplateMeta{Name: "cache"}}}
	return set
}

func newRunner(name string, change ...func(*v1alpha1.EphemeralRunner)) *v1alpha1.EphemeralRunner {
	runner := &v1alpha1.EphemeralRunner{ObjectMeta: metav1.ObjectMeta{
		Namespace: scaleSet.Namespace, Name: name, UID: types.UID("uid of " + name),
		Finalizers: []string{v1alpha1.FinalizerEphemeralRunner},
		Labels: map[string]string{v1alpha1.LabelScaleSetName: scaleSet.Name,
			v1alpha1.LabelScaleSetNamespace: scaleSet.Namespace},
	}}
	runner.Spec.VolumeClaims = map[string]string{"cache": claimName}
	for _, c := range change {
		c(runner)
	}
	return runner
}

func podOf(runner *v1alpha1.EphemeralRunner, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: runner.Namespace, Name: runner.Name, UID: "pod of " + runner.UID,
		OwnerReferences: kube.OwnedBy(runner),
	}}
	volumeclaims.Mount(&pod.Spec, runner.Spec.VolumeClaims)
	for _, c := range change {
		c(pod)
	}
	return pod
}

func failed(runner *v1alpha1.EphemeralRunner) {
	runner.Status.Phase = v1alpha1.EphemeralRunnerPhaseFailed
}

func ended(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded }

func bound(pod *corev1.Pod) { pod.Spec.NodeName = "node" }

func unplaced(pod *corev1.Pod) {
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
		Reason: corev1.PodReasonUnschedulable}}
}

// showPod and forgetPod do what the watch of pods does when there is a pod, and when it is gone.
func showPod(l *leases.Leases, pod *corev1.Pod) {
	podEvents(l).Update(context.Background(), event.UpdateEvent{ObjectOld: pod, ObjectNew: pod}, nil)
}

func forgetPod(l *leases.Leases, pod *corev1.Pod) {
	podEvents(l).Delete(context.Background(), event.DeleteEvent{Object: pod}, nil)
}

func podEvents(l *leases.Leases) handler.EventHandler {
	return l.PodEvents(func(reconcile.Queue, types.NamespacedName) {})
}

// inBubble runs a test with leases whose clock is the bubble's.
func inBubble(t *testing.T, test func(t *testing.T, l *leases.Leases)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, leases.New(clock.RealClock{})) })
}

// Whatever was planned, a claim is held by one runner at a time, and passed on when that has ended or is gone, and its
// pod too.
func TestOneRunnerHoldsAClaim(t *testing.T) {
	first, second := newRunner("first"), newRunner("second")
	for name, test := range map[string]struct {
		happens func(*leases.Leases)
		want    bool
	}{
		"the first lives":                     {func(*leases.Leases) {}, false},
		"the first has failed":                {func(l *leases.Leases) { l.Put(newRunner("first", failed)) }, true},
		"the first has failed, its pod lives": {func(l *leases.Leases) { showPod(l, podOf(first)); l.Put(newRunner("first", failed)) }, false},
		"the first is gone":                   {func(l *leases.Leases) { l.Remove(client.ObjectKeyFromObject(first)) }, true},
		"the first is gone, its pod lives":    {func(l *leases.Leases) { showPod(l, podOf(first)); l.Remove(client.ObjectKeyFromObject(first)) }, false},
		"the first is gone, its pod has ended": {func(l *leases.Leases) {
			showPod(l, podOf(first))
			showPod(l, podOf(first, ended))
			l.Remove(client.ObjectKeyFromObject(first))
		}, true},
		"the first is gone, its pod is gone": {func(l *leases.Leases) {
			showPod(l, podOf(first))
			forgetPod(l, podOf(first))
			l.Remove(client.ObjectKeyFromObject(first))
		}, true},
		"the first loses its labels": {func(l *leases.Leases) {
			l.Put(newRunner("first", func(r *v1alpha1.EphemeralRunner) { r.Labels = nil }))
		}, false},
		"finalizers of others keep the first":     {func(l *leases.Leases) { l.Put(newRunner("first", kept)); l.Remove(client.ObjectKeyFromObject(first)) }, false},
		"the same, for nearly a minute":           {func(l *leases.Leases) { l.Put(newRunner("first", kept)); <-time.After(time.Minute - 1) }, false},
		"the same, after a while":                 {func(l *leases.Leases) { l.Put(newRunner("first", kept)); <-time.After(time.Minute) }, true},
		"the second has a pod that has not ended": {func(l *leases.Leases) { showPod(l, podOf(second)); l.Remove(client.ObjectKeyFromObject(first)) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, l *leases.Leases) {
				l.Put(first)
				l.Put(second)
				if again := l.Hold(first); !again || !l.Hold(first) {
					t.Fatal("the first may not mount its claim")
				}
				test.happens(l)
				if got := l.Hold(second); got != test.want {
					t.Errorf("the second may mount the claim: %t, want %t", got, test.want)
				}
			})
		})
	}
}

// kept is a runner whose own controller has finalized it.
func kept(runner *v1alpha1.EphemeralRunner) {
	runner.Finalizers, runner.DeletionTimestamp = []string{"others.example/finalizer"}, new(metav1.Now())
}

// A pod of somebody else counts, too.
func TestAForeignPodHoldsAClaim(t *testing.T) {
	inBubble(t, func(t *testing.T, l *leases.Leases) {
		l.Put(newRunner("first"))
		showPod(l, podOf(newRunner("first"), func(pod *corev1.Pod) { pod.Name, pod.OwnerReferences = "debug", nil }))
		if l.Hold(newRunner("first")) {
			t.Error("the runner may mount a claim that another pod mounts")
		}
	})
}

// What a plan is told of a runner's pod, with times by our own clock.
func TestWorldHasWhatPodsSay(t *testing.T) {
	up := func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: v1alpha1.RunnerContainerName, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		}}
	}
	refused := func(r *v1alpha1.EphemeralRunner) { r.Status.Reason = v1alpha1.ReasonVolumeClaimRefused }
	for name, test := range map[string]struct {
		runner *v1alpha1.EphemeralRunner
		pods   []*corev1.Pod
		want   volumeclaims.FailureKind
		placed bool
		up     bool
	}{
		"no pod":                   {newRunner("r"), nil, "", false, false},
		"a claim is refused":       {newRunner("r", refused), nil, volumeclaims.Refused, false, false},
		"a claim is none to have":  {newRunner("r", func(r *v1alpha1.EphemeralRunner) { r.Status.Reason = v1alpha1.ReasonVolumeClaimUnusable }), nil, volumeclaims.Unusable, false, false},
		"it was, and has a pod":    {newRunner("r", refused), []*corev1.Pod{podOf(newRunner("r"))}, "", false, false},
		"no node":                  {newRunner("r"), []*corev1.Pod{podOf(newRunner("r"), unplaced)}, volumeclaims.Unplaced, false, false},
		"a node, after a while":    {newRunner("r"), []*corev1.Pod{podOf(newRunner("r"), unplaced), podOf(newRunner("r"), bound)}, "", true, false},
		"its container runs":       {newRunner("r"), []*corev1.Pod{podOf(newRunner("r"), bound), podOf(newRunner("r"), bound, up)}, "", true, true},
		"another runner's old pod": {newRunner("r"), []*corev1.Pod{podOf(newRunner("r", func(r *v1alpha1.EphemeralRunner) { r.UID = "former" }), unplaced)}, "", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, l *leases.Leases) {
				began := time.Now()
				l.Put(test.runner)
				for _, pod := range test.pods {
					showPod(l, pod)
				}
				<-time.After(time.Minute)
				l.Put(test.runner)
				for _, pod := range test.pods {
					showPod(l, pod)
				}
				world := l.World(newSet(), nil)
				if len(world.Runners) != 1 {
					t.Fatalf("%d runners", len(world.Runners))
				}
				got := world.Runners[0]
				if got.Failure.Kind != test.want || got.PlacedAt.IsZero() == test.placed || got.Up != test.up ||
					got.Started != test.up {
					t.Errorf("got %+v", got)
				}
				if test.want != "" && !got.Failure.Since.Equal(began) {
					t.Errorf("it has failed since %s, want %s", got.Failure.Since, began)
				}
			})
		})
	}
}

// While a gate keeps a pod from the scheduler, nobody has looked for a node. The wait for one begins when the gate
// goes.
func TestAPodInAQueueIsNotWithoutANode(t *testing.T) {
	inBubble(t, func(t *testing.T, l *leases.Leases) {
		runner := newRunner("r")
		gated := func(pod *corev1.Pod) {
			unplaced(pod)
			pod.Status.Conditions[0].Reason = corev1.PodReasonSchedulingGated
			pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "kueue.x-k8s.io/admission"}}
		}
		l.Put(runner)
		showPod(l, podOf(runner, gated))
		<-time.After(time.Hour)
		showPod(l, podOf(runner, gated))
		if got := l.World(newSet(), nil).Runners[0].Failure; got.Kind != "" {
			t.Errorf("in the queue: %+v", got)
		}
		admitted := time.Now()
		showPod(l, podOf(runner, unplaced))
		<-time.After(time.Minute)
		if got := l.World(newSet(), nil).Runners[0].Failure; got.Kind != volumeclaims.Unplaced ||
			!got.Since.Equal(admitted) {
			t.Errorf("admitted at %s: %+v", admitted, got)
		}
	})
}

// One pass at a time uses what is remembered of a scale set.
func TestOnePassAtATime(t *testing.T) {
	inBubble(t, func(t *testing.T, l *leases.Leases) {
		first := l.Of(scaleSet)
		if l.Of(scaleSet) != nil {
			t.Error("two passes have the set's memory")
		}
		first.End()
		if again := l.Of(scaleSet); again != first {
			t.Error("the memory is another one")
		}
	})
}

// A pass costs as much for each claim of a large set as for each of a small one: four times the claims take about four
// times the memory, and not sixteen times.
func TestWorldOfManyClaims(t *testing.T) {
	cost := func(n int) uint64 {
		l, set := leases.New(clock.RealClock{}), newSet()
		var claims []corev1.PersistentVolumeClaim
		for i := range n {
			name := "linux-cache-" + volumeclaims.RandomSuffix()
			l.Put(newRunner(fmt.Sprint("r", i),
				func(r *v1alpha1.EphemeralRunner) { r.Spec.VolumeClaims = map[string]string{"cache": name} }))
			claims = append(claims, corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
				Namespace: set.Namespace, Name: name, UID: types.UID(name), Labels: map[string]string{
					v1alpha1.LabelScaleSetName: set.Name, v1alpha1.LabelScaleSetNamespace: set.Namespace,
					v1alpha1.LabelVolumeClaimTemplate: "cache", v1alpha1.LabelVolumeClaimScope: volumeclaims.Scope(set),
				},
			}})
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		world := l.World(set, claims)
		runtime.ReadMemStats(&after)
		if len(world.Claims) != n || len(world.Runners) != n {
			t.Fatalf("%d claims and %d runners, want %d of each", len(world.Claims), len(world.Runners), n)
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	if few, many := cost(250), cost(1000); many > 8*few {
		t.Errorf("%d bytes for 1,000 claims, %d for 250", many, few)
	}
}

// A claim that a pod of nobody's set mounts is nobody's to lease, until that pod has ended or is gone.
func TestAStrangersPodHoldsAClaim(t *testing.T) {
	stranger := podOf(newRunner("a-person's"), func(p *corev1.Pod) { p.OwnerReferences = nil })
	for name, end := range map[string]func(*leases.Leases){
		"ends":            func(l *leases.Leases) { l.Stranger(podOf(newRunner("a-person's"), ended), false) },
		"goes":            func(l *leases.Leases) { l.Stranger(stranger, true) },
		"mounts another":  func(l *leases.Leases) { l.Stranger(&corev1.Pod{ObjectMeta: stranger.ObjectMeta}, false) },
		"is told of once": func(l *leases.Leases) { l.Stranger(stranger, false); l.Stranger(stranger, true) },
	} {
		inBubble(t, func(t *testing.T, l *leases.Leases) {
			claim := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
				Namespace: scaleSet.Namespace, Name: claimName, Labels: map[string]string{
					v1alpha1.LabelScaleSetName: scaleSet.Name, v1alpha1.LabelScaleSetNamespace: scaleSet.Namespace,
					v1alpha1.LabelVolumeClaimTemplate: "cache", v1alpha1.LabelVolumeClaimScope: volumeclaims.Scope(newSet()),
				}, OwnerReferences: kube.OwnedBy(newSet())}}
			mounted := func() bool {
				world := l.World(newSet(), []corev1.PersistentVolumeClaim{claim})
				return world.Mounted.Has(claimName)
			}
			runner := newRunner("runner")
			l.Put(runner)
			if l.Stranger(stranger, false); l.Hold(runner) || !mounted() {
				t.Error("a runner may mount what a stranger's pod has")
			}
			if end(l); !l.Hold(runner) || mounted() {
				t.Errorf("the stranger's pod %s, and still holds the claim", name)
			}
		})
	}
}
