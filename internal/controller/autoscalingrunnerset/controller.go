package autoscalingrunnerset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// Controller reconciles AutoscalingRunnerSets.
type Controller struct {
	options    Options
	waker      reconcile.Waker
	memories   kube.Memories[memory]
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
	return c
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

// Reconcile brings one AutoscalingRunnerSet a step closer to what its spec says.
func (c *Controller) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	set := &v1alpha1.AutoscalingRunnerSet{}
	if err := c.options.Client.Get(ctx, request.NamespacedName, set); err != nil {
		if apierrors.IsNotFound(err) {
			c.memories.Forget(request.NamespacedName)
			c.forgetCalls(request.NamespacedName)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("get AutoscalingRunnerSet: %w", err)
	}
	ctx = kube.WithScaleSetLogger(ctx, request.NamespacedName)
	p, err := c.observe(ctx, set)
	if err != nil {
		return ctrl.Result{}, err
	}
	steps := []func(context.Context, *pass) error{
		c.protect, c.resolve, c.releaseIfHeld, c.syncWhenDue, c.readSync, c.recordRegistration, c.deregisterFormer, c.applyRunnerSet, c.tryTemplate,
		c.applyListener, c.readBudgets,
	}
	if p.Deleting() {
		steps = []func(context.Context, *pass) error{c.finalize}
	}
	err = kube.InOrder(ctx, p, steps...)
	p.CutShort = err != nil
	if !kube.IsBehind(err) {
		p.Failure = err
	}
	return p.requeue.Result(errors.Join(err, c.protection.Strip(ctx, p.Set, &p.memory.stripped), c.report(ctx, p)))
}

// forgetCalls drops what GitHub and the API server answered about a set, and the metrics of what the answers said.
func (c *Controller) forgetCalls(key types.NamespacedName) {
	c.syncs.Forget(key)
	c.deletions.Forget(key)
	c.searches.Forget(key)
	c.trials.Forget(key)
	conditions.Unpublish(key)
}

// memory is what is remembered of a set between passes.
type memory struct {
	// statusWrittenAt is when the status was last written. A pass that changes nothing doesn't delay the next write.
	statusWrittenAt time.Time
	// deregistrationStart is when the deregistration began, zero while there is none.
	deregistrationStart time.Time
	// lostJobs is the highest count of lost jobs that a runner set had; it may be gone before the count is written.
	lostJobs int
	// size is the set's size as last recorded, nil if it has not been recorded.
	size *scaling
	// shown is what the metrics show.
	shown conditions.Shown
	// revision is the spec's word for the content of the credentials that was last read at its bidding, nil before the first read.
	revision *string
	// accepted identifies the credentials that GitHub last accepted, and confirmed the scale set that it last agreed to; see
	// pass.credentialsHash and scaleset.Result. They are empty until it has, or after it has refused.
	accepted, confirmed string
	// begunHere is set if only this process has ever asked GitHub for anything on behalf of the set.
	begunHere bool
	// kept are the objects that only finalizers of others keep.
	kept kube.Kept
	// template is what has become of pods of the present template.
	template podtemplate.Memory
	// stripped is the last release of the chart whose objects have lost ARC's finalizer.
	stripped cleanupprotection.Release
}

// pass is one reconciliation: what was observed, and what its steps found out for later ones and for the status.
type pass struct {
	conditions.Findings
	key    types.NamespacedName
	memory *memory
	// holders are the other AutoscalingRunnerSets that hold the registered scale set, or that of the last answer, by its id.
	holders ledger.Holders
	// credentialsHash identifies the credentials in Findings.RequestHash, and where they go. It is empty if that is.
	credentialsHash string
	// released is set when the finalizer is gone, and possibly the object with it.
	released bool

	requeue reconcile.Earliest
}

// group returns the set's group in the pool. Groups take turns, so no set's calls keep another's waiting.
func (p *pass) group() string { return p.key.String() }

// observe reads the objects of the set, all of them from the cache.
func (c *Controller) observe(ctx context.Context, set *v1alpha1.AutoscalingRunnerSet) (*pass, error) {
	p := &pass{key: client.ObjectKeyFromObject(set)}
	p.Set, p.Now, p.Ceiling = set, c.options.Clock.Now(), c.options.MaxRunnersPerSet
	var fresh bool
	if p.memory, fresh = c.memories.Of(set); fresh {
		c.forgetCalls(p.key) // their answers may be about a former set of this name
	}
	p.Accepted = c.options.ListenerPolicy.Accept(&set.Spec)
	p.Registration = ledger.RegistrationOf(set)
	p.Unconfirmed = p.Registration != nil && set.Status.Registration == nil
	var err error
	if p.Found, err = c.children.Find(ctx, set); err != nil {
		return nil, err
	}
	p.findBlocked()
	return p, nil
}

// findBlocked finds out whether the set's deletion, or that of an object that belongs to it, is held up by finalizers of others. The
// controllers of these objects look at what they own themselves, and say what they find in conditions. The first finding is the one to report.
func (p *pass) findBlocked() {
	p.memory.kept.Begin()
	look := func(kind string, object client.Object, told []metav1.Condition) {
		if keepers := kube.Keepers(object); len(keepers) > 0 {
			p.Awaited = cmp.Or(p.Awaited, kube.WhyKept(kind, client.ObjectKeyFromObject(object), keepers))
			if wait := p.memory.kept.Look(object.GetUID(), p.Now); wait > 0 {
				p.requeue.After(wait)
			} else {
				p.Blocked = cmp.Or(p.Blocked, p.Awaited)
			}
		}
		if c := meta.FindStatusCondition(told, v1alpha1.ConditionDeletionBlocked); c != nil && c.Status == metav1.ConditionTrue {
			p.Blocked = cmp.Or(p.Blocked, c.Message)
		}
	}
	for i := range p.RunnerSets {
		look("EphemeralRunnerSet", &p.RunnerSets[i], p.RunnerSets[i].Status.Conditions)
	}
	for i := range p.Listeners {
		look("AutoscalingListener", &p.Listeners[i], p.Listeners[i].Status.Conditions)
	}
	look("AutoscalingRunnerSet", p.Set, nil)
}

// protect adds the finalizer, without which the set would be gone before the scale set is deleted on GitHub.
func (c *Controller) protect(ctx context.Context, p *pass) error {
	if slices.Contains(p.Set.Finalizers, v1alpha1.FinalizerAutoscalingRunnerSet) {
		return nil
	}
	if err := kube.AddFinalizer(ctx, c.options.Client, p.Set, v1alpha1.FinalizerAutoscalingRunnerSet); err != nil {
		return err
	}
	p.memory.begunHere = true
	return nil
}

// wanted returns what the set's objects are made from. It is registered at the spec's address.
func (p *pass) wanted() children.Wanted {
	return children.Wanted{Set: p.Set, Registration: *p.Registration, Accepted: p.Accepted, Ceiling: p.Ceiling, Found: &p.Found}
}

// applyRunnerSet keeps the EphemeralRunnerSet as the spec wants it.
func (c *Controller) applyRunnerSet(ctx context.Context, p *pass) (err error) {
	if p.RegisteredHere() {
		p.RunnerSpecHash, err = c.children.ApplyRunnerSet(ctx, p.wanted())
	}
	return err
}

// tryTemplate finds out whether the API server would admit the pod of a runner.
func (c *Controller) tryTemplate(ctx context.Context, p *pass) (err error) {
	if !p.RegisteredHere() {
		return nil
	}
	p.Template, err = c.trials.Try(ctx, podtemplate.Question{
		Set: p.Set, Pod: c.options.RunnerPod(p.Set, c.children.RunnerSet(p.wanted())), SpecHash: p.RunnerSpecHash,
		PodsForbidden: p.PodsForbidden(), Now: p.Now,
	}, &p.memory.template, &p.requeue)
	return err
}

// applyListener keeps the AutoscalingListener as the spec wants it. It needs an EphemeralRunnerSet to scale.
func (c *Controller) applyListener(ctx context.Context, p *pass) (err error) {
	if !p.RegisteredHere() || !p.HasRunnerSet() {
		return nil
	}
	if p.TakenNames, err = c.children.ApplyListener(ctx, p.wanted(), !p.Unconfirmed); len(p.TakenNames) > 0 {
		p.requeue.After(takenRetry)
	}
	return err
}

// readBudgets finds out whether the runners are protected.
func (c *Controller) readBudgets(ctx context.Context, p *pass) error {
	var freshFor time.Duration
	if p.Budgets, freshFor = c.budgets.Read(ctx, p.Set, p.Now); p.Budgets != nil {
		p.requeue.After(freshFor)
	}
	return nil
}

// recordFarewell records the Event for the listener, too: if the set's namespace is being deleted, no Event can be created there.
func (c *Controller) recordFarewell(ctx context.Context, p *pass, event report.Event) {
	report.RecordEvent(ctx, c.options.Recorder, p.Set, nil, event)
	if listener := p.Listener(); listener != nil {
		report.RecordEvent(ctx, c.options.Recorder, listener, p.Set, event)
	}
}
