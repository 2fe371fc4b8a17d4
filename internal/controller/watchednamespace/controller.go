package watchednamespace

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/reconcile"
)

// Labels of the RoleBinding that the controller's chart creates.
const (
	component      = "single-namespace-deletion"
	labelNamespace = "app.kubernetes.io/namespace"
)

// Selector selects the RoleBinding of the manager in managerNamespace.
func Selector(managerNamespace string) labels.Selector {
	return labels.SelectorFromSet(labels.Set{v1alpha1.LabelComponent: component, labelNamespace: managerNamespace})
}

// Options of a Controller. All are required.
type Options struct {
	// Client reads from the cache and writes to the API server.
	Client client.Client
	// Bindings has the RoleBindings that Selector selects in the watched namespace, and nothing else.
	Bindings cache.Cache
	// Namespace is the namespace that the manager watches.
	Namespace string
}

// Controller reconciles the namespace: there is a single request, however many runners there are.
type Controller struct{ options Options }

// NewController returns a controller to be set up with a manager, or to be called through Reconcile directly.
func NewController(options Options) *Controller { return &Controller{options: options} }

// SetupWithManager registers the controller and its watches.
func (c *Controller) SetupWithManager(manager ctrl.Manager) error {
	binding := handler.TypedEnqueueRequestsFromMapFunc(func(context.Context, *rbacv1.RoleBinding) []ctrl.Request {
		return c.requests()
	})
	inhabitant := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []ctrl.Request {
		return c.requests()
	})
	return ctrl.NewControllerManagedBy(manager).
		Named("watchednamespace").
		WatchesRawSource(source.Kind(c.options.Bindings, &rbacv1.RoleBinding{}, binding)).
		Watches(&v1alpha1.AutoscalingRunnerSet{}, inhabitant, builder.WithPredicates(createAndDelete)).
		Watches(&v1alpha1.EphemeralRunnerSet{}, inhabitant, builder.WithPredicates(createAndDelete)).
		Watches(&v1alpha1.EphemeralRunner{}, inhabitant, builder.WithPredicates(createAndDelete)).
		WithOptions(reconcile.ControllerOptions(1)).
		Complete(c)
}

// createAndDelete passes only the events that matter here: an object appears, or is gone.
var createAndDelete = predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}

func (c *Controller) requests() []ctrl.Request {
	return []ctrl.Request{{NamespacedName: types.NamespacedName{Name: c.options.Namespace}}}
}

// Reconcile keeps the finalizer on the RoleBinding while it is needed. Without a RoleBinding there is nothing to do: earlier charts
// don't create it, nor do current ones with rbac.clusterRoles=false.
func (c *Controller) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	bindings := &rbacv1.RoleBindingList{}
	if err := c.options.Bindings.List(ctx, bindings); err != nil {
		return ctrl.Result{}, fmt.Errorf("list RoleBindings: %w", err)
	}
	if len(bindings.Items) == 0 {
		return ctrl.Result{}, nil
	}
	inhabited, err := c.inhabited(ctx)
	for i := range bindings.Items {
		if err == nil {
			err = c.apply(ctx, &bindings.Items[i], inhabited)
		}
	}
	var next reconcile.Earliest
	return next.Result(err)
}

// inhabited reports whether the namespace has scale sets, runner sets or runners. It lists sets first, because if there is one,
// runners needn't be listed. Without deep copies the cost of a list hardly grows with the number of objects.
func (c *Controller) inhabited(ctx context.Context) (bool, error) {
	for _, list := range []client.ObjectList{
		&v1alpha1.AutoscalingRunnerSetList{}, &v1alpha1.EphemeralRunnerSetList{}, &v1alpha1.EphemeralRunnerList{},
	} {
		err := c.options.Client.List(ctx, list, client.InNamespace(c.options.Namespace), client.Limit(1), client.UnsafeDisableDeepCopy)
		if err != nil {
			return false, fmt.Errorf("list %T: %w", list, err)
		}
		if meta.LenList(list) > 0 {
			return true, nil
		}
	}
	return false, nil
}

// apply takes the step that the RoleBinding needs. It succeeds if the RoleBinding is gone.
func (c *Controller) apply(ctx context.Context, binding *rbacv1.RoleBinding, inhabited bool) error {
	var err error
	switch decide(binding, inhabited) {
	case stepHold:
		err = kube.AddFinalizer(ctx, c.options.Client, binding, finalizer)
	case stepRelease:
		err = kube.RemoveFinalizers(ctx, c.options.Client, binding, finalizer)
	}
	switch {
	case client.IgnoreNotFound(err) == nil:
		return nil
	case apierrors.IsForbidden(err):
		return fmt.Errorf("RoleBinding %s/%s: %w; helm upgrade the controller's release: its ClusterRole of the same name allows this",
			binding.Namespace, binding.Name, err)
	default:
		return fmt.Errorf("RoleBinding %s/%s: %w", binding.Namespace, binding.Name, err)
	}
}
