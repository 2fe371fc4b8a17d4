package ephemeralrunnerset

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/claims"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/ownership"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/reconcile"
)

// SetupWithManager registers the controller and its watches.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	// The index is made before the caches are filled, so its context ends nothing.
	err := mgr.GetFieldIndexer().IndexField(context.Background(), &corev1.PersistentVolumeClaim{},
		claims.IndexByScaleSet, claims.ScaleSetOf)
	if err != nil {
		return fmt.Errorf("index claims by scale set: %w", err)
	}
	b := ctrl.NewControllerManagedBy(mgr).
		Named("ephemeralrunnerset").
		For(&v1alpha1.EphemeralRunnerSet{}).
		Watches(&v1alpha1.EphemeralRunner{}, c.RunnerEvents()).
		Watches(&corev1.Pod{}, c.JobPodEvents()).
		Watches(&corev1.Pod{}, c.ClaimedPodEvents()).
		Watches(&corev1.PersistentVolumeClaim{}, c.claimEvents()).
		Watches(&corev1.Pod{}, c.PlacedPodEvents()).
		Watches(&v1alpha1.AutoscalingRunnerSet{}, handler.EnqueueRequestsFromMapFunc(c.runnerSetsOf),
			builder.WithPredicates(ownership.GivesOtherwise)).
		WatchesRawSource(&c.waker).
		WithOptions(reconcile.ControllerOptions(c.options.Workers))
	if c.options.WatchNodes {
		b.Watches(&corev1.Pod{}, c.PodEvents())
	}
	return b.Complete(c)
}

// The events of a set's runners are gathered for gatherInterval for one pass. A runner has ten events in its life, a
// pass looks at all runners of its set, and ten passes a second are enough. What follows from a runner's event is not
// urgent; a change of the set itself is, and isn't delayed.
const gatherInterval = 100 * time.Millisecond

// RunnerEvents returns the handler for the watch of runners. It keeps the roster up to date, and enqueues a set when
// one of its runners has changed in a way that matters. It is exported for tests that simulate the watch.
func (c *Controller) RunnerEvents() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q reconcile.Queue) {
			c.runnerChanged(e.Object, q)
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q reconcile.Queue) { c.runnerChanged(e.ObjectNew, q) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q reconcile.Queue) { c.runnerDeleted(e.Object, q) },
	}
}

// runnerChanged stores a runner as it is now. If the runner has left a set, that set is enqueued as well.
func (c *Controller) runnerChanged(object client.Object, q reconcile.Queue) {
	runner, ok := object.(*v1alpha1.EphemeralRunner)
	if !ok {
		return
	}
	set := roster.OwnerOf(runner)
	view := roster.Of(runner)
	c.leases.Put(runner)
	if m := c.Known(types.NamespacedName{Namespace: runner.Namespace, Name: set.Name}); m != nil &&
		m.Creations.Expects(runner.Name) {
		view.Arrival = c.departures.Arrive()
	}
	former, news := c.roster.Put(client.ObjectKeyFromObject(runner), set, view)
	if !news {
		return
	}
	enqueue(q, runner.Namespace, set)
	if former.Name != set.Name {
		enqueue(q, runner.Namespace, former)
	}
}

// runnerDeleted removes a runner that is gone. It is no longer expected, even if no pass has seen it.
func (c *Controller) runnerDeleted(object client.Object, q reconcile.Queue) {
	key := client.ObjectKeyFromObject(object)
	set := c.roster.Remove(key)
	c.leases.Remove(key)
	if m := c.Known(types.NamespacedName{Namespace: key.Namespace, Name: set.Name}); m != nil {
		m.Creations.Drop(key.Name)
	}
	enqueue(q, key.Namespace, set)
}

func enqueue(q reconcile.Queue, namespace string, set roster.Owner) {
	if set.Name != "" {
		q.AddAfter(ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: set.Name}},
			gatherInterval)
	}
}

// wakeSetOf has the set of a runner planned now. If the watch hasn't shown the runner yet, its own event will.
func (c *Controller) wakeSetOf(runner types.NamespacedName) {
	if set := c.roster.SetOf(runner); set.Name != "" {
		c.waker.Wake(types.NamespacedName{Namespace: runner.Namespace, Name: set.Name})
	}
}

