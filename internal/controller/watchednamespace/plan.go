package watchednamespace

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Finalizer keeps a RoleBinding while the manager needs it.
const Finalizer = "actions.github.com/single-namespace-deletion"

// step is what a RoleBinding needs.
type step int

const (
	stepNone step = iota
	stepHold
	stepRelease
)

// decide says what to do with a RoleBinding when the namespace is inhabited or isn't. An object that is being deleted takes no
// further finalizer.
func decide(binding *rbacv1.RoleBinding, inhabited bool) step {
	held := slices.Contains(binding.Finalizers, Finalizer)
	switch {
	case inhabited && !held && binding.DeletionTimestamp.IsZero():
		return stepHold
	case !inhabited && held:
		return stepRelease
	default:
		return stepNone
	}
}
