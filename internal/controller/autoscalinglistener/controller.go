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
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
)

// workers is how many listeners are reconciled at once. A first pass makes eight requests of 2–10 ms, so ten workers
// start 200 listeners in about two seconds.
const workers = 10

// Credentials reads what a listener needs to reach GitHub. *credentials.Provider implements it.
type Credentials interface {
	Resolve(ctx context.Context, reference credentials.Reference) (*credentials.Resolved, error)
	// Invalidate makes the next Resolve read again, though not more often than every credentials.RetryAfter.
	Invalidate(reference credentials.Reference)
}

// Options of a Controller. All are needed unless they say otherwise.
type Options struct {
	// Client reads from the cache and writes to the API server.
	Client client.Client
	// Reader reads Secrets, which the cache doesn't hold.
	Reader      client.Reader
	Credentials Credentials
	Recorder    events.EventRecorder
	Clock       clock.PassiveClock
	// Namespace is the manager's, where listeners live.
	Namespace string
	// Entrypoint is the listener container's command; nil means DefaultEntrypoint.
	Entrypoint []string
	// LogLevel and LogFormat are passed on to listeners.
	LogLevel, LogFormat string
	// MetricsAddr and MetricsEndpoint are where listeners serve metrics; the address "0" or "" means nowhere.
	MetricsAddr, MetricsEndpoint string
	// MetricsLabels says which labels metrics of jobs have by default: config.MetricsLabelsFew or config.MetricsLabelsARC.
	MetricsLabels string
}

// DefaultEntrypoint is where the listener is in our image.
const DefaultEntrypoint = "/ghalistener"

// Controller reconciles AutoscalingListeners.
type Controller struct {
	options Options
	memory  memory
}

// NewController returns a controller that has to be set up with a manager, or whose Reconcile is called directly.
func NewController(options Options) *Controller {
	if len(options.Entrypoint) == 0 {
		options.Entrypoint = []string{DefaultEntrypoint}
	}
	return &Controller{options: options}
}

// listenerOfAccess leads from a Role or RoleBinding, which live in another namespace, to their listener.
var listenerOfAccess = kube.NamedByLabels(v1alpha1.LabelListenerNamespace, v1alpha1.LabelListenerName)

// SetupWithManager registers the controller and its watches.
func (c *Controller) SetupWithManager(manager ctrl.Manager) error {
	byLabels := handler.EnqueueRequestsFromMapFunc(listenerOfAccess)
	return ctrl.NewControllerManagedBy(manager).
		Named("autoscalinglistener").
		For(&v1alpha1.AutoscalingListener{}).
		Owns(&corev1.Pod{}).
		Owns(&corev1.ServiceAccount{}).
		Watches(&rbacv1.Role{}, byLabels).
		Watches(&rbacv1.RoleBinding{}, byLabels).
		Watches(&v1alpha1.AutoscalingRunnerSet{}, handler.EnqueueRequestsFromMapFunc(c.listenersOfSet)).
		WithOptions(kube.ControllerOptions(workers)).
		Complete(c)
}

// listenersOfSet leads from a scale set to its listeners: there is more than one while an older one goes.
func (c *Controller) listenersOfSet(ctx context.Context, object client.Object) []reconcile.Request {
	var listeners v1alpha1.AutoscalingListenerList
	err := c.options.Client.List(ctx, &listeners, client.InNamespace(c.options.Namespace), client.MatchingLabels{
		v1alpha1.LabelScaleSetName: object.GetName(), v1alpha1.LabelScaleSetNamespace: object.GetNamespace(),
	})
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

// Reconcile brings one listener a step closer to what its spec says.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	listener := &v1alpha1.AutoscalingListener{}
	if err := c.options.Client.Get(ctx, request.NamespacedName, listener); err != nil {
		if apierrors.IsNotFound(err) {
			c.memory.forget(request.NamespacedName)
			unpublish(request.NamespacedName)
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("read AutoscalingListener: %w", err)
	}
	ctx = kube.WithScaleSetLogger(ctx, types.NamespacedName{Namespace: listener.Spec.AutoscalingRunnerSetNamespace, Name: listener.Spec.AutoscalingRunnerSetName})
	p, err := c.observe(ctx, listener)
	if err != nil {
		return reconcile.Result{}, err
	}
	var steps []func(context.Context, *pass) error
	switch {
	case listener.DeletionTimestamp != nil:
		steps = append(steps, c.finalize)
	case p.set == nil:
		return reconcile.Result{}, c.deleteOrphan(ctx, listener)
	case p.set.DeletionTimestamp != nil:
		return reconcile.Result{}, nil // about to be deleted with it; what goes with its namespace must not be made again
	default:
		steps = append(steps, c.protect, c.applyAccess, c.applySecrets, c.applyPod)
	}
	err = kube.InOrder(ctx, p, steps...)
	p.admit(err)
	return p.again.Result(errors.Join(err, c.report(ctx, p)))
}

// protect sets the finalizer, without which the pod and its Secrets would go in any order.
func (c *Controller) protect(ctx context.Context, p *pass) error {
	return kube.AddFinalizer(ctx, c.options.Client, p.listener, v1alpha1.FinalizerAutoscalingListener)
}

// deleteOrphan deletes a listener whose scale set is gone: it can't be owned across namespaces.
func (c *Controller) deleteOrphan(ctx context.Context, listener *v1alpha1.AutoscalingListener) error {
	if err := c.options.Client.Delete(ctx, listener, kube.UIDPrecondition(listener)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete AutoscalingListener without a scale set: %w", err)
	}
	return nil
}

// pass is one reconciliation: what was observed, and what the steps found out for those after them.
type pass struct {
	key      types.NamespacedName
	listener *v1alpha1.AutoscalingListener
	now      time.Time
	// set is the AutoscalingRunnerSet, nil when it is gone.
	set *v1alpha1.AutoscalingRunnerSet
	// pod is the listener's own, strays are others of the same scale set, which have to be gone before it starts.
	pod    *corev1.Pod
	strays []*corev1.Pod

	// resolved is what the listener needs to reach GitHub, nil with obstacle saying why it can't be had.
	resolved *credentials.Resolved
	obstacle error
	// equipped says that the Secrets a pod mounts are as they should be, and configuration is the hash of the one that a
	// running listener reads again.
	equipped      bool
	configuration string
	// state is what there is to say about the pod.
	state podState
	// released says that the finalizer is gone, and so perhaps the object.
	released bool

	again kube.Requeue
}

// admit has the status say why a step failed, unless that is only the cache being behind.
func (p *pass) admit(err error) {
	switch {
	case err == nil || kube.IsBehind(err):
	case p.pod != nil:
		p.state = describe(p.pod)
	default:
		p.state = podState{reason: v1alpha1.ReasonReconcileFailed, message: kube.WithAdvice(err)}
	}
}
