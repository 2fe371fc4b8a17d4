package autoscalingrunnerset

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/children"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/cleanupprotection"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/conditions"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/disruptionbudgets"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/ledger"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/podtemplate"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/scaleset"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/pool"
	"github.com/harrier-ci/harrier/internal/reconcile"
)

// workers is how many scale sets are reconciled at once. A pass makes no request to GitHub, and at most a handful to the API server
// of 2–10 ms each, so ten workers reconcile 200 sets in about a second after a restart.
const workers = 10

// statusPeriod is the shortest time between two writes of a set's status. In a burst the counts change with every runner.
const statusPeriod = time.Second

// takenRetry is after what time names are tried again that other listeners have.
const takenRetry = time.Minute

// Options of a Controller, beside those of the objects that it keeps. All are required unless they say otherwise.
type Options struct {
	children.Options
	// Connections returns clients of GitHub; see scaleset.ConnectionsOf.
	Connections scaleset.Connections
	// Pool runs the calls to GitHub.
	Pool  *pool.Pool
	Clock clock.PassiveClock
	// Version is the manager's version.
	Version string
	// StripForeignFinalizers removes ARC's finalizers from the objects of its charts.
	StripForeignFinalizers bool
	// MaxRunnersPerSet limits the runners of each set; 0 means no limit.
	MaxRunnersPerSet int
	// RunnerPod returns a pod as one of the set's runners would get, whose runner set is to be as given.
	RunnerPod func(*v1alpha1.AutoscalingRunnerSet, *v1alpha1.EphemeralRunnerSet) *corev1.Pod
}

type (
	reconciler = reconcile.Reconciler[*v1alpha1.AutoscalingRunnerSet, memory, *world]
	kind       = reconcile.Kind[*v1alpha1.AutoscalingRunnerSet, memory, *world]
	rule       = reconcile.Rule[*world, reconcile.Step[*world]]
)

// Controller reconciles AutoscalingRunnerSets.
type Controller struct {
	*reconciler
	options    Options
	waker      reconcile.Waker
	children   *children.Keeper
	trials     *podtemplate.Trials
	budgets    *disruptionbudgets.Reader
	protection *cleanupprotection.Remover
	// syncs, deletions and searches have the last calls to GitHub for each AutoscalingRunnerSet.
	syncs     *pool.Calls[types.NamespacedName, scaleset.Result]
	deletions *pool.Calls[types.NamespacedName, scaleset.Deletion]
	searches  *pool.Calls[types.NamespacedName, searchResult]
}

