package ephemeralrunnerset_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

// podOn returns a runner's pod on a node.
func podOn(node string, r *v1alpha1.EphemeralRunner) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: v1alpha1.GroupVersion.String(), Kind: "EphemeralRunner", Name: r.Name, UID: r.UID, Controller: new(true)},
		}},
		Spec: corev1.PodSpec{NodeName: node},
	}
}

// node returns a node, which is cordoned or not.
func node(name string, cordoned bool) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Unschedulable: cordoned}}
}

// leaves reports whether the set has GitHub remove an idle runner, because it is on a node that is about to go away.
func (f *fixture) leaves() bool {
	f.late = true // the test shows runners itself
	before := f.asked
	f.reconcile()
	f.reconcile()
	return f.asked > before
}

// idle returns a runner without a job.
func idle() *v1alpha1.EphemeralRunner {
	runner := many(1)[0]
	runner.CreationTimestamp, runner.Spec.GitHubConfigUrl = metav1.Time{}, ""
	runner.Status.JobID, runner.Status.JobPatchID, runner.Status.Ready = "", 0, true
	return &runner
}

// Whatever the order in which the watches show node, pod and runner, the runner is found.
func TestOrderOfTheWatchesDoesNotMatter(t *testing.T) {
	steps := []func(*fixture){
		func(f *fixture) { f.controller.NodeEvents().OnAdd(node("n", true), true) },
		func(f *fixture) {
			f.controller.PodEvents().Create(f.Context(), event.CreateEvent{Object: podOn("n", idle())}, &controllertest.Queue{})
		},
		func(f *fixture) { // an earlier process has created it
			f.controller.RunnerEvents().Create(f.Context(), event.CreateEvent{Object: idle()}, &controllertest.Queue{})
		},
	}
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		inBubble(t, func(f *fixture) {
			for _, i := range order {
				steps[i](f)
			}
			if !f.leaves() {
				t.Errorf("order %v: the runner stays", order)
			}
		}, newSet(1), idle())
	}
}

func TestWhereRunnersAre(t *testing.T) {
	update := func(f *fixture, pod *corev1.Pod) {
		f.controller.PodEvents().Update(f.Context(), event.UpdateEvent{ObjectNew: pod}, &controllertest.Queue{})
	}
	for name, test := range map[string]struct {
		then func(*fixture, *corev1.Pod)
		want bool // the runner leaves
	}{
		"nothing happens": {func(*fixture, *corev1.Pod) {}, true},
		"uncordoned":      {func(f *fixture, _ *corev1.Pod) { f.controller.NodeEvents().OnUpdate(nil, node("n", false)) }, false},
		"the node is gone": {func(f *fixture, _ *corev1.Pod) {
			f.controller.NodeEvents().OnDelete(cache.DeletedFinalStateUnknown{Key: "n", Obj: node("n", true)})
		}, false},
		"another node": {func(f *fixture, _ *corev1.Pod) { f.controller.NodeEvents().OnDelete(node("other", true)) }, true},
		"the pod is gone": {func(f *fixture, pod *corev1.Pod) {
			f.controller.PodEvents().Delete(f.Context(), event.DeleteEvent{Object: pod}, &controllertest.Queue{})
		}, false},
		"the pod has ended":                   {func(f *fixture, pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed; update(f, pod) }, false},
		"its next pod is elsewhere":           {func(f *fixture, pod *corev1.Pod) { pod.Spec.NodeName = "other"; update(f, pod) }, false},
		"a pod of somebody else has its name": {func(f *fixture, pod *corev1.Pod) { pod.OwnerReferences[0].UID = "another"; update(f, pod) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.watch.Show(t.Context(), f.runners())
				pod := podOn("n", idle())
				f.controller.PodEvents().Create(t.Context(), event.CreateEvent{Object: pod}, &controllertest.Queue{})
				f.controller.NodeEvents().OnAdd(node("n", true), false)
				test.then(f, pod.DeepCopy())
				if leaves := f.leaves(); leaves != test.want {
					t.Errorf("the runner leaves: %t, want %t", leaves, test.want)
				}
			}, newSet(1), idle())
		})
	}
}

