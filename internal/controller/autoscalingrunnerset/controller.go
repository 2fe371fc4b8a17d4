package autoscalingrunnerset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/capacity/effective"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/children"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/cleanupprotection"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/conditions"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/disruptionbudgets"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/holders"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/ledger"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/podtemplate"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/runnerversions"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/scaleset"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/pool"
	"github.com/harrier-ci/harrier/internal/reconcile"
)

// workers reconcile scale sets at the same time. A pass makes no request to GitHub, and at most a handful to the API
// server of 2–10 ms each, so ten workers reconcile 200 sets in about a second after a restart.
const workers = 10

// statusInterval is the shortest time between two writes of a set's status that only move counts. They are a summary of
// the runner set's, which in a burst change with every runner.
const statusInterval = 2 * time.Second

// pace limits the writes of a set's status.
var pace = report.Pace{Figures: statusInterval}

// Names that other listeners have are tried again every takenRetryInterval.
const takenRetryInterval = time.Minute

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
	// Watches reports whether the manager sees the sets of a namespace; nil means of all.
	Watches func(namespace string) bool
	// RunnerPod returns a pod as one of the set's runners would get, whose runner set is to be as given.
	RunnerPod func(*v1alpha1.AutoscalingRunnerSet, *v1alpha1.EphemeralRunnerSet) *corev1.Pod
	// Versions says how GitHub is asked which version of the runner it offers; empty means that it isn't.
	Versions runnerversions.Options
	// Forget is called with a set that is gone; it may be nil.
	Forget func(types.NamespacedName)
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
	holders    *holders.Store
	versions   *runnerversions.Watcher
	// waiting has, by the keys of sets, the holders.ScaleSet that GitHub has and another set holds.
	waiting sync.Map
	// firstPass is the time of the first pass, which a standby makes when it leads.
	firstPass func() time.Time
	// syncs, deletions and searches have the last calls to GitHub for each AutoscalingRunnerSet.
	syncs     *pool.Calls[types.NamespacedName, scaleset.Result]
	deletions *pool.Calls[types.NamespacedName, scaleset.Deletion]
	searches  *pool.Calls[types.NamespacedName, searchResult]
}

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
	c.trials = podtemplate.NewTrials(options.Client, options.Pool, options.Clock, c.waker.Wake)
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
	err := indexer.IndexField(context.Background(), &v1alpha1.AutoscalingRunnerSet{}, ledger.IndexByAddress,
		ledger.AddressKeysOf)
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

// memory has all that is remembered of a set between passes.
type memory struct {
	// written is the last write of the status. A pass that changes nothing doesn't delay the next write. described is what
	// the status should say, and has been since movedAt.
	written   report.Written
	described v1alpha1.AutoscalingRunnerSetStatus
	movedAt   time.Time
	// deregistrationStart is the time at which the deregistration began, zero while there is none.
	deregistrationStart time.Time
	// lostJobs is the highest count of lost jobs that a runner set had; it may be gone before the count is written.
	lostJobs int
	// size is the set's size as last recorded, nil if it has not been recorded.
	size *scaling
	// numbers works out which numbers of runners are in force.
	numbers effective.Plan
	// shown has the present values of the metrics.
	shown conditions.Shown
	// revision is the spec's word for the content of the credentials that was last read at its bidding, nil before the
	// first read.
	revision *string
	// accepted identifies the credentials that GitHub last accepted, and confirmed the scale set that it last agreed
	// to; see world.credentialsHash and scaleset.Result. They are empty until it has, or after it has refused.
	accepted, confirmed string
	// sawHolder is set once this process has seen another set hold what this one wants.
	sawHolder bool
	// records and recordedAs are the ledger as it was last written, and the resource version that the set got by that.
	records    ledger.Records
	recordedAs string
	// kept are the objects that only finalizers of others keep.
	kept kube.Kept
	// template has the fate of pods of the present template.
	template podtemplate.Memory
	// stripped is the last release of the chart whose objects have lost ARC's finalizer.
	stripped cleanupprotection.Release
}

// Pass is one pass of one set.
type Pass = reconcile.Pass[*v1alpha1.AutoscalingRunnerSet, memory]

