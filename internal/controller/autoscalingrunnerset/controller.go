package autoscalingrunnerset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/children"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/cleanupprotection"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/conditions"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/disruptionbudgets"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/holders"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/journal"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/podtemplate"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/runnerversions"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/scaleset"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/pool"
	"github.com/harrier-ci/harrier/internal/reconcile"
)

// workers reconcile scale sets at the same time. A pass makes no request to GitHub, and at most a handful to the API
// server of 2–10 ms each, so ten workers reconcile 200 sets in about a second after a restart.
const workers = 10

// Names that other listeners have are tried again every takenRetryInterval.
const takenRetryInterval = time.Minute

// NewController returns a controller to be set up with a manager, or to be called through Reconcile directly.
func NewController(options Options) *Controller {
	c := &Controller{
		options: options, children: children.NewKeeper(options.Options),
		budgets: disruptionbudgets.NewReader(options.Reader),
		protection: &cleanupprotection.Remover{Client: options.Client, Version: options.Version,
			Permitted: options.StripForeignFinalizers},
		holders:   &holders.Store{Client: options.Client, Namespace: options.Namespace, Watches: options.Watches},
		firstPass: sync.OnceValue(options.Clock.Now),
	}
	c.versions = runnerversions.New(options.Versions, options.Pool, options.Clock, c.waker.Wake)
	c.trials = podtemplate.NewTrials(options.Client, options.Reader, options.Pool, options.Clock, c.waker.Wake)
	c.syncs = pool.NewCalls[types.NamespacedName, scaleset.Result](options.Pool, options.Clock, c.waker.Wake)
	c.deletions = pool.NewCalls[types.NamespacedName, scaleset.Deletion](options.Pool, options.Clock, c.waker.Wake)
	c.searches = pool.NewCalls[types.NamespacedName, searchResult](options.Pool, options.Clock, c.waker.Wake)
	c.reconciler = reconcile.For(kind{
		Name: "AutoscalingRunnerSet", New: func() *v1alpha1.AutoscalingRunnerSet {
			return &v1alpha1.AutoscalingRunnerSet{}
		},
		Client: options.Client, Clock: options.Clock,
		Forget: c.forget,
		Gone:   c.gone,
		Log: func(ctx context.Context, set *v1alpha1.AutoscalingRunnerSet) context.Context {
			return kube.WithScaleSetLogger(ctx, client.ObjectKeyFromObject(set))
		},
		Observe: c.observe,
		Rules:   c.rules(),
	})
	return c
}

// rules are the situations of a set. Whatever is done in one, the status is written after it.
func (c *Controller) rules() []rule {
	rules := []rule{
		reconcile.When("it is being deleted, and the manager has released it", (*world).wasReleased,
			reconcile.Nothing[*world]),
		reconcile.When("it is being deleted, and its listener has not stopped",
			func(w *world) bool { return w.Deleting() && !w.IsStopped() }, c.stopListeners),
		reconcile.When("it is being deleted, and it has runners",
			func(w *world) bool { return w.Deleting() && len(w.RunnerSets) > 0 }, c.drainRunnerSets),
		reconcile.When("it is being deleted, and a call may still create its scale set",
			func(w *world) bool { return w.Creating }, reconcile.Nothing[*world]),
		reconcile.When("it is being deleted, and nothing uses its scale sets", (*world).Deleting, c.leave),
		reconcile.Otherwise[*world]("it is to run", reconcile.InOrder(
			c.protect, c.resolve, c.releaseIfHeld, c.syncWhenDue, c.readSync, c.recordRegistration, c.deregisterFormer,
			c.dropRecords, c.applyRunnerSet, c.tryTemplate, c.applyListener, c.readBudgets,
		)),
	}
	for i := range rules {
		rules[i].Do = reconcile.Reported(c.report, rules[i].Do)
	}
	return rules
}

// report ends each pass: it removes ARC's finalizer from the objects of the set's chart, whatever became of the pass,
// and then writes the status. It returns the error of the pass, with its own.
func (c *Controller) report(ctx context.Context, w *world, failure error) error {
	w.CutShort = failure != nil
	if !kube.IsBehind(failure) {
		w.Failure = failure
	}
	return errors.Join(failure, c.protection.Strip(ctx, w.Set, &w.Memory.stripped), c.writeStatus(ctx, w))
}

// forget drops the answers of GitHub and the API server about a set that is gone, and the metrics that follow from
// them.
func (c *Controller) forget(set types.NamespacedName, _ *memory) {
	c.syncs.Forget(set)
	c.deletions.Forget(set)
	c.searches.Forget(set)
	c.waiting.Delete(set)
	c.trials.Forget(set)
	if c.options.Forget != nil {
		c.options.Forget(set)
	}
	conditions.Unpublish(set)
	c.versions.Forget(set)
}