// A replacement that comes to the same node although it is cordoned stays; one more sign moves it again.
func TestReplacementOnTheSameNodeStays(t *testing.T) {
	inBubble(t, func(f *fixture) {
		place := func() *v1alpha1.EphemeralRunner {
			f.watch.Show(t.Context(), f.runners())
			f.bringUp()
			r := &f.kept()[0]
			f.controller.PodEvents().Create(t.Context(), event.CreateEvent{Object: podOn("n", r)}, &controllertest.Queue{})
			return r
		}
		f.reconcile()
		first := place()
		f.controller.NodeEvents().OnAdd(node("n", true), false)
		f.reconcile() // asks
		f.reconcile() // deletes and replaces
		f.reconcile()
		if second := place(); f.asked != 1 || second.Name == first.Name {
			f.Fatalf("GitHub was asked %d times; runner %s, was %s; want it replaced", f.asked, second.Name, first.Name)
		}
		for range 5 {
			f.reconcile()
			controllertest.Elapse(time.Second)
		}
		if f.asked != 1 {
			t.Errorf("GitHub was asked %d times, want only about the runner that was there before", f.asked)
		}
		further := node("n", true)
		further.Spec.Taints = []corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler", Effect: corev1.TaintEffectNoSchedule}}
		f.controller.NodeEvents().OnUpdate(nil, further)
		if f.reconcile(); f.asked != 2 {
			t.Errorf("GitHub was asked %d times after another sign, want twice", f.asked)
		}
	}, newSet(1))
}

// A cordoned node with a hundred idle runners: GitHub is asked about all of them together, one Event tells it, and
// others take their places.
func TestCordonedNodeIsLeftAtOnce(t *testing.T) {
	const there = 100
	inBubble(t, func(f *fixture) {
		f.reconcile()
		f.bringUp()
		runners := f.runners()
		for i := range runners[:there] {
			f.controller.PodEvents().Create(f.Context(), event.CreateEvent{Object: podOn("n", &runners[i])},
				&controllertest.Queue{})
		}
		f.reconcile()
		if f.asked != 0 {
			t.Fatalf("GitHub was asked about %d runners before the node was cordoned", f.asked)
		}
		f.controller.NodeEvents().OnUpdate(nil, node("n", true))
		began := time.Now()
		f.reconcile() // asks
		f.reconcile() // deletes and replaces
		if took := time.Since(began); f.asked != there || took > time.Second {
			t.Errorf("GitHub was asked about %d runners in %s, want %d within a second", f.asked, took, there)
		}
		stays, live := map[string]bool{}, 0
		for i := range runners {
			stays[runners[i].Name] = i >= there
		}
		for _, r := range f.runners() {
			known, old := stays[r.Name]
			if goes := old && !known; goes != (r.DeletionTimestamp != nil) {
				t.Errorf("%s is deleted: %t", r.Name, !goes)
			} else if !goes {
				live++
			}
		}
		if live != there+10 {
			t.Errorf("%d runners are left, want %d", live, there+10)
		}
		if told := controllertest.CountEvents(f.recorder, "RunnersMoved"); told != 1 {
			t.Errorf("%d Events, want one", told)
		}
	}, newSet(there+10))
}

// A runner that turns out to have a job stays. GitHub isn't asked again and again.
func TestBusyRunnerStaysOnACordonedNode(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.reconcile()
		f.bringUp()
		f.reconcile()
		f.remove = actions.ErrJobStillRunning
		f.controller.PodEvents().Create(f.Context(), event.CreateEvent{Object: podOn("n", &f.runners()[0])},
			&controllertest.Queue{})
		f.controller.NodeEvents().OnUpdate(nil, node("n", true))
		for range 20 {
			f.reconcile()
			controllertest.Elapse(time.Second)
		}
		if f.asked != 1 {
			t.Errorf("GitHub was asked %d times, want once", f.asked)
		}
		f.wantRunners(1)
	}, newSet(1))
}

// The cost of a node's event depends on the runners there, not on those elsewhere.
func BenchmarkNodeEvent(b *testing.B) {
	for _, elsewhere := range []int{100, 10_000} {
		b.Run(fmt.Sprint(elsewhere), func(b *testing.B) {
			c, _, runners := populate(elsewhere)
			for i := range runners {
				c.PodEvents().Create(b.Context(),
					event.CreateEvent{Object: podOn(fmt.Sprint("node-", i/10), &runners[i])},
					&controllertest.Queue{})
			}
			events := c.NodeEvents()
			for b.Loop() {
				events.OnUpdate(nil, node("node-1", true))
				events.OnUpdate(nil, node("node-1", false))
			}
		})
	}
}