// NodeEvents returns the handlers for a watch of nodes, which may start late or never.
func (c *Controller) NodeEvents() cache.ResourceEventHandler {
	return both{c.nodes.Events(), c.departures.NodeEvents(c.wakeSetOf)}
}

// AwaitNodes says how to find out whether the watch has shown all nodes to NodeEvents.
func (c *Controller) AwaitNodes(shown func() bool) { c.nodes.Await(shown) }

// both are two handlers of one watch.
type both struct{ first, second cache.ResourceEventHandler }

func (b both) OnAdd(object any, initial bool) {
	b.first.OnAdd(object, initial)
	b.second.OnAdd(object, initial)
}

func (b both) OnUpdate(before, now any) {
	b.first.OnUpdate(before, now)
	b.second.OnUpdate(before, now)
}

func (b both) OnDelete(object any) {
	b.first.OnDelete(object)
	b.second.OnDelete(object)
}

// PodEvents returns the handler for the watch of pods, which remembers their nodes. It is exported for tests that
// simulate the watch.
func (c *Controller) PodEvents() handler.EventHandler { return c.departures.PodEvents(c.wakeSetOf) }

// JobPodEvents returns the handler for the watch of the pods of jobs. A set whose runner the watch shows later is
// enqueued then. It is exported for tests that simulate the watch.
func (c *Controller) JobPodEvents() handler.EventHandler {
	return c.jobPods.Events(func(q reconcile.Queue, runner types.NamespacedName) {
		enqueue(q, runner.Namespace, c.roster.SetOf(runner))
	})
}

// ClaimedPodEvents returns the handler for the watch of pods that mount claims. It is exported for tests that simulate
// the watch.
func (c *Controller) ClaimedPodEvents() handler.EventHandler {
	return c.leases.PodEvents(func(q reconcile.Queue, runner types.NamespacedName) {
		enqueue(q, runner.Namespace, c.roster.SetOf(runner))
	})
}

// claimEvents returns the handler for the watch of claims, which enqueues the runner sets of their scale set.
func (c *Controller) claimEvents() handler.EventHandler {
	changed := func(ctx context.Context, claim client.Object, q reconcile.Queue) {
		scaleSet := types.NamespacedName{Namespace: claim.GetNamespace(),
			Name: claim.GetLabels()[v1alpha1.LabelScaleSetName]}
		for _, request := range c.runnerSetsNamed(ctx, scaleSet) {
			q.AddAfter(request, gatherInterval)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q reconcile.Queue) { changed(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q reconcile.Queue) {
			if e.ObjectOld.GetResourceVersion() != e.ObjectNew.GetResourceVersion() {
				changed(ctx, e.ObjectNew, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q reconcile.Queue) { changed(ctx, e.Object, q) },
	}
}

// PlacedPodEvents returns the handler for the watch of pods that remembers which runners' pods have a node. Only a set
// that announces what its cluster places is enqueued. It is exported for tests that simulate the watch.
func (c *Controller) PlacedPodEvents() handler.EventHandler {
	return c.placing.Events(func(q reconcile.Queue, runner types.NamespacedName) {
		if set := c.roster.SetOf(runner); c.placing.Follows(set.UID) {
			enqueue(q, runner.Namespace, set)
		}
	})
}

// runnerSetsOf maps an AutoscalingRunnerSet to its runner sets, which may have waited for what it gives.
func (c *Controller) runnerSetsOf(ctx context.Context, origin client.Object) []ctrl.Request {
	return c.runnerSetsNamed(ctx, client.ObjectKeyFromObject(origin))
}

// runnerSetsNamed returns the runner sets with the labels of a scale set.
func (c *Controller) runnerSetsNamed(ctx context.Context, scaleSet types.NamespacedName) []ctrl.Request {
	requests, err := reconcile.Requests(ctx, c.options.Client, &v1alpha1.EphemeralRunnerSetList{},
		client.InNamespace(scaleSet.Namespace),
		client.MatchingLabels{v1alpha1.LabelScaleSetName: scaleSet.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		log.FromContext(ctx).Error(err, "Can't list runner sets of scale set", "scaleSet", scaleSet)
	}
	return requests
}
