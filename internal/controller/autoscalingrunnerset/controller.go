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
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/pool"
)

// workers is how many scale sets are reconciled at once. A pass asks nothing of GitHub and makes at most a handful of
// requests of 2–10 ms to the API server, so ten workers take in 200 sets after a restart in about a second.
const workers = 10

// Options of a Controller. All are needed unless they say otherwise.
type Options struct {
	// Client reads from the cache and writes to the API server.
	Client client.Client
	// Connections lead to GitHub; see ConnectionsOf.
	Connections Connections
	// Pool is where GitHub is asked.
	Pool     *pool.Pool
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	// Namespace is the manager's, where listeners live.
	Namespace string
	// ListenerImage and ListenerImagePullSecrets are for listener pods. The latter may be empty.
	ListenerImage            string
	ListenerImagePullSecrets []string
	// ExcludedLabelPrefixes are those of labels that are not passed on from an AutoscalingRunnerSet. May be empty.
	ExcludedLabelPrefixes []string
	// Version is the manager's.
	Version string
}

// Controller reconciles AutoscalingRunnerSets.
type Controller struct {
	options Options
	wake    kube.Waker
	memory  memory
	// enrolments and deregistrations are what was asked of GitHub, by AutoscalingRunnerSet.
	enrolments      *pool.Calls[types.NamespacedName, enrolled]
	deregistrations *pool.Calls[types.NamespacedName, deregistration]
	searches        *pool.Calls[types.NamespacedName, searched]
}

// NewController returns a controller that has to be set up with a manager, or whose Reconcile is called directly.
func NewController(options Options) *Controller {
	c := &Controller{options: options}
	c.enrolments = pool.NewCalls[types.NamespacedName, enrolled](options.Pool, options.Clock, c.wake.Wake)
	c.deregistrations = pool.NewCalls[types.NamespacedName, deregistration](options.Pool, options.Clock, c.wake.Wake)
	c.searches = pool.NewCalls[types.NamespacedName, searched](options.Pool, options.Clock, c.wake.Wake)
	return c
}

// setOfListener leads from a listener, which can't name an owner in another namespace, to its set.
var setOfListener = kube.NamedByLabels(v1alpha1.LabelScaleSetNamespace, v1alpha1.LabelScaleSetName)

// SetupWithManager registers the controller and its watches.
func (c *Controller) SetupWithManager(manager ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(manager).
		Named("autoscalingrunnerset").
		For(&v1alpha1.AutoscalingRunnerSet{}).
		Owns(&v1alpha1.EphemeralRunnerSet{}).
		Watches(&v1alpha1.AutoscalingListener{}, handler.EnqueueRequestsFromMapFunc(setOfListener)).
		WatchesRawSource(source.Func(c.wake.Start)).
		WithOptions(kube.ControllerOptions(workers)).
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
		return reconcile.Result{}, fmt.Errorf("read AutoscalingRunnerSet: %w", err)
	}
	ctx = kube.WithScaleSetLogger(ctx, request.NamespacedName)
	p, err := c.observe(ctx, set)
	if err != nil {
		return reconcile.Result{}, err
	}
	steps := []func(context.Context, *pass) error{
		c.protect, c.resolve, c.enrolWhenDue, c.readAnswer, c.record, c.leaveFormer, c.applyRunnerSet, c.applyListener,
	}
	if !set.DeletionTimestamp.IsZero() {
		steps = []func(context.Context, *pass) error{c.finalize}
	}
	err = kube.InOrder(ctx, p, steps...)
	p.cutShort = err != nil
	if !kube.IsBehind(err) {
		p.failure = err
	}
	return p.again.Result(errors.Join(err, c.report(ctx, p)))
}

// protect sets the finalizer, without which the set would go before its scale set is deleted on GitHub.
func (c *Controller) protect(ctx context.Context, p *pass) error {
	if slices.Contains(p.set.Finalizers, v1alpha1.FinalizerAutoscalingRunnerSet) {
		return nil
	}
	if err := kube.AddFinalizer(ctx, c.options.Client, p.set, v1alpha1.FinalizerAutoscalingRunnerSet); err != nil {
		return err
	}
	c.memory.noteBegun(p.key)
	return nil
}

// forget drops everything remembered of a set that is gone; a new one of the same name begins anew.
func (c *Controller) forget(key types.NamespacedName) {
	c.enrolments.Forget(key)
	c.deregistrations.Forget(key)
	c.searches.Forget(key)
	c.memory.forget(key)
	unpublish(key)
}

// pass is one reconciliation: what was observed, and what the steps found out for those after them.
type pass struct {
	key types.NamespacedName
	set *v1alpha1.AutoscalingRunnerSet
	now time.Time
	// runnerSets are those the set owns, the newest first; listeners are those of the set, the one to keep first.
	runnerSets []v1alpha1.EphemeralRunnerSet
	listeners  []v1alpha1.AutoscalingListener

	// registration is where the scale set is on GitHub, nil while it is not known to be anywhere.
	registration *v1alpha1.ScaleSetRegistration
	// unconfirmed says that only ARC's annotation tells of the registration, and GitHub has not been asked yet.
	unconfirmed bool
	// searching says that the end of the deletion waits for GitHub to say whether it has a scale set that was never recorded.
	searching bool
	wish      wish
	// obstacle is what keeps GitHub from being asked at all: a bad address or bad credentials. Only a user can remove it.
	obstacle error
	// question is what GitHub is to be asked, empty where an obstacle keeps it from being asked; see questionOf.
	question string
	// enrolment is the last call to GitHub, asked whether there was one for the present wish.
	enrolment pool.Call[enrolled]
	asked     bool
	// failure is what a step failed with; cutShort says that steps were left out, be it only because the cache was behind.
	failure  error
	cutShort bool
	// released says that the finalizer is gone, and so perhaps the object.
	released bool

	again kube.Requeue
}

// runnerSet returns the EphemeralRunnerSet in use, nil when there is none.
func (p *pass) runnerSet() *v1alpha1.EphemeralRunnerSet {
	if len(p.runnerSets) == 0 {
		return nil
	}
	return &p.runnerSets[0]
}

// hasRunnerSet says that there is an EphemeralRunnerSet that makes runners. One that somebody has deleted makes none, and its
// successor waits for the last of its runners: it has the same name, which listener and runners go by.
func (p *pass) hasRunnerSet() bool {
	current := p.runnerSet()
	return current != nil && current.DeletionTimestamp == nil
}

// listener returns the AutoscalingListener in use, nil when there is none.
func (p *pass) listener() *v1alpha1.AutoscalingListener {
	if len(p.listeners) == 0 {
		return nil
	}
	return &p.listeners[0]
}

// group is the name under which the pool shares its places out: one set can't take those of another.
func (p *pass) group() string { return p.key.String() }

// imagePullSecrets returns nil for no names, so that the field stays absent.
func imagePullSecrets(names []string) []corev1.LocalObjectReference {
	var references []corev1.LocalObjectReference
	for _, name := range names {
		references = append(references, corev1.LocalObjectReference{Name: name})
	}
	return references
}
