package nodes_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/harrier-ci/harrier/internal/kube/nodes"
)

// Nodes are found by what their last state says, and not once they are gone, however that is learnt.
func TestWatchedFollowsTheWatch(t *testing.T) {
	w := &nodes.Watched{}
	if w.Known() {
		t.Error("all nodes are known without a watch")
	}
	events := w.Events()
	find := func(zone string) bool {
		_, stays := w.Find([]nodes.Requirement{{Label: corev1.LabelTopologyZone, Values: []string{"other", zone}}})
		return stays
	}
	node := func(zone string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n",
			Labels: map[string]string{corev1.LabelTopologyZone: zone}}}
	}
	events.OnAdd(node("a"), true)
	if !find("a") || find("b") {
		t.Error("a node in zone a is not found, or found in zone b")
	}
	events.OnUpdate(node("a"), node("b"))
	if find("a") || !find("b") {
		t.Error("a node that is in zone b now is not found there, or still in a")
	}
	if _, stays := w.Stays("n"); !stays {
		t.Error("the node is not known by its name")
	}
	events.OnDelete(cache.DeletedFinalStateUnknown{Key: "n", Obj: node("b")})
	if _, stays := w.Stays("n"); stays || find("b") {
		t.Error("a node that is gone is found")
	}
	shown := false
	w.Await(func() bool { return shown })
	if w.Known() {
		t.Error("all nodes are known before the watch has shown them")
	}
	if shown = true; !w.Known() {
		t.Error("not all nodes are known after the watch has shown them")
	}
}
