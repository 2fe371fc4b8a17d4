package watchednamespace_test

import (
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

func TestDecide(t *testing.T) {
	const another, ours = "example.com/another", "actions.github.com/single-namespace-deletion"
	now := metav1.Now()
	for name, test := range map[string]struct {
		finalizers    []string
		deleted       *metav1.Time
		inhabited     bool
		patched, held bool
	}{
		"empty, not held":                  {},
		"inhabited, not held":              {inhabited: true, patched: true, held: true},
		"inhabited, held by somebody else": {finalizers: []string{another}, inhabited: true, patched: true, held: true},
		"inhabited, held":                  {finalizers: []string{another, ours}, inhabited: true, held: true},
		"empty, held":                      {finalizers: []string{another, ours}, patched: true},
		"empty, held by somebody else":     {finalizers: []string{another}},
		"deleted, inhabited, held":         {finalizers: []string{ours}, deleted: &now, inhabited: true, held: true},
		"deleted, empty, held":             {finalizers: []string{ours}, deleted: &now, patched: true},
		"deleted, inhabited, not held":     {finalizers: []string{another}, deleted: &now, inhabited: true},
	} {
		t.Run(name, func(t *testing.T) {
			given := binding()
			given.Finalizers, given.DeletionTimestamp = test.finalizers, test.deleted
			objects := []client.Object{given}
			if test.inhabited {
				objects = append(objects, &v1alpha1.EphemeralRunner{ObjectMeta: place(watched, "runner")})
			}
			f := newFixture(t, objects...)
			f.pass()
			now := &rbacv1.RoleBinding{}
			held := controllertest.Read(t, f.client, client.ObjectKeyFromObject(given), now) &&
				slices.Contains(now.Finalizers, ours)
			if held != test.held || (f.patches > 0) != test.patched {
				t.Errorf("finalizers %v after %d patches, want held %t and patched %t", now.Finalizers, f.patches,
					test.held,
					test.patched)
			}
		})
	}
}
