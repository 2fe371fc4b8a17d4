package ephemeralrunnerset

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/harrier-ci/harrier/internal/kube/nodes"
	"github.com/harrier-ci/harrier/internal/kube/report"
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
func (d *departures) of(namespace string, runners []*runnerView) map[types.UID]departure {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.leaving) == 0 {
		return nil
	}
	found := map[types.UID]departure{}
	for _, r := range runners {
		there, placed := d.placed[types.NamespacedName{Namespace: namespace, Name: r.name}]
		if departure, leaving := d.leaving[there.node]; placed && leaving && there.runner == r.uid {
			found[r.uid] = departure
		}
	}
	return found
}

// moves reports whether the runner has to leave the node. It stays if another one in its place might come to the same node: because its
// pod names the node or tolerates all of the signs, or because it came after them and yet is there. So a node can't make a set
// replace its runners without end.
func (d departure) moves(r *runnerView) bool {
	return !r.pinned && d.signs&^r.tolerates != 0 && r.arrival <= d.arrivals
}

// planDeparture removes runners without a job from nodes that are about to go away, so that no job starts there: GitHub is asked first
// about those that are registered. Others take their places, on other nodes.
func (h *history) planDeparture(p *plan, runners []*runnerView) {
	if len(h.departing) == 0 {
		return
	}
	for _, r := range runners {
		if departure, leaving := h.departing[r.uid]; leaving && departure.moves(r) && h.slotOf(r) == slotWaiting {
			h.planRemoval(p, r)
			p.moved = append(p.moved, r)
		}
	}
}

// tellMoved records an Event about each node from which the set's runners are moved, once for each of its signs.
func (c *Controller) tellMoved(ctx context.Context, p *pass) {
	counts := map[departure]int{}
	for _, r := range p.plan.moved {
		counts[p.state.departing[r.uid]]++
	}
	told := map[string]int{}
	for _, departure := range p.state.departing {
		if arrivals, known := p.state.toldMoved[departure.node]; known && arrivals == departure.arrivals {
			told[departure.node] = arrivals
		}
	}
	for departure, count := range counts {
		if _, known := told[departure.node]; known {
			continue
		}
		told[departure.node] = departure.arrivals
		report.RecordEvent(ctx, c.options.Recorder, p.set, nil, report.Normal("RunnersMoved", "MoveRunners", fmt.Sprintf(
			"node %s %s: its runners without a job (%d of this set) are removed with GitHub's consent, and others take their places on other nodes; "+
				"runners with a job finish it", departure.node, departure.signs, count)))
	}
	p.state.toldMoved = told
}

// NodeEvents returns the handler for a watch of nodes, which may start late or never.
func (c *Controller) NodeEvents() cache.ResourceEventHandler {
	changed := func(object any) {
		if node, is := object.(*corev1.Node); is {
			for _, runner := range c.departures.note(node.Name, nodes.SignsOf(node)) {
				c.wakeSetOf(runner)
			}
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    changed,
		UpdateFunc: func(_, now any) { changed(now) },
		DeleteFunc: func(object any) {
			if name, err := cache.DeletionHandlingObjectToName(object); err == nil {
				c.departures.note(name.Name, 0)
			}
		},
	}
}

// PodEvents returns the handler for the watch of pods, which notes on which nodes they are. It is exported for tests that simulate the
// watch.
func (c *Controller) PodEvents() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, _ queue) { c.podChanged(e.Object) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, _ queue) { c.podChanged(e.ObjectNew) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ queue) {
			c.departures.place(client.ObjectKeyFromObject(e.Object), placement{})
		},
	}
}

func (c *Controller) podChanged(object client.Object) {
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
	if key := client.ObjectKeyFromObject(pod); c.departures.place(key, now) {
		c.wakeSetOf(key)
	}
}

// wakeSetOf has the set of a runner planned now. If the watch hasn't shown the runner yet, its own event will.
func (c *Controller) wakeSetOf(runner types.NamespacedName) {
	if set := c.roster.setOf(runner); set.name != "" {
		c.waker.Wake(types.NamespacedName{Namespace: runner.Namespace, Name: set.name})
	}
}
