package autoscalingrunnerset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/requeue"
	"github.com/harrier-ci/harrier/internal/listenertemplate"
	"github.com/harrier-ci/harrier/internal/pool"
)

// workers is how many scale sets are reconciled at once. A pass makes no request to GitHub, and at most a handful to the API server
// of 2–10 ms each, so ten workers reconcile 200 sets in about a second after a restart.
const workers = 10

// Options of a Controller. All are required unless they say otherwise.
type Options struct {
	// Client reads from the cache and writes to the API server.
	Client client.Client
	// Reader reads from the API server what the cache may not have.
	Reader client.Reader
	// Connections returns clients of GitHub; see ConnectionsOf.
	Connections Connections
	// Pool runs the calls to GitHub.
	Pool     *pool.Pool
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	// Namespace is the manager's namespace, in which listeners are created.
	Namespace string
	// ListenerImage and ListenerImagePullSecrets are the image and the pull secrets of listener pods. The latter may be empty.
	ListenerImage            string
	ListenerImagePullSecrets []string
	// ListenerPolicy decides what sets may choose for the objects in the manager's namespace.
	ListenerPolicy listenertemplate.Policy
	// ExcludedLabelPrefixes are prefixes of labels that are not copied from an AutoscalingRunnerSet. May be empty.
	ExcludedLabelPrefixes []string
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
	options  Options
	waker    requeue.Waker
	memories kube.Memories[memory]
	budgets  budgetMemory
	// syncs, deregistrations and searches have the last calls to GitHub for each AutoscalingRunnerSet.
	syncs           *pool.Calls[types.NamespacedName, syncResult]
	deregistrations *pool.Calls[types.NamespacedName, deregistration]
	searches        *pool.Calls[types.NamespacedName, searchResult]
	// trials have the last dry run of a runner's pod for each AutoscalingRunnerSet. An error is the API server's answer.
	trials *pool.Calls[types.NamespacedName, struct{}]
}

// NewController returns a controller to be set up with a manager, or to be called through Reconcile directly.
func NewController(options Options) *Controller {
	c := &Controller{options: options}
	c.syncs = pool.NewCalls[types.NamespacedName, syncResult](options.Pool, options.Clock, c.waker.Wake)
	c.deregistrations = pool.NewCalls[types.NamespacedName, deregistration](options.Pool, options.Clock, c.waker.Wake)
	c.searches = pool.NewCalls[types.NamespacedName, searchResult](options.Pool, options.Clock, c.waker.Wake)
	c.trials = pool.NewCalls[types.NamespacedName, struct{}](options.Pool, options.Clock, c.waker.Wake)
	return c
}

// setOfListener maps a listener, which can't have an owner in another namespace, to its set.
var setOfListener = kube.NamedByLabels(v1alpha1.LabelScaleSetNamespace, v1alpha1.LabelScaleSetName)

// SetupWithManager registers the controller and its watches.
func (c *Controller) SetupWithManager(manager ctrl.Manager) error {
	// The index is made before the caches are filled, so its context ends nothing.
	err := manager.GetFieldIndexer().IndexField(context.Background(), &v1alpha1.AutoscalingRunnerSet{}, indexByAddress, addressKeysOf)
	if err != nil {
		return fmt.Errorf("index AutoscalingRunnerSets by address: %w", err)
	}
	if err := manager.GetFieldIndexer().IndexField(context.Background(), &v1alpha1.EphemeralRunnerSet{}, indexByOwner, ownerUIDs); err != nil {
		return fmt.Errorf("index EphemeralRunnerSets by owner: %w", err)
	}
	return ctrl.NewControllerManagedBy(manager).
		Named("autoscalingrunnerset").
		For(&v1alpha1.AutoscalingRunnerSet{}).
		Owns(&v1alpha1.EphemeralRunnerSet{}).
		Watches(&v1alpha1.AutoscalingListener{}, handler.EnqueueRequestsFromMapFunc(setOfListener)).
		WatchesRawSource(&c.waker).
		WithOptions(requeue.ControllerOptions(workers)).
		Complete(c)
}

// Reconcile brings one AutoscalingRunnerSet a step closer to what its spec says.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	set := &v1alpha1.AutoscalingRunnerSet{}
	if err := c.options.Client.Get(ctx, request.NamespacedName, set); err != nil {
		if apierrors.IsNotFound(err) {
			c.forget(request.NamespacedName)
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("get AutoscalingRunnerSet: %w", err)
	}
	ctx = kube.WithScaleSetLogger(ctx, request.NamespacedName)
	p, err := c.observe(ctx, set)
	if err != nil {
		return reconcile.Result{}, err
	}
	p.findBlocked()
	steps := []func(context.Context, *pass) error{
		c.protect, c.resolve, c.giveWay, c.syncWhenDue, c.readSync, c.recordRegistration, c.deregisterFormer, c.applyRunnerSet, c.tryTemplate,
		c.applyListener, c.readBudgets,
	}
	if !set.DeletionTimestamp.IsZero() {
		steps = []func(context.Context, *pass) error{c.finalize}
	}
	err = kube.InOrder(ctx, p, steps...)
	p.cutShort = err != nil
	if !kube.IsBehind(err) {
		p.failure = err
	}
	return p.requeue.Result(errors.Join(err, c.stripProtection(ctx, p), c.report(ctx, p)))
}

