package watchednamespace

import (
	"context"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/clock"
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

// finalizer keeps a RoleBinding while the manager needs it.
const finalizer = "actions.github.com/single-namespace-deletion"

// Options of a Controller. All are required.
type Options struct {
	// Client reads from the cache and writes to the API server.
	Client client.Client
	// Bindings has the RoleBindings that Selector selects in the watched namespace, and nothing else.
	Bindings cache.Cache
	Clock    clock.PassiveClock
	// Namespace is the namespace that the manager watches.
	Namespace string
}

// Controller reconciles the RoleBindings of the manager in the namespace. There is one, however many runners there are.
// Earlier charts create none, nor do current ones with rbac.clusterRoles=false.
type Controller struct {
	*passes
	options Options
}

type (
	passes = reconcile.Reconciler[*rbacv1.RoleBinding, struct{}, *world]
	pass   = reconcile.Pass[*rbacv1.RoleBinding, struct{}]
	step   = reconcile.Step[*world]
)

// world is what a pass knows: whether anything is left that the manager must finalize, and whether the RoleBinding
// waits for that.
type world struct {
	*pass
	inhabited, held bool
}

// NewController returns a controller to be set up with a manager, or to be called through Reconcile directly.
func NewController(options Options) *Controller {
	c := &Controller{options: options}
	c.passes = reconcile.For(reconcile.Kind[*rbacv1.RoleBinding, struct{}, *world]{
		Name:    "RoleBinding",
		New:     func() *rbacv1.RoleBinding { return &rbacv1.RoleBinding{} },
		Client:  options.Bindings,
		Clock:   options.Clock,
		Observe: c.observe,
		Rules: []reconcile.Rule[*world, step]{
			reconcile.When("it is needed and would not wait", unprotected, c.hold),
			reconcile.When("nothing needs it and it waits", func(w *world) bool { return w.held && !w.inhabited },
				c.release),
		},
	})
	return c
}

// SetupWithManager registers the controller and its watches.
func (c *Controller) SetupWithManager(manager ctrl.Manager) error {
	inhabitant := handler.EnqueueRequestsFromMapFunc(c.bindings)
	return ctrl.NewControllerManagedBy(manager).
		Named("watchednamespace").
		WatchesRawSource(source.Kind(c.options.Bindings, &rbacv1.RoleBinding{},
			&handler.TypedEnqueueRequestForObject[*rbacv1.RoleBinding]{})).
		Watches(&v1alpha1.AutoscalingRunnerSet{}, inhabitant, builder.WithPredicates(createAndDelete)).
		Watches(&v1alpha1.EphemeralRunnerSet{}, inhabitant, builder.WithPredicates(createAndDelete)).
		Watches(&v1alpha1.EphemeralRunner{}, inhabitant, builder.WithPredicates(createAndDelete)).
		WithOptions(reconcile.ControllerOptions(1)).
		Complete(c)
}

// createAndDelete passes only the events that matter here: an object appears, or is gone.
var createAndDelete = predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}

// bindings maps an inhabitant of the namespace to the RoleBindings that it needs.
func (c *Controller) bindings(ctx context.Context, _ client.Object) []ctrl.Request {
	requests, err := reconcile.Requests(ctx, c.options.Bindings, &rbacv1.RoleBindingList{})
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Can't list the manager's RoleBindings", "namespace", c.options.Namespace)
	}
	return requests
}

// observe finds out whether the namespace has scale sets, runner sets or runners. It lists sets first, because if there
// is one, runners needn't be listed. Without deep copies the cost of a list hardly grows with the number of objects.
func (c *Controller) observe(ctx context.Context, p *pass) (*world, error) {
	w := &world{pass: p, held: slices.Contains(p.Object.Finalizers, finalizer)}
	for _, list := range []client.ObjectList{
		&v1alpha1.AutoscalingRunnerSetList{}, &v1alpha1.EphemeralRunnerSetList{}, &v1alpha1.EphemeralRunnerList{},
	} {
		err := c.options.Client.List(ctx, list, client.InNamespace(c.options.Namespace), client.Limit(1),
			client.UnsafeDisableDeepCopy)
		if err != nil {
			return nil, fmt.Errorf("list %T: %w", list, err)
		}
		if meta.LenList(list) > 0 {
			w.inhabited = true
			break
		}
	}
	return w, nil
}

// unprotected reports whether the RoleBinding could go before the last runner. No finalizer can be added to one that is
// being deleted.
func unprotected(w *world) bool { return w.inhabited && !w.held && w.Object.DeletionTimestamp.IsZero() }

func (c *Controller) hold(ctx context.Context, w *world) error {
	return w.explain(kube.AddFinalizer(ctx, c.options.Client, w.Object, finalizer))
}

func (c *Controller) release(ctx context.Context, w *world) error {
	return w.explain(kube.RemoveFinalizers(ctx, c.options.Client, w.Object, finalizer))
}

// explain returns the error of a patch with the object and, if it was forbidden, the next step; none if the RoleBinding
// is gone.
func (w *world) explain(err error) error {
	switch {
	case client.IgnoreNotFound(err) == nil:
		return nil
	case apierrors.IsForbidden(err):
		return fmt.Errorf("RoleBinding %s: %w; helm upgrade the controller's release: its ClusterRole of the "+
			"same name allows this", w.Key, err)
	default:
		return fmt.Errorf("RoleBinding %s: %w", w.Key, err)
	}
}
