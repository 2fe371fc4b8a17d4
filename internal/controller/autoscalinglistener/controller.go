package autoscalinglistener

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/kube/requeue"
	"github.com/harrier-ci/harrier/internal/listenertemplate"
)

// workers is how many listeners are reconciled at once. The first pass of a listener makes twelve requests of 2–10 ms, so ten
// workers start 200 listeners in about three seconds.
const workers = 10

// Credentials reads what a listener needs to reach GitHub. *credentials.Provider implements it.
type Credentials interface {
	Resolve(ctx context.Context, reference credentials.Reference) (*credentials.Resolved, error)
	// Invalidate makes the next Resolve read again, though not more often than every credentials.RetryAfter.
	Invalidate(reference credentials.Reference)
	// FromListener returns what a listener's Secrets have; see credentials.Provider.FromListener.
	FromListener(ctx context.Context, listener client.ObjectKey) (*credentials.Resolved, error)
}

// Options of a Controller. All are required unless they say otherwise.
type Options struct {
	// Client reads from the cache and writes to the API server.
	Client client.Client
	// Reader reads Secrets, which the cache doesn't hold.
	Reader      client.Reader
	Credentials Credentials
	Recorder    events.EventRecorder
	Clock       clock.PassiveClock
	// Namespace is the manager's namespace, in which listeners run.
	Namespace string
	// WatchNamespace is the only namespace whose scale sets the manager serves. Empty means all.
	WatchNamespace string
	// Entrypoint is the command of the listener container; nil means the listener's path in our image.
	Entrypoint []string
	// Policy decides what scale sets may choose for the objects in the manager's namespace.
	Policy listenertemplate.Policy
	// LogLevel and LogFormat are passed on to listeners.
	LogLevel, LogFormat string
	// MetricsAddr and MetricsEndpoint are where listeners serve metrics. With the address "0" or "" they serve none.
	MetricsAddr, MetricsEndpoint string
	// MetricsLabels says which labels the metrics of jobs have by default: config.MetricsLabelsFew or config.MetricsLabelsARC.
	MetricsLabels string
	// AllowedGitHubURLs go into the configuration of listeners, which check addresses as the manager does.
	AllowedGitHubURLs []string
}

// Controller reconciles AutoscalingListeners.
type Controller struct {
	options  Options
	memories kube.Memories[memory]
	// told are the UIDs of ignored listeners that have their Event.
	told *lru.Cache
}

// NewController returns a controller to be set up with a manager, or to be called through Reconcile directly.
func NewController(options Options) *Controller {
	if len(options.Entrypoint) == 0 {
		options.Entrypoint = []string{listenertemplate.DefaultProgram}
	}
	return &Controller{options: options, told: lru.New(ignoredMemory)}
}

// listenerOfAccess maps a Role or RoleBinding, which is in another namespace, to its listener.
var listenerOfAccess = kube.NamedByLabels(v1alpha1.LabelListenerNamespace, v1alpha1.LabelListenerName)

// SetupWithManager registers the controller and its watches.
func (c *Controller) SetupWithManager(manager ctrl.Manager) error {
	if err := manager.Add(ctrlmanager.RunnableFunc(c.reportIgnored)); err != nil {
		return fmt.Errorf("add the search for ignored listeners: %w", err)
	}
	byLabels := handler.EnqueueRequestsFromMapFunc(listenerOfAccess)
	return ctrl.NewControllerManagedBy(manager).
		Named("autoscalinglistener").
		For(&v1alpha1.AutoscalingListener{}).
		Owns(&corev1.Pod{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(listenerOfAbandoned)).
		Owns(&corev1.ServiceAccount{}).
		Watches(&rbacv1.Role{}, byLabels).
		Watches(&rbacv1.RoleBinding{}, byLabels).
		Watches(&v1alpha1.AutoscalingRunnerSet{}, handler.EnqueueRequestsFromMapFunc(c.listenersOfSet)).
		WithOptions(requeue.ControllerOptions(workers)).
		Complete(c)
}

// listenerOfAbandoned maps a listener pod that no listener owns to the listener that had it: it is a stray of that one's set, or nobody's.
func listenerOfAbandoned(_ context.Context, pod client.Object) []reconcile.Request {
	if !isAbandoned(pod) {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(pod)}}
}

// listenersOfSet maps a scale set to its listeners. There is more than one while an older one is being deleted.
func (c *Controller) listenersOfSet(ctx context.Context, object client.Object) []reconcile.Request {
	var listeners v1alpha1.AutoscalingListenerList
	err := c.options.Client.List(ctx, &listeners, client.InNamespace(c.options.Namespace), ofSet(client.ObjectKeyFromObject(object)))
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Can't list listeners of scale set", "scaleSet", client.ObjectKeyFromObject(object))
		return nil
	}
	var requests []reconcile.Request
	for i := range listeners.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&listeners.Items[i])})
	}
	return requests
}