// protect adds the finalizer, without which the set would be gone before the scale set is deleted on GitHub.
func (c *Controller) protect(ctx context.Context, p *pass) error {
	if slices.Contains(p.set.Finalizers, v1alpha1.FinalizerAutoscalingRunnerSet) {
		return nil
	}
	if err := kube.AddFinalizer(ctx, c.options.Client, p.set, v1alpha1.FinalizerAutoscalingRunnerSet); err != nil {
		return err
	}
	p.memory.begunHere = true
	return nil
}

// forget drops everything that is remembered of a set that is gone.
func (c *Controller) forget(key types.NamespacedName) {
	c.memories.Forget(key)
	c.forgetCalls(key)
}

// forgetCalls drops what GitHub answered, and the metrics of what the answers said.
func (c *Controller) forgetCalls(key types.NamespacedName) {
	c.syncs.Forget(key)
	c.deregistrations.Forget(key)
	c.searches.Forget(key)
	c.trials.Forget(key)
	unpublish(key)
}

// pass is one reconciliation: what was observed, and what its steps found out for later ones.
type pass struct {
	key    types.NamespacedName
	set    *v1alpha1.AutoscalingRunnerSet
	memory *memory
	now    time.Time
	// ceiling is the manager's limit on the runners of each set, 0 if there is none.
	ceiling int
	// runnerSets are the EphemeralRunnerSets that the set owns, newest first. listeners are the set's AutoscalingListeners; the
	// first is the one to keep.
	runnerSets []v1alpha1.EphemeralRunnerSet
	listeners  []v1alpha1.AutoscalingListener
	// awaited says which object is kept by finalizers that the manager doesn't serve, and what to do about it, "" if none is. blocked says
	// the same once that has lasted.
	awaited, blocked string
	// accepted is what the policy lets through of what the spec says about the listener.
	accepted listenertemplate.Accepted

	// takenNames are the names that a new listener could have, if other listeners have all of them.
	takenNames []string

	// registration is where the scale set is on GitHub, nil while it is not known to be registered.
	registration *v1alpha1.ScaleSetRegistration
	// unconfirmed is set while only ARC's annotation names the registration and GitHub has not been asked about it.
	unconfirmed bool
	// unanswered is why GitHub has not deleted the scale set of a set that is being deleted, nil until it has been asked.
	unanswered error
	// searching is set while the deletion waits for GitHub to say whether it has a scale set that was never recorded.
	searching bool
	// creating is set while the deletion waits for the answer to a call that may create the scale set.
	creating bool
	desired  desiredScaleSet
	// obstacle is why GitHub can't be asked at all: an invalid address or invalid credentials. Only a user can remove it.
	obstacle error
	// owners are the other AutoscalingRunnerSets that own the registered scale set, or that of the last answer, by its id.
	owners owners
	// requestHash identifies the request to GitHub; see requestHashOf. It is empty if there is an obstacle.
	requestHash string
	// credentialsHash identifies the credentials in it; see credentialsHashOf. It is empty if requestHash is.
	credentialsHash string
	// credentialsKnown is set if these are the credentials that GitHub accepted last, and scaleSetKnown if desired is the scale set
	// that it agreed to last.
	credentialsKnown, scaleSetKnown bool
	// lastSync is the last call to GitHub. asked is set if it is still running or was for the present request.
	lastSync pool.Call[syncResult]
	asked    bool
	// runnerSpecHash identifies the runner spec that the EphemeralRunnerSet has to have, empty if the pass did not get that far.
	runnerSpecHash string
	// template is what is known of whether a runner's pod would be admitted.
	template templateVerdict
	// budgets are the PodDisruptionBudgets of the set's namespace, nil if the pass did not look.
	budgets *namespaceBudgets
	// failure is the error of the step that failed. cutShort is set when steps were skipped, even if only because the cache was
	// behind.
	failure  error
	cutShort bool
	// released is set when the finalizer is gone, and possibly the object with it.
	released bool

	requeue requeue.Earliest
}

// runnerSet returns the EphemeralRunnerSet in use, nil if there is none.
func (p *pass) runnerSet() *v1alpha1.EphemeralRunnerSet {
	if len(p.runnerSets) == 0 {
		return nil
	}
	return &p.runnerSets[0]
}

// hasRunnerSet reports whether there is an EphemeralRunnerSet that creates runners. One that is being deleted creates none, and its
// successor must wait for the last of its runners: both have the same name, by which listener and runners refer to them.
func (p *pass) hasRunnerSet() bool {
	current := p.runnerSet()
	return current != nil && current.DeletionTimestamp == nil
}

// listener returns the AutoscalingListener in use, nil if there is none.
func (p *pass) listener() *v1alpha1.AutoscalingListener {
	if len(p.listeners) == 0 {
		return nil
	}
	return &p.listeners[0]
}

// group returns the set's group in the pool. Groups take turns, so no set's calls keep another's waiting.
func (p *pass) group() string { return p.key.String() }

// imagePullSecrets returns nil for no names, so that the field is absent.
func imagePullSecrets(names []string) []corev1.LocalObjectReference {
	var references []corev1.LocalObjectReference
	for _, name := range names {
		references = append(references, corev1.LocalObjectReference{Name: name})
	}
	return references
}
