package watchednamespace

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

// finalizer keeps a RoleBinding while the manager needs it.
const finalizer = "actions.github.com/single-namespace-deletion"

// step is what a RoleBinding needs.
type step int

const (
	stepNone step = iota
	stepHold
	stepRelease
)

// decide returns what to do with a RoleBinding, depending on whether the namespace is inhabited. No finalizer can be added to an
// object that is being deleted.
func decide(binding *rbacv1.RoleBinding, inhabited bool) step {
	held := slices.Contains(binding.Finalizers, finalizer)
	switch {
	case inhabited && !held && binding.DeletionTimestamp.IsZero():
		return stepHold
	case !inhabited && held:
		return stepRelease
	default:
		return stepNone
	}
}
