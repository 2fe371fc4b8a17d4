// Package departures knows which nodes are about to go away, and which runners have their pods there.
package departures

import (
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/pass"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/kube/nodes"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/podstatus"
	"github.com/harrier-ci/harrier/internal/reconcile"
)

// Departures knows which nodes are about to go away, and which runners have their pods there. The watches' handlers
// keep it up to date; the cost of an event depends on the runners of one node only.
type Departures struct {
	mu sync.Mutex
	// arrivals counts the runners that this process has created and that have been seen.
	arrivals int
	// leaving has the nodes with signs.
	leaving map[string]Departure
	// placed has the runners whose pods are bound to a node and have not ended, and on has the same by node.
	placed map[types.NamespacedName]placement
	on     map[string]sets.Set[types.NamespacedName]
	// told has, for each set, the arrivals of the departures about which an Event was recorded, by node.
	told pass.Memories[map[string]int]
}

// Departure is a node that is about to go away.
type Departure struct {
	Node  string
	Signs nodes.Signs
	// Arrivals counts the runners that had come when the latest sign was seen. A runner is seen before its pod is
	// created, so a pod that existed before the sign belongs to one of them, or to a runner of an earlier process.
	Arrivals int
}

// placement says on which node the pod of a runner is.
type placement struct {
	runner types.UID
	node   string
}

// New returns Departures that know no node yet.
func New() *Departures {
	return &Departures{
		leaving: map[string]Departure{}, placed: map[types.NamespacedName]placement{},
		on: map[string]sets.Set[types.NamespacedName]{},
	}
}

// Arrive counts a runner that this process has created, and returns its number.
func (d *Departures) Arrive() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.arrivals++
	return d.arrivals
}

// Remember remembers the signs of a node, 0 if it has none or is gone. It returns the runners there if a sign is new.
func (d *Departures) Remember(node string, signs nodes.Signs) []types.NamespacedName {
	d.mu.Lock()
	defer d.mu.Unlock()
	if signs == 0 {
		delete(d.leaving, node)
		return nil
	}
	before := d.leaving[node]
	if signs&^before.Signs == 0 {
		before.Signs = signs
		d.leaving[node] = before
		return nil
	}
	d.leaving[node] = Departure{Node: node, Signs: signs, Arrivals: d.arrivals}
	return d.on[node].UnsortedList()
}

// Place remembers the node of a runner's pod that has not ended; "" means that there is none. It reports whether the
// pod has come to a node that is about to go away.
func (d *Departures) Place(runner types.NamespacedName, uid types.UID, node string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	before, now := d.placed[runner], placement{}
	if node != "" {
		now = placement{uid, node}
	}
	if before == now {
		return false
	}
	if neighbours := d.on[before.node]; neighbours != nil {
		neighbours.Delete(runner)
		if neighbours.Len() == 0 {
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

// Of returns the departures of the nodes that the given runners are on, nil if no node is about to go away.
func (d *Departures) Of(namespace string, runners []*roster.Runner) map[types.UID]Departure {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.leaving) == 0 {
		return nil
	}
	found := map[types.UID]Departure{}
	for _, r := range runners {
		there, placed := d.placed[types.NamespacedName{Namespace: namespace, Name: r.Name}]
		if departure, leaving := d.leaving[there.node]; placed && leaving && there.runner == r.UID {
			found[r.UID] = departure
		}
	}
	return found
}

// Signs returns the signs of a node, 0 if it has none or is not known.
func (d *Departures) Signs(node string) nodes.Signs {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.leaving[node].Signs
}

// Unmarked returns the names of the nodes, at most that many, that are about to go away although the scheduler doesn't
// know it.
func (d *Departures) Unmarked(most int) (names []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, departure := range d.leaving {
		if departure.Signs.Unmarked() && len(names) < most {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Moves reports whether the runner has to leave the node. It stays if a runner in its place might come to the same
// node: because the pod names the node or tolerates all of the signs, or because the runner came after the signs and is
// on the node all the same. So a node can't make a set replace its runners without end.
func (d Departure) Moves(r *roster.Runner) bool {
	return !r.Pinned && d.Signs&^r.Tolerates != 0 && r.Arrival <= d.Arrivals
}

// Tell records an Event about each node from which runners of the set are moved, a single time for each of its signs.
// departing has those of its runners that are on nodes which are about to go away.
func (d *Departures) Tell(
	ctx context.Context, recorder events.EventRecorder, p *pass.Pass, moved []*roster.Runner,
	departing map[types.UID]Departure,
) {
	if len(departing) == 0 {
		d.told.Forget(p.Set.UID)
		return
	}
	counts := map[Departure]int{}
	for _, r := range moved {
		counts[departing[r.UID]]++
	}
	before, told := d.told.Of(p.Set.UID), map[string]int{}
	for _, departure := range departing {
		if arrivals, known := (*before)[departure.Node]; known && arrivals == departure.Arrivals {
			told[departure.Node] = arrivals
		}
	}
	for departure, count := range counts {
		if _, known := told[departure.Node]; known {
			continue
		}
		told[departure.Node] = departure.Arrivals
		report.RecordEvent(ctx, recorder, p.Set, nil,
			report.Normal("RunnersMoved", "MoveRunners", fmt.Sprintf(
				"node %s %s: its runners without a job (%d of this set) are removed with GitHub's consent, and others "+
					"take their places on other nodes; runners with a job finish it", departure.Node, departure.Signs,
				count)))
	}
	*before = told
}

// Forget drops what is remembered of a set that is gone.
func (d *Departures) Forget(set types.UID) { d.told.Forget(set) }

// NodeEvents returns the handler for a watch of nodes. wake is called with each runner on a node with a new sign.
func (d *Departures) NodeEvents(wake func(runner types.NamespacedName)) cache.ResourceEventHandler {
	changed := func(object any) {
		if node, ok := object.(*corev1.Node); ok {
			for _, runner := range d.Remember(node.Name, nodes.SignsOf(node)) {
				wake(runner)
			}
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    changed,
		UpdateFunc: func(_, now any) { changed(now) },
		DeleteFunc: func(object any) {
			if name, err := cache.DeletionHandlingObjectToName(object); err == nil {
				d.Remember(name.Name, 0)
			}
		},
	}
}

// PodEvents returns the handler for the watch of pods. wake is called with each runner whose pod has come to a node
// that is about to go away.
func (d *Departures) PodEvents(wake func(runner types.NamespacedName)) handler.EventHandler {
	changed := func(object client.Object) {
		pod, ok := object.(*corev1.Pod)
		if !ok {
			return
		}
		owner := metav1.GetControllerOfNoCopy(pod)
		key := client.ObjectKeyFromObject(pod)
		if owner == nil || owner.Kind != "EphemeralRunner" || podstatus.IsFinished(pod) {
			d.Place(key, "", "")
		} else if d.Place(key, owner.UID, pod.Spec.NodeName) {
			wake(key)
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, _ reconcile.Queue) { changed(e.Object) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, _ reconcile.Queue) { changed(e.ObjectNew) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ reconcile.Queue) {
			d.Place(client.ObjectKeyFromObject(e.Object), "", "")
		},
	}
}