// Reconcile brings one listener a step closer to what its spec says. Whatever the spec names is written with the manager's rights, so
// only a listener that the manager wrote itself counts: one in its own namespace, and the one that its scale set has.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if request.Namespace != c.options.Namespace {
		return reconcile.Result{}, nil // lookForIgnored reports it
	}
	listener := &v1alpha1.AutoscalingListener{}
	if err := c.options.Client.Get(ctx, request.NamespacedName, listener); err != nil {
		if apierrors.IsNotFound(err) {
			c.memories.Forget(request.NamespacedName)
			unpublish(request.NamespacedName)
			return reconcile.Result{}, c.deleteAbandonedPod(ctx, request.NamespacedName)
		}
		return reconcile.Result{}, fmt.Errorf("get AutoscalingListener: %w", err)
	}
	ctx = kube.WithScaleSetLogger(ctx, kube.LabelledSet(listener))
	p, err := c.observe(ctx, listener)
	if err != nil {
		return reconcile.Result{}, err
	}
	var steps []func(context.Context, *pass) error
	switch {
	case listener.DeletionTimestamp != nil:
		steps = append(steps, c.finalize)
	case p.isOrphan():
		return reconcile.Result{}, c.deleteOrphan(ctx, listener)
	case p.ignored != "":
		unpublish(p.key)
		c.ignore(ctx, listener, p.ignored)
		return reconcile.Result{}, nil
	case listener.Annotations[v1alpha1.AnnotationIntegrityHash] == "":
		return reconcile.Result{}, nil // the manager has not written all of it; it is about to, or has yet to take it over from ARC
	case p.set.DeletionTimestamp != nil:
		return reconcile.Result{}, nil // the listener is deleted next; what the deletion of a namespace removed must not be recreated
	default:
		steps = append(steps, c.protect, c.applyAccess, c.applySecrets, c.applyPod)
	}
	err = kube.InOrder(ctx, p, steps...)
	p.describeFailure(err)
	if taken, refused := errors.AsType[*takenError](err); refused {
		c.refuse(ctx, p, taken)
		err = nil
	}
	return p.requeue.Result(errors.Join(err, c.report(ctx, p)))
}

// protect adds the finalizer, without which the pod and its Secrets would be deleted in any order.
func (c *Controller) protect(ctx context.Context, p *pass) error {
	return kube.AddFinalizer(ctx, c.options.Client, p.listener, v1alpha1.FinalizerAutoscalingListener)
}

// isOrphan reports whether the scale set that the listener was served for is gone.
func (p *pass) isOrphan() bool {
	return p.set == nil && contradiction(p.listener) == "" && kube.WasServed(p.listener)
}

// deleteOrphan deletes a listener whose scale set is gone. Garbage collection can't, because owners can't be in another namespace.
func (c *Controller) deleteOrphan(ctx context.Context, listener *v1alpha1.AutoscalingListener) error {
	if err := c.options.Client.Delete(ctx, listener, kube.UIDPrecondition(listener)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete AutoscalingListener without a scale set: %w", err)
	}
	return nil
}

// pass is one reconciliation: what was observed, and what its steps found out for later ones.
type pass struct {
	key types.NamespacedName
	// setKey is the scale set that the listener's labels name.
	setKey   types.NamespacedName
	listener *v1alpha1.AutoscalingListener
	memory   *memory
	now      time.Time
	// set is the AutoscalingRunnerSet, nil if it is gone. ignored is why the listener is not the set's, empty if it is.
	set     *v1alpha1.AutoscalingRunnerSet
	ignored string
	// pod is the listener's own, nil if there is none. strays are other listener pods of the same scale set, which must be gone
	// before it starts.
	pod    *corev1.Pod
	strays []*corev1.Pod

	// resolved is what the listener needs to reach GitHub, nil if it can't be resolved because of obstacle.
	resolved *credentials.Resolved
	obstacle error
	// secretsReady is set when the Secrets that the pod uses are as they should be. configuration is the revision of the Secret
	// that a running listener reads again when it changes, proxy that of the other, empty if there is no proxy.
	secretsReady         bool
	configuration, proxy string
	// accountSince is when the listener's ServiceAccount was created, zero if the cache doesn't have it.
	accountSince time.Time
	// state is what the status says about the pod.
	state podState
	// failure is the error of the step that failed. cutShort is set when steps were skipped, even if only because the cache was
	// behind.
	failure  error
	cutShort bool
	// blocked says which object of the listener is kept by finalizers that the manager doesn't serve, "" if none is. undecided is set
	// while such an object has been kept for too short a time to say so.
	blocked   string
	undecided bool
	// taken is the object that has a name that the listener needs, nil if there is none.
	taken *takenError
	// released is set when the finalizer is gone, and possibly the object with it.
	released bool

	requeue requeue.Earliest
}

// describeFailure sets the state after a step that failed: that of the pod if there is one to keep, else the error. A cache that is
// behind doesn't count as a failure.
func (p *pass) describeFailure(err error) {
	if err == nil {
		return
	}
	p.cutShort = true
	if p.pod != nil {
		p.state = p.assessAsIs(p.pod)
	}
	if kube.IsBehind(err) {
		return
	}
	p.failure = err
	if p.pod == nil || p.state.action != actionKeep {
		p.state = podState{reason: v1alpha1.ReasonReconcileFailed, message: report.WithAdvice(err)}
	}
}
