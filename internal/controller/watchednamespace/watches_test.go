package watchednamespace

import (
	"context"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// In the package: which event brings no pass shows nowhere else, because a pass that nobody needs does nothing.

// ours is a cache as Options.Bindings describes it: it has the RoleBindings of this manager only.
type ours struct{ cache.Cache }

func (ours) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*rbacv1.RoleBindingList).Items = []rbacv1.RoleBinding{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "runners", Name: "one"}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "runners", Name: "two"}},
	}
	return nil
}

// Whoever comes or goes brings a pass of each of the manager's RoleBindings, and of no other.
func TestInhabitantsWakeTheBindings(t *testing.T) {
	c := NewController(Options{Bindings: ours{}, Namespace: "runners"})
	got := c.bindings(t.Context(), &v1alpha1.EphemeralRunner{ObjectMeta: metav1.ObjectMeta{Namespace: "runners",
		Name: "runner"}})
	want := []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: "runners", Name: "one"}},
		{NamespacedName: client.ObjectKey{Namespace: "runners", Name: "two"}}}
	if !slices.Equal(got, want) {
		t.Errorf("requests %v, want %v", got, want)
	}
}

// A runner changes about ten times in its life, which doesn't matter here.
func TestOnlyComingAndGoingCounts(t *testing.T) {
	runner := &v1alpha1.EphemeralRunner{}
	if !createAndDelete.Create(event.CreateEvent{Object: runner}) ||
		!createAndDelete.Delete(event.DeleteEvent{Object: runner}) {
		t.Error("a runner that comes or goes isn't noticed")
	}
	if createAndDelete.Update(event.UpdateEvent{ObjectOld: runner, ObjectNew: runner}) {
		t.Error("every change of a runner brings a pass")
	}
}
