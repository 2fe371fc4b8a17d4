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
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// Labels of the RoleBinding, which the controller's chart sets.
const (
	component      = "single-namespace-deletion"
	labelNamespace = "app.kubernetes.io/namespace"
)

// Selector selects the RoleBinding of the manager that lives in a namespace.
func Selector(managerNamespace string) labels.Selector {
	return labels.SelectorFromSet(labels.Set{v1alpha1.LabelComponent: component, labelNamespace: managerNamespace})
}

// Options of a Controller. All are needed.
type Options struct {
	// Client reads from the cache and writes to the API server.
	Client client.Client
	// Bindings has what Selector selects in the namespace, and nothing else.
	Bindings cache.Cache
	// Namespace is the one that the manager watches.
	Namespace string
}

// Controller reconciles the namespace: there is one object, however many runners.
type Controller struct{ options Options }

// NewController returns a controller that has to be set up with a manager, or whose Reconcile is called directly.
func NewController(options Options) *Controller { return &Controller{options: options} }

// SetupWithManager registers the controller and its watches.
func (c *Controller) SetupWithManager(manager ctrl.Manager) error {
	binding := handler.TypedEnqueueRequestsFromMapFunc(func(context.Context, *rbacv1.RoleBinding) []reconcile.Request {
		return c.requests()
	})
	inhabitant := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return c.requests()
	})
	return ctrl.NewControllerManagedBy(manager).
		Named("watchednamespace").
		WatchesRawSource(source.Kind(c.options.Bindings, &rbacv1.RoleBinding{}, binding)).
		Watches(&v1alpha1.AutoscalingRunnerSet{}, inhabitant, builder.WithPredicates(comings)).
		Watches(&v1alpha1.EphemeralRunnerSet{}, inhabitant, builder.WithPredicates(comings)).
		Watches(&v1alpha1.EphemeralRunner{}, inhabitant, builder.WithPredicates(comings)).
		WithOptions(kube.ControllerOptions(1)).
		Complete(c)
}

// comings are all events of an object that count here: that it is there, and that it is gone.
var comings = predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}

func (c *Controller) requests() []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: c.options.Namespace}}}
}

// Reconcile has the RoleBinding held while somebody needs it. A chart that makes none, as former ones and rbac.clusterRoles
// false, leaves nothing to do.
func (c *Controller) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	bindings := &rbacv1.RoleBindingList{}
	if err := c.options.Bindings.List(ctx, bindings); err != nil {
		return reconcile.Result{}, fmt.Errorf("list RoleBindings: %w", err)
	}
	if len(bindings.Items) == 0 {
		return reconcile.Result{}, nil
	}
	inhabited, err := c.inhabited(ctx)
	for i := range bindings.Items {
		if err == nil {
			err = c.apply(ctx, &bindings.Items[i], inhabited)
		}
	}
	var again kube.Requeue
	return again.Result(err)
}

// inhabited looks at sets first: while there is one, nobody has to look at runners. Without copies a look costs the same
// whatever there is of a kind, but for a list of pointers.
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

// apply takes the step that the RoleBinding needs. One that is gone needs none.
func (c *Controller) apply(ctx context.Context, binding *rbacv1.RoleBinding, inhabited bool) error {
	var err error
	switch decide(binding, inhabited) {
	case stepHold:
		err = kube.AddFinalizer(ctx, c.options.Client, binding, Finalizer)
	case stepRelease:
		err = kube.RemoveFinalizers(ctx, c.options.Client, binding, Finalizer)
	}
	switch {
	case client.IgnoreNotFound(err) == nil:
		return nil
	case apierrors.IsForbidden(err):
		return fmt.Errorf("RoleBinding %s/%s: %w; helm upgrade the controller's release, whose ClusterRole of the same name allows it",
			binding.Namespace, binding.Name, err)
	default:
		return fmt.Errorf("RoleBinding %s/%s: %w", binding.Namespace, binding.Name, err)
	}
}
