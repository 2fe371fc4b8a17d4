package departures_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/departures"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
)

// podOn returns the pod of a runner on a node.
func podOn(node, runner string) *corev1.Pod {
	owner := metav1.OwnerReference{Kind: "EphemeralRunner", Name: runner, UID: types.UID(runner), Controller: new(true)}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "runners", Name: runner,
			OwnerReferences: []metav1.OwnerReference{owner}},
		Spec: corev1.PodSpec{NodeName: node},
	}
}

func cordoned(node string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: corev1.NodeSpec{Unschedulable: true}}
}

func TestRunnersOfANodeThatIsToGoAreWoken(t *testing.T) {
	d, woken := departures.New(), 0
	wake := func(types.NamespacedName) { woken++ }
	const runners = 10
	for i := range runners {
		d.PodEvents(wake).Create(t.Context(), event.CreateEvent{Object: podOn("n", fmt.Sprint(i))}, &controllertest.Queue{})
	}
	if d.NodeEvents(wake).OnAdd(cordoned("n"), false); woken != runners {
		t.Errorf("%d runners were woken, want all %d", woken, runners)
	}
	d.NodeEvents(wake).OnDelete(cordoned("n"))
	if left := d.Of("runners", []*roster.Runner{{Name: "0", UID: "0"}}); left != nil {
		t.Errorf("departures %v, and the node is gone", left)
	}
	for i := range runners {
		d.PodEvents(wake).Delete(t.Context(), event.DeleteEvent{Object: podOn("n", fmt.Sprint(i))}, &controllertest.Queue{})
	}
	if d.NodeEvents(wake).OnAdd(cordoned("n"), false); woken != runners {
		t.Error("runners are woken whose pods are gone")
	}
}

// Nothing is remembered of nodes and pods that are gone, whichever goes first.
func TestDeparturesForgetWhatIsGone(t *testing.T) {
	d := departures.New()
	wake := func(types.NamespacedName) {}
	queue := &controllertest.Queue{}
	controllertest.WantNothingLeft(t, func(i int) {
		node := cordoned(fmt.Sprint("node-", i))
		pod := podOn(node.Name, fmt.Sprint("runner-", i))
		d.PodEvents(wake).Create(t.Context(), event.CreateEvent{Object: pod}, queue)
		d.NodeEvents(wake).OnAdd(node, false)
		if i%2 == 0 {
			d.NodeEvents(wake).OnDelete(node)
		}
		d.PodEvents(wake).Delete(t.Context(), event.DeleteEvent{Object: pod}, queue)
		d.NodeEvents(wake).OnDelete(node)
	})
}

// Of the nodes that go away those are named that the scheduler still sends pods to, and no more than asked for.
func TestNodesThatTheSchedulerDoesNotKnowOf(t *testing.T) {
	d := departures.New()
	handler := d.NodeEvents(func(types.NamespacedName) {})
	handler.OnAdd(cordoned("cordoned"), false)
	for _, name := range []string{"b", "a", "c"} {
		handler.OnAdd(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: "PreemptionScheduled", Status: corev1.ConditionTrue}}}}, false)
	}
	if got := fmt.Sprint(d.Unmarked(9), len(d.Unmarked(2))); got != "[a b c] 2" {
		t.Errorf("unmarked are %s", got)
	}
	if got := d.Signs("a").String(); got != "has the condition PreemptionScheduled" || d.Signs("other") != 0 {
		t.Errorf("a %s, other %s", got, d.Signs("other"))
	}
}
