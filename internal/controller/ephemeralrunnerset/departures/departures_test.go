package departures

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

// Nothing is remembered of nodes and pods that are gone.
func TestDeparturesForgetWhatIsGone(t *testing.T) {
	d, woken := New(), 0
	wake := func(types.NamespacedName) { woken++ }
	cordoned := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{Unschedulable: true}}
	var pods []*corev1.Pod
	for i := range 10 {
		owner := metav1.OwnerReference{Kind: "EphemeralRunner", Name: "runner", UID: types.UID(fmt.Sprint(i)),
			Controller: new(true)}
		pods = append(pods, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "runners", Name: fmt.Sprint(i),
				OwnerReferences: []metav1.OwnerReference{owner}},
			Spec: corev1.PodSpec{NodeName: "n"},
		})
		d.PodEvents(wake).Create(t.Context(), event.CreateEvent{Object: pods[i]}, &controllertest.Queue{})
	}
	d.NodeEvents(wake).OnAdd(cordoned, false)
	if woken != len(pods) {
		t.Errorf("%d runners were woken, want all %d", woken, len(pods))
	}
	d.NodeEvents(wake).OnDelete(cordoned)
	for _, pod := range pods {
		d.PodEvents(wake).Delete(t.Context(), event.DeleteEvent{Object: pod}, &controllertest.Queue{})
	}
	if len(d.leaving)+len(d.placed)+len(d.on) > 0 {
		t.Errorf("left: %v, %v, %v", d.leaving, d.placed, d.on)
	}
}
