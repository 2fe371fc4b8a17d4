package reconcile

import (
	"slices"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/harrier-ci/harrier/internal/kube"
)

// behindPause is more than enough for a cache to catch up.
const behindPause = time.Second

// Earliest collects when the object is to be reconciled again. The zero value means never.
type Earliest struct{ after time.Duration }

// After asks for another pass. It comes at the earliest of all times asked for.
func (e *Earliest) After(d time.Duration) {
	d = max(d, time.Millisecond) // zero would mean never
	if e.after == 0 || d < e.after {
		e.after = d
	}
}

// At returns a result that reconciles the object again at the given moment, or at once if that has passed. Zero means never.
func At(moment, now time.Time) ctrl.Result {
	var next Earliest
	if !moment.IsZero() {
		next.After(moment.Sub(now))
	}
	return ctrl.Result{RequeueAfter: next.after}
}

// Result returns the result of the pass. A request that was refused because the cache was behind is repeated without an error. A
// request that was refused because its namespace is being deleted is not repeated: it would be refused again, and the deletion of
// the namespace's objects brings events of its own.
func (e *Earliest) Result(err error) (ctrl.Result, error) {
	switch {
	case err == nil:
		return ctrl.Result{RequeueAfter: e.after}, nil
	case every(err, kube.IsBehind):
		return ctrl.Result{RequeueAfter: behindPause}, nil
	case every(err, kube.IsNamespaceTerminating):
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, err
}

// every reports whether an error is of a sort, and if it joins several, whether all of them are: one that matters is not lost among others.
func every(err error, is func(error) bool) bool {
	joined, isJoined := err.(interface{ Unwrap() []error })
	return !isJoined && is(err) || isJoined && !slices.ContainsFunc(joined.Unwrap(), func(err error) bool { return !every(err, is) })
}

// Backoff returns first·2ⁿ⁻¹ after n failures in a row, capped at longest; 0 for n = 0.
func Backoff(first, longest time.Duration, failures int) time.Duration {
	if failures <= 0 {
		return 0
	}
	const doublings = 20 // a minute, doubled 20 times, is 2⁵⁶ ns, which fits
	return min(first<<min(failures-1, doublings), longest)
}