// NewController returns a controller to be set up with a manager, or to be called through Reconcile directly.
func NewController(options Options) *Controller {
	c := &Controller{
		options: options, children: children.NewKeeper(options.Options), budgets: disruptionbudgets.NewReader(options.Reader),
		protection: &cleanupprotection.Remover{Client: options.Client, Version: options.Version, Permitted: options.StripForeignFinalizers},
	}
	c.trials = podtemplate.NewTrials(options.Client, options.Pool, options.Clock, c.waker.Wake)
	c.syncs = pool.NewCalls[types.NamespacedName, scaleset.Result](options.Pool, options.Clock, c.waker.Wake)
	c.deletions = pool.NewCalls[types.NamespacedName, scaleset.Deletion](options.Pool, options.Clock, c.waker.Wake)
	c.searches = pool.NewCalls[types.NamespacedName, searchResult](options.Pool, options.Clock, c.waker.Wake)
	c.reconciler = reconcile.For(kind{
		Name: "AutoscalingRunnerSet", New: func() *v1alpha1.AutoscalingRunnerSet { return &v1alpha1.AutoscalingRunnerSet{} },
		Client: options.Client, Clock: options.Clock,
		Forget: c.forget,
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
		reconcile.When("it is being deleted, and the manager has released it", (*world).wasReleased, reconcile.Nothing[*world]),
		reconcile.When("it is being deleted, and its listener has not stopped", (*world).isListening, c.stopListeners),
		reconcile.When("it is being deleted, and it has runners", (*world).hasRunners, c.drainRunnerSets),
		reconcile.When("it is being deleted, and a call may still create its scale set", (*world).isCreating, reconcile.Nothing[*world]),
		reconcile.When("it is being deleted, and nothing uses its scale sets", (*world).Deleting, c.leave),
		reconcile.Otherwise[*world]("it is to run", reconcile.InOrder(
			c.protect, c.resolve, c.releaseIfHeld, c.syncWhenDue, c.readSync, c.recordRegistration, c.deregisterFormer,
			c.applyRunnerSet, c.tryTemplate, c.applyListener, c.readBudgets,
		)),
	}
	for i := range rules {
		rules[i].Do = reconcile.Reported(c.report, rules[i].Do)
	}
	return rules
}

// forget drops what GitHub and the API server answered about a set that is gone, and the metrics of what the answers said.
func (c *Controller) forget(set types.NamespacedName, _ *memory) {
	c.syncs.Forget(set)
	c.deletions.Forget(set)
	c.searches.Forget(set)
	c.trials.Forget(set)
	conditions.Unpublish(set)
}

// setOfListener maps a listener, which can't have an owner in another namespace, to its set.
var setOfListener = kube.NamedByLabels(v1alpha1.LabelScaleSetNamespace, v1alpha1.LabelScaleSetName)

// SetupWithManager registers the controller and its watches.
func (c *Controller) SetupWithManager(manager ctrl.Manager) error {
	// The index is made before the caches are filled, so its context ends nothing.
	indexer := manager.GetFieldIndexer()
	err := indexer.IndexField(context.Background(), &v1alpha1.AutoscalingRunnerSet{}, ledger.IndexByAddress, ledger.AddressKeysOf)
	if err != nil {
		return fmt.Errorf("index AutoscalingRunnerSets by address: %w", err)
	}
	if err := indexer.IndexField(context.Background(), &v1alpha1.EphemeralRunnerSet{}, children.IndexByOwner, children.OwnerUIDs); err != nil {
		return fmt.Errorf("index EphemeralRunnerSets by owner: %w", err)
	}
	return ctrl.NewControllerManagedBy(manager).
		Named("autoscalingrunnerset").
		For(&v1alpha1.AutoscalingRunnerSet{}).
		Owns(&v1alpha1.EphemeralRunnerSet{}).
		Watches(&v1alpha1.AutoscalingListener{}, handler.EnqueueRequestsFromMapFunc(setOfListener)).
		WatchesRawSource(&c.waker).
		WithOptions(reconcile.ControllerOptions(workers)).
		Complete(c)
}

// protect adds the finalizer, without which the set would be gone before the scale set is deleted on GitHub.
func (c *Controller) protect(ctx context.Context, w *world) error {
	if slices.Contains(w.Set.Finalizers, v1alpha1.FinalizerAutoscalingRunnerSet) {
		return nil
	}
	if err := kube.AddFinalizer(ctx, c.options.Client, w.Set, v1alpha1.FinalizerAutoscalingRunnerSet); err != nil {
		return err
	}
	w.Memory.begunHere = true
	return nil
}

// wanted returns what the set's objects are made from. It is registered at the spec's address.
func (w *world) wanted() children.Wanted {
	return children.Wanted{Set: w.Set, Registration: *w.Registration, Accepted: w.Accepted, Ceiling: w.Ceiling, Found: &w.Found}
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
		w.Requeue.After(takenRetry)
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

// recordFarewell records the Event for the listener, too: if the set's namespace is being deleted, no Event can be created there.
func (c *Controller) recordFarewell(ctx context.Context, w *world, event report.Event) {
	report.RecordEvent(ctx, c.options.Recorder, w.Set, nil, event)
	if listener := w.Listener(); listener != nil {
		report.RecordEvent(ctx, c.options.Recorder, listener, w.Set, event)
	}
}
