package ephemeralrunnerset

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/kube/nodes"
)

// departures knows which nodes are about to go away, and which runners have their pods there. The watches' handlers keep it up to
// date; the cost of an event depends on the runners of one node only.
type departures struct {
	mu sync.Mutex
	// arrivals counts the runners that this process has created and that have been seen.
	arrivals int
	// leaving has the nodes with signs.
	leaving map[string]departure
	// placed has the runners whose pods are bound to a node and have not ended, and on has the same by node.
	placed map[types.NamespacedName]placement
	on     map[string]sets.Set[types.NamespacedName]
}

// departure is a node that is about to go away.
type departure struct {
	node  string
	signs nodes.Signs
	// arrivals is how many runners had come when the latest sign was seen. A runner is seen before its pod is created, so a pod that was
	// there before the sign belongs to one of them, or to a runner of an earlier process.
	arrivals int
}

// placement is where the pod of a runner is.
type placement struct {
	runner types.UID
	node   string
}

func newDepartures() *departures {
	return &departures{
		leaving: map[string]departure{}, placed: map[types.NamespacedName]placement{}, on: map[string]sets.Set[types.NamespacedName]{},
	}
}

// arrive counts a runner that this process has created, and returns its number.
func (d *departures) arrive() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.arrivals++
	return d.arrivals
}

// note notes the signs of a node. It returns the runners there if a sign is new.
func (d *departures) note(node string, signs nodes.Signs) []types.NamespacedName {
	d.mu.Lock()
	defer d.mu.Unlock()
	if signs == 0 {
		delete(d.leaving, node)
		return nil
	}
	before := d.leaving[node]
	if signs&^before.signs == 0 {
		before.signs = signs
		d.leaving[node] = before
		return nil
	}
	d.leaving[node] = departure{node: node, signs: signs, arrivals: d.arrivals}
	return d.on[node].UnsortedList()
}

// place notes where the runner's pod is; the zero placement means nowhere. It reports whether the pod has come to a node that is about
// to go away.
func (d *departures) place(runner types.NamespacedName, now placement) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.placed[runner]
	if before == now {
		return false
	}
	if there := d.on[before.node]; there != nil {
		there.Delete(runner)
		if there.Len() == 0 {
			delete(d.on, before.node)
		}
	}
	if now.node == "" {
		delete(d.placed, runner)
		return false
	}
	d.placed[runner] = now
	if d.on[now.node] == nil {
		d.on[now.node] = sets.New[types.NamespacedName]()
	}
	d.on[now.node].Insert(runner)
	_, leaving := d.leaving[now.node]
	return leaving
}

// of returns the departures of the nodes that the given runners are on, nil if no node is about to go away.
func (d *departures) of(namespace string, runners []*roster.Runner) map[types.UID]departure {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.leaving) == 0 {
		return nil
	}
	found := map[types.UID]departure{}
	for _, r := range runners {
		there, placed := d.placed[types.NamespacedName{Namespace: namespace, Name: r.Name}]
		if departure, leaving := d.leaving[there.node]; placed && leaving && there.runner == r.UID {
			found[r.UID] = departure
		}
	}
	return found
}

// moves reports whether the runner has to leave the node. It stays if another one in its place might come to the same node: because its
// pod names the node or tolerates all of the signs, or because it came after them and yet is there. So a node can't make a set
// replace its runners without end.
func (d departure) moves(r *roster.Runner) bool {
	return !r.Pinned && d.signs&^r.Tolerates != 0 && r.Arrival <= d.arrivals
}

// nodeEvents returns the handler for a watch of nodes. wake is called with each runner on a node with a new sign.
func (d *departures) nodeEvents(wake func(runner types.NamespacedName)) cache.ResourceEventHandler {
	changed := func(object any) {
		if node, is := object.(*corev1.Node); is {
			for _, runner := range d.note(node.Name, nodes.SignsOf(node)) {
				wake(runner)
			}
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    changed,
		UpdateFunc: func(_, now any) { changed(now) },
		DeleteFunc: func(object any) {
			if name, err := cache.DeletionHandlingObjectToName(object); err == nil {
				d.note(name.Name, 0)
			}
		},
	}
}

// podEvents returns the handler for the watch of pods. wake is called with each runner whose pod has come to a node that is about to go
// away.
func (d *departures) podEvents(wake func(runner types.NamespacedName)) handler.EventHandler {
	changed := func(object client.Object) {
		pod, is := object.(*corev1.Pod)
		if !is {
			return
		}
		var now placement
		owner := metav1.GetControllerOfNoCopy(pod)
		ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		if owner != nil && owner.Kind == "EphemeralRunner" && pod.Spec.NodeName != "" && !ended {
			now = placement{runner: owner.UID, node: pod.Spec.NodeName}
		}
		if key := client.ObjectKeyFromObject(pod); d.place(key, now) {
			wake(key)
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, _ queue) { changed(e.Object) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, _ queue) { changed(e.ObjectNew) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ queue) {
			d.place(client.ObjectKeyFromObject(e.Object), placement{})
		},
	}
}
