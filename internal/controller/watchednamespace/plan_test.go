package watchednamespace

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDecide(t *testing.T) {
	const another = "example.com/another"
	now := metav1.Now()
	for name, test := range map[string]struct {
		finalizers []string
		deleted    *metav1.Time
		inhabited  bool
		want       step
	}{
		"empty, not held":                  {want: stepNone},
		"inhabited, not held":              {inhabited: true, want: stepHold},
		"inhabited, held by somebody else": {finalizers: []string{another}, inhabited: true, want: stepHold},
		"inhabited, held":                  {finalizers: []string{another, finalizer}, inhabited: true, want: stepNone},
		"empty, held":                      {finalizers: []string{another, finalizer}, want: stepRelease},
		"empty, held by somebody else":     {finalizers: []string{another}, want: stepNone},
		"deleted, inhabited, held":         {finalizers: []string{finalizer}, deleted: &now, inhabited: true, want: stepNone},
		"deleted, empty, held":             {finalizers: []string{finalizer}, deleted: &now, want: stepRelease},
		"deleted, inhabited, not held":     {finalizers: []string{another}, deleted: &now, inhabited: true, want: stepNone},
	} {
		t.Run(name, func(t *testing.T) {
			binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Finalizers: test.finalizers, DeletionTimestamp: test.deleted}}
			if got := decide(binding, test.inhabited); got != test.want {
				t.Errorf("decide() = %d, want %d", got, test.want)
			}
		})
	}
}