// setOfListener maps a listener, which can't have an owner in another namespace, to its set.
var setOfListener = kube.NamedByLabels(v1alpha1.LabelScaleSetNamespace, v1alpha1.LabelScaleSetName)

// SetupWithManager registers the controller and its watches.
func (c *Controller) SetupWithManager(manager ctrl.Manager) error {
	// The index is made before the caches are filled, so its context ends nothing.
	indexer := manager.GetFieldIndexer()
	err := indexer.IndexField(context.Background(), &v1alpha1.AutoscalingRunnerSet{}, journal.IndexByAddress,
		journal.AddressKeysOf)
	if err != nil {
		return fmt.Errorf("index AutoscalingRunnerSets by address: %w", err)
	}
	if err := indexer.IndexField(context.Background(), &v1alpha1.EphemeralRunnerSet{}, children.IndexByOwner,
		children.OwnerUIDs); err != nil {
		return fmt.Errorf("index EphemeralRunnerSets by owner: %w", err)
	}
	for name, index := range holders.Indexes {
		if err := indexer.IndexField(context.Background(), &coordinationv1.Lease{}, name, index); err != nil {
			return fmt.Errorf("index Leases by %s: %w", name, err)
		}
	}
	return ctrl.NewControllerManagedBy(manager).
		Named("autoscalingrunnerset").
		For(&v1alpha1.AutoscalingRunnerSet{}).
		Owns(&v1alpha1.EphemeralRunnerSet{}).
		Watches(&v1alpha1.AutoscalingListener{}, handler.EnqueueRequestsFromMapFunc(setOfListener)).
		Watches(&coordinationv1.Lease{}, handler.EnqueueRequestsFromMapFunc(c.holders.Requests)).
		WatchesRawSource(&c.waker).
		WithOptions(reconcile.ControllerOptions(workers)).
		Complete(c)
}

// protect adds the finalizer, without which the set would be gone before the scale set is deleted on GitHub.
func (c *Controller) protect(ctx context.Context, w *world) error {
	if slices.Contains(w.Set.Finalizers, v1alpha1.FinalizerAutoscalingRunnerSet) {
		return nil
	}
	return kube.AddFinalizer(ctx, c.options.Client, w.Set, v1alpha1.FinalizerAutoscalingRunnerSet)
}

// wanted gathers what the set's objects are made from. It is registered at the spec's address.
func (w *world) wanted() children.Wanted {
	return children.Wanted{
		Set:          w.Set,
		Registration: *w.Registration,
		Accepted:     w.Accepted,
		Numbers:      w.Numbers,
		Found:        &w.Found,
	}
}

// applyRunnerSet keeps the EphemeralRunnerSet as the spec wants it.
func (c *Controller) applyRunnerSet(ctx context.Context, w *world) (err error) {
	if w.RegisteredHere() {
		w.RunnerSpecHash, err = c.children.ApplyRunnerSet(ctx, w.wanted())
	}
	return err
}

// tryTemplate finds out whether the API server would admit the pod of a runner.
func (c *Controller) tryTemplate(ctx context.Context, w *world) (err error) {
	if !w.RegisteredHere() {
		return nil
	}
	w.Template, err = c.trials.Try(ctx, podtemplate.Question{
		Set: w.Set, Pod: c.options.RunnerPod(w.Set, c.children.RunnerSet(w.wanted())), SpecHash: w.RunnerSpecHash,
		PodsForbidden: w.PodsForbidden(), Now: w.Now,
	}, &w.Memory.template, &w.Requeue)
	return err
}

// applyListener keeps the AutoscalingListener as the spec wants it. It needs an EphemeralRunnerSet to scale.
func (c *Controller) applyListener(ctx context.Context, w *world) (err error) {
	if !w.RegisteredHere() || !w.HasRunnerSet() {
		return nil
	}
	if w.TakenNames, err = c.children.ApplyListener(ctx, w.wanted(), !w.Unconfirmed); len(w.TakenNames) > 0 {
		w.Requeue.After(takenRetryInterval)
	}
	return err
}

// readBudgets finds out whether the runners are protected.
func (c *Controller) readBudgets(ctx context.Context, w *world) error {
	var freshFor time.Duration
	if w.Budgets, freshFor = c.budgets.Read(ctx, w.Set, w.Now); w.Budgets != nil {
		w.Requeue.After(freshFor)
	}
	return nil
}

// stopListeners deletes the listeners. The event that they have stopped brings the next pass.
func (c *Controller) stopListeners(ctx context.Context, w *world) error {
	return c.children.StopListeners(ctx, &w.Found)
}

// drainRunnerSets deletes the runner sets. Busy runners finish their jobs first; the event that the last is gone brings
// the next pass.
func (c *Controller) drainRunnerSets(ctx context.Context, w *world) error {
	return c.children.DrainRunnerSets(ctx, &w.Found)
}