// world has all that a pass has observed, and that its steps have found out for later ones and for the status.
type world struct {
	*Pass
	conditions.Findings
	// taken is set if another set holds the scale set of GitHub's last answer.
	taken bool
	// firstPass is the time of the controller's first pass.
	firstPass time.Time
	// credentialsHash identifies the credentials in Findings.RequestHash, and where they go. It is empty if that is.
	credentialsHash string
	// released is set when the finalizer is gone, and possibly the object with it.
	released bool
}

// observe reads the objects of the set, all of them from the cache.
func (c *Controller) observe(ctx context.Context, pass *Pass) (*world, error) {
	set := pass.Object
	w := &world{Pass: pass, Findings: conditions.Findings{
		Set: set, ObservedAt: pass.Now, Numbers: pass.Memory.numbers.At(set, c.options.MaxRunnersPerSet, pass.Now),
		Accepted: c.options.ListenerPolicy.Accept(&set.Spec), Registration: ledger.RegistrationOf(set),
	}, firstPass: c.firstPass()}
	w.RequeueAt(w.Numbers.Until)
	w.Unconfirmed = w.Registration != nil && set.Status.Registration == nil
	if w.Records = ledger.RecordsOf(set); reconcile.IsStale(set, w.Memory.recordedAs) && !ledger.IsDeregistered(set) {
		w.Records = w.Memory.records
	}
	last, _ := c.syncs.Last(w.Key)
	if !last.Running() && last.Err != nil && !last.Result.MayExist {
		w.Records = w.Records.NotAsked(last.Result.Desired.Registration())
	}
	w.Creating = w.Deleting() && last.Running()
	w.released = w.wasReleased() && len(kube.Keepers(set)) == 0 // otherwise the status says who keeps it
	var err error
	if w.Found, err = c.children.Find(ctx, set); err != nil {
		return nil, err
	}
	w.findBlocked()
	w.RunnerVersion, w.VersionExpires = c.versions.Observe(set, w.Now, w.RequeueAt)
	return w, nil
}

// findBlocked finds out whether the set's deletion, or that of an object that belongs to it, is held up by finalizers
// of others. The controllers of these objects look at what they own themselves, and say what they find in conditions.
// The first finding is the one to report.
func (w *world) findBlocked() {
	w.Memory.kept.Begin()
	look := func(kind string, object client.Object, told []metav1.Condition) {
		if keepers := kube.Keepers(object); len(keepers) > 0 {
			w.Awaited = cmp.Or(w.Awaited, kube.WhyKept(kind, client.ObjectKeyFromObject(object), keepers))
			if wait := w.Memory.kept.Look(object.GetUID(), w.Now); wait > 0 {
				w.Requeue.After(wait)
			} else {
				w.Blocked = cmp.Or(w.Blocked, w.Awaited)
			}
		}
		if c := meta.FindStatusCondition(told, v1alpha1.ConditionDeletionBlocked); c != nil &&
			c.Status == metav1.ConditionTrue {
			w.Blocked = cmp.Or(w.Blocked, c.Message)
		}
	}
	for i := range w.RunnerSets {
		look("EphemeralRunnerSet", &w.RunnerSets[i], w.RunnerSets[i].Status.Conditions)
	}
	for i := range w.Listeners {
		look("AutoscalingListener", &w.Listeners[i], w.Listeners[i].Status.Conditions)
	}
	look("AutoscalingRunnerSet", w.Set, nil)
}

// group returns the set's group in the pool. Groups take turns, so no set's calls keep another's waiting.
func (w *world) group() string { return w.Key.String() }

// wasReleased reports whether a set that is being deleted has lost the manager's finalizer.
func (w *world) wasReleased() bool {
	return w.Deleting() && !slices.Contains(w.Set.Finalizers, v1alpha1.FinalizerAutoscalingRunnerSet)
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

// recordFarewell records the Event for the listener, too: if the set's namespace is being deleted, no Event can be
// created there.
func (c *Controller) recordFarewell(ctx context.Context, w *world, event report.Event) {
	report.RecordEvent(ctx, c.options.Recorder, w.Set, nil, event)
	if listener := w.Listener(); listener != nil {
		report.RecordEvent(ctx, c.options.Recorder, listener, w.Set, event)
	}
}
