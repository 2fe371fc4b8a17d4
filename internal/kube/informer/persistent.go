package informer

import (
	"context"
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/harrier-ci/harrier/internal/apiaccess"
	"github.com/harrier-ci/harrier/internal/kube"
)

// awayPauses are the waits between two requests to an API server that does not answer: half a second to four and a half.
// Those of client-go's informers grow to between 30 s and 60 s, so that after an outage of 20 s a cache stays blind for as
// long again while jobs wait.
var awayPauses = wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 3, Cap: 3 * time.Second}

// Persistent returns the source of an informer that asks source again until the API server answers, so that the informer's
// own long pauses never begin. An answer that is a refusal is handed on; a watch that is forbidden only when it stays so for
// apiaccess.ForbiddenTimeout, because the list before it was allowed: an API server that has just started has not read the Roles,
// and the informer would list everything again.
func Persistent(source cache.ListerWatcher, clk clock.Clock) cache.ListerWatcher {
	inner := cache.ToListerWatcherWithContext(source)
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return persist(ctx, clk, away, func() (runtime.Object, error) { return inner.ListWithContext(ctx, options) })
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return persist(ctx, clk, awayOrStarting(clk), func() (watch.Interface, error) { return inner.WatchWithContext(ctx, options) })
		},
	}
}

// persist makes a request until it fails in a way that does not pass, or does not fail, or ctx ends.
func persist[T any](ctx context.Context, clk clock.Clock, passes func(error) bool, request func() (T, error)) (T, error) {
	pauses := awayPauses
	for said := false; ; said = true {
		answer, err := request()
		if err == nil || !passes(err) || ctx.Err() != nil {
			return answer, err
		}
		if !said {
			sayAway(ctx, err)
		}
		select {
		case <-ctx.Done():
			return answer, err
		case <-clk.After(pauses.Step()):
		}
	}
}

// sayAway logs why a request has to be repeated.
func sayAway(ctx context.Context, err error) {
	if undecodable(err) {
		log.FromContext(ctx).Error(err, "The API server's answer to a list or watch can't be read: trying again until it can; correct or delete the object, "+
			"which the doctor names")
		return
	}
	log.FromContext(ctx).Info("The API server does not answer or allow a list or watch: trying again until it does", "cause", err.Error())
}

// awayOrStarting returns what reports, for one request, whether the API server is away, or forbids what it may allow once it
// has read the Roles.
func awayOrStarting(clk clock.Clock) func(error) bool {
	var forbiddenAt time.Time
	return func(err error) bool {
		if apierrors.IsForbidden(err) {
			kube.SetIfZero(&forbiddenAt, clk.Now())
		}
		return away(err) || apiaccess.MayPass(err, forbiddenAt, clk.Now())
	}
}

// away reports whether the API server did not answer, or that it can't serve anybody now. One whose etcd went back in time
// answers 504 to a version of before: the informer recovers from that by asking without one.
func away(err error) bool {
	var status apierrors.APIStatus // an interface without Error, so not for errors.AsType
	if !errors.As(err, &status) {
		return true
	}
	return status.Status().Code >= http.StatusInternalServerError && !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}
