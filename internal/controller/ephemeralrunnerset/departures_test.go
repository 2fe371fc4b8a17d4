package ephemeralrunnerset

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
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

// departing returns the names of the runners that are seen to be on a node that is about to go away.
func departing(c *Controller, set *v1alpha1.EphemeralRunnerSet) []string {
	var found []string
	views := c.roster.Of(set.UID)
	leaving := c.departures.Of(set.Namespace, views)
	for _, r := range views {
		if departure, there := leaving[r.UID]; there && departure.Moves(r) {
			found = append(found, r.Name)
		}
	}
	return found
}

// Whatever the order in which the watches show node, pod and runner, the runner is found.
func TestOrderOfTheWatchesDoesNotMatter(t *testing.T) {
	set, runner := newSet(1), many(1)[0]
	steps := []func(*testing.T, *Controller){
		func(_ *testing.T, c *Controller) { c.NodeEvents().OnAdd(node("n", true), true) },
		func(t *testing.T, c *Controller) {
			c.PodEvents().Create(t.Context(), event.CreateEvent{Object: podOn("n", &runner)}, &controllertest.Queue{})
		},
		func(t *testing.T, c *Controller) { // an earlier process has created it
			c.RunnerEvents().Create(t.Context(), event.CreateEvent{Object: &runner}, &controllertest.Queue{})
		},
	}
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		c := NewController(Options{Clock: clock.RealClock{}})
		for _, i := range order {
			steps[i](t, c)
		}
		if got := departing(c, set); !slices.Equal(got, []string{runner.Name}) {
			t.Errorf("order %v: %v leave, want %s", order, got, runner.Name)
		}
	}
}

func TestWhereRunnersAre(t *testing.T) {
	for name, test := range map[string]struct {
		then func(*testing.T, *Controller, *corev1.Pod)
		want bool // the runner leaves
	}{
		"nothing happens": {func(*testing.T, *Controller, *corev1.Pod) {}, true},
		"uncordoned":      {func(_ *testing.T, c *Controller, _ *corev1.Pod) { c.NodeEvents().OnUpdate(nil, node("n", false)) }, false},
		"the node is gone": {func(_ *testing.T, c *Controller, _ *corev1.Pod) {
			c.NodeEvents().OnDelete(cache.DeletedFinalStateUnknown{Key: "n", Obj: node("n", true)})
		}, false},
		"another node": {func(_ *testing.T, c *Controller, _ *corev1.Pod) { c.NodeEvents().OnDelete(node("other", true)) }, true},
		"the pod is gone": {func(t *testing.T, c *Controller, pod *corev1.Pod) {
			c.PodEvents().Delete(t.Context(), event.DeleteEvent{Object: pod}, &controllertest.Queue{})
		}, false},
		"the pod has ended": {func(t *testing.T, c *Controller, pod *corev1.Pod) {
			pod.Status.Phase = corev1.PodFailed
			c.PodEvents().Update(t.Context(), event.UpdateEvent{ObjectNew: pod}, &controllertest.Queue{})
		}, false},
		"its next pod is elsewhere": {func(t *testing.T, c *Controller, pod *corev1.Pod) {
			pod.Spec.NodeName = "other"
			c.PodEvents().Update(t.Context(), event.UpdateEvent{ObjectNew: pod}, &controllertest.Queue{})
		}, false},
		"a pod of somebody else has its name": {func(t *testing.T, c *Controller, pod *corev1.Pod) {
			pod.OwnerReferences[0].UID = "another"
			c.PodEvents().Update(t.Context(), event.UpdateEvent{ObjectNew: pod}, &controllertest.Queue{})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			c, set, runners := populate(1)
			pod := podOn("n", &runners[0])
			c.PodEvents().Create(t.Context(), event.CreateEvent{Object: pod}, &controllertest.Queue{})
			c.NodeEvents().OnAdd(node("n", true), false)
			test.then(t, c, pod.DeepCopy())
			if leaves := len(departing(c, set)) == 1; leaves != test.want {
				t.Errorf("the runner leaves: %t, want %t", leaves, test.want)
			}
		})
	}
}

// A replacement that comes to the same node although it is cordoned stays; one more sign moves it again.
func TestReplacementOnTheSameNodeStays(t *testing.T) {
	c, set, runners := NewController(Options{Clock: clock.RealClock{}}), newSet(1), many(1)
	place := func(r *v1alpha1.EphemeralRunner) {
		c.MemoryOf(set).Creations.Expect(r.Name)
		c.RunnerEvents().Create(t.Context(), event.CreateEvent{Object: r}, &controllertest.Queue{})
		c.PodEvents().Create(t.Context(), event.CreateEvent{Object: podOn("n", r)}, &controllertest.Queue{})
	}
	place(&runners[0])
	c.NodeEvents().OnAdd(node("n", true), false)
	replacement := runners[0].DeepCopy()
	replacement.Name, replacement.UID = "replacement", "replacement"
	place(replacement)
	if got := departing(c, set); !slices.Equal(got, []string{runners[0].Name}) {
		t.Errorf("%v leave, want only the runner that was there before", got)
	}
	further := node("n", true)
	further.Spec.Taints = []corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler", Effect: corev1.TaintEffectNoSchedule}}
	c.NodeEvents().OnUpdate(nil, further)
	if got := departing(c, set); len(got) != 2 {
		t.Errorf("after another sign %v leave, want both", got)
	}
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
