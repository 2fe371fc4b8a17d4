package kube

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// behindPause is more than enough for a cache to catch up.
const behindPause = time.Second

// Requeue collects when the object is to be reconciled again. The zero value means never.
type Requeue struct{ after time.Duration }

// After asks for another pass. It comes at the earliest of all times asked for.
func (r *Requeue) After(d time.Duration) {
	d = max(d, time.Millisecond) // zero would mean never
	if r.after == 0 || d < r.after {
		r.after = d
	}
}

// RequeueAt returns a result that reconciles the object again at the given moment, or at once if that has passed. Zero means never.
func RequeueAt(moment, now time.Time) reconcile.Result {
	var requeue Requeue
	if !moment.IsZero() {
		requeue.After(moment.Sub(now))
	}
	return reconcile.Result{RequeueAfter: requeue.after}
}

// Result returns the result of the pass. A request that was refused because the cache was behind is repeated without an error. A
// request that was refused because its namespace is being deleted is not repeated: it would be refused again, and the deletion of
// the namespace's objects brings events of its own.
func (r *Requeue) Result(err error) (reconcile.Result, error) {
	switch {
	case err == nil:
		return reconcile.Result{RequeueAfter: r.after}, nil
	case IsBehind(err):
		return reconcile.Result{RequeueAfter: behindPause}, nil
	case IsNamespaceTerminating(err):
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, err
}

// IsNamespaceTerminating reports whether a request was refused because its namespace is being deleted.
func IsNamespaceTerminating(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// IsBehind reports whether a request was refused because it was based on an old state.
func IsBehind(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
