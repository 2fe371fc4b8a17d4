package watchednamespace_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/watchednamespace"
)

const (
	watched   = "runners"
	elsewhere = "elsewhere"
	// finalizer holds the RoleBinding.
	finalizer = "actions.github.com/single-namespace-deletion"
)

// fixture is a controller on a fake API server, whose patches are counted and may be rejected.
type fixture struct {
	*testing.T
	client     client.WithWatch
	controller *watchednamespace.Controller
	patches    int
	refusal    error
}

// bindings is a cache with the RoleBindings that the selector selects.
type bindings struct {
	cache.Cache
	reader client.Reader
}

func (b bindings) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	options = append(options, client.InNamespace(watched),
		client.MatchingLabelsSelector{Selector: watchednamespace.Selector("system")})
	return b.reader.List(ctx, list, options...)
}

func (b bindings) Get(
	ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption,
) error {
	return b.reader.Get(ctx, key, object, options...)
}

func newFixture(t *testing.T, objects ...client.Object) *fixture {
	t.Helper()
	f := &fixture{T: t}
	f.client = controllertest.NewKubernetes().
		WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(
			ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch,
			options ...client.PatchOption,
		) error {
			f.patches++
			if f.refusal != nil {
				return f.refusal
			}
			return c.Patch(ctx, object, patch, options...)
		},
	}).Build()
	f.controller = watchednamespace.NewController(watchednamespace.Options{Client: f.client,
		Bindings: bindings{reader: f.client},
		Clock:    clocktesting.NewFakePassiveClock(time.Unix(0, 0)), Namespace: watched})
	return f
}

// binding returns the RoleBinding as the chart creates it, with a finalizer of somebody else, which must stay.
func binding() *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{
		Namespace: watched, Name: "deletion", UID: "uid", Finalizers: []string{"example.com/another"},
		Labels: map[string]string{"app.kubernetes.io/component": "single-namespace-deletion",
			"app.kubernetes.io/namespace": "system"},
	}}
}

func place(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func (f *fixture) pass() reconcile.Result {
	f.Helper()
	return controllertest.Reconcile(f, f.controller, client.ObjectKeyFromObject(binding()))
}

// wantHeld fails the test unless the RoleBinding has our finalizer or, for false, has not, and still has the other one.
func (f *fixture) wantHeld(want bool) {
	f.Helper()
	now := &rbacv1.RoleBinding{}
	controllertest.Read(f, f.client, client.ObjectKeyFromObject(binding()), now)
	if got := slices.Contains(now.Finalizers, finalizer); got != want ||
		!slices.Contains(now.Finalizers, "example.com/another") {
		f.Errorf("finalizers %v, want held: %t", now.Finalizers, want)
	}
}

// An object of any of the three kinds holds the RoleBinding until it is gone. A pass that changes nothing writes
// nothing.
func TestHeldWhileInhabited(t *testing.T) {
	for name, inhabitant := range map[string]client.Object{
		"scale set":  &v1alpha1.AutoscalingRunnerSet{ObjectMeta: place(watched, "set")},
		"runner set": &v1alpha1.EphemeralRunnerSet{ObjectMeta: place(watched, "set")},
		"runner":     &v1alpha1.EphemeralRunner{ObjectMeta: place(watched, "runner")},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, binding(), inhabitant)
			f.pass()
			f.wantHeld(true)
			f.pass()
			if err := f.client.Delete(t.Context(), inhabitant); err != nil {
				t.Fatal(err)
			}
			f.pass()
			f.wantHeld(false)
			f.pass()
			if f.patches != 2 {
				t.Errorf("%d patches, want one to hold and one to release", f.patches)
			}
		})
	}
}

func TestOthersNamespacesCountNot(t *testing.T) {
	f := newFixture(t, binding(), &v1alpha1.AutoscalingRunnerSet{ObjectMeta: place(elsewhere, "set")})
	f.pass()
	f.wantHeld(false)
}

// The namespace is being deleted: the RoleBinding stays for a manager that has just started, until the last object is
// gone.
func TestGoesLastInADeletion(t *testing.T) {
	runner := &v1alpha1.EphemeralRunner{ObjectMeta: place(watched, "runner")}
	held := binding()
	held.Finalizers = []string{finalizer}
	f := newFixture(t, held, runner)
	if err := f.client.Delete(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	f.pass()
	if !controllertest.Read(t, f.client, client.ObjectKeyFromObject(held), held) {
		t.Fatal("the RoleBinding went before the last runner")
	}
	if err := f.client.Delete(t.Context(), runner); err != nil {
		t.Fatal(err)
	}
	f.pass()
	if controllertest.Read(t, f.client, client.ObjectKeyFromObject(held), held) {
		t.Errorf("the RoleBinding is left with finalizers %v", held.Finalizers)
	}
	f.pass()
}

// With a chart without the RoleBinding there is nothing to do and nothing to report.
func TestWithoutBinding(t *testing.T) {
	f := newFixture(t, &v1alpha1.AutoscalingRunnerSet{ObjectMeta: place(watched, "set")})
	if result := f.pass(); !result.IsZero() || f.patches > 0 {
		t.Errorf("pass() = %v after %d patches", result, f.patches)
	}
}

func TestRefusedPatches(t *testing.T) {
	resource := schema.GroupResource{Group: rbacv1.GroupName, Resource: "rolebindings"}
	for name, test := range map[string]struct {
		refusal  error
		requeued bool
		fails    bool
	}{
		"behind":    {refusal: apierrors.NewConflict(resource, "deletion", errors.New("changed")), requeued: true},
		"gone":      {refusal: apierrors.NewNotFound(resource, "deletion")},
		"forbidden": {refusal: apierrors.NewForbidden(resource, "deletion", errors.New("no")), fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, binding(), &v1alpha1.AutoscalingRunnerSet{ObjectMeta: place(watched, "set")})
			f.refusal = test.refusal
			result, err := f.controller.Reconcile(t.Context(),
				reconcile.Request{NamespacedName: client.ObjectKeyFromObject(binding())})
			if (err != nil) != test.fails || (result.RequeueAfter > 0) != test.requeued {
				t.Errorf("Reconcile() = %v, %v", result, err)
			}
			if err != nil && !strings.Contains(err.Error(), "helm upgrade") {
				t.Errorf("no next step in %q", err)
			}
		})
	}
}

func TestSelectorIsForOneManager(t *testing.T) {
	ours := labels.Set(binding().Labels)
	if selector := watchednamespace.Selector("system"); !selector.Matches(ours) || selector.Matches(labels.Set{}) ||
		watchednamespace.Selector("other").Matches(ours) {
		t.Errorf("selector %s", selector)
	}
}
