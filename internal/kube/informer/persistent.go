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

// awayBackoff has the pauses between requests to an API server that does not answer: half a second to four and a half.
// Those of client-go's informers grow to between 30 s and 60 s, so that after an outage of 20 s a cache stays out of
// date for as long again while jobs wait.
var awayBackoff = wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 3, Cap: 3 * time.Second}

// Persistent wraps the source of an informer so that it retries while the API server is unreachable; client-go's own,
// much longer pauses never begin. Refusals are returned immediately, with one exception: a watch that is forbidden is
// retried for apiaccess.ForbiddenTimeout. Its list was allowed a moment ago, so the API server has probably just
// started and not loaded its Roles yet, and returning the error would make the informer list everything again.
func Persistent(source cache.ListerWatcher, clk clock.Clock) cache.ListerWatcher {
	inner := cache.ToListerWatcherWithContext(source)
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return persist(ctx, clk, away, func() (runtime.Object, error) {
				return inner.ListWithContext(ctx, options)
			})
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return persist(ctx, clk, awayOrStarting(clk), func() (watch.Interface, error) {
				return inner.WatchWithContext(ctx, options)
			})
		},
	}
}

// persist repeats a request until it succeeds, fails with an error that does not pass by itself, or ctx ends.
func persist[T any](
	ctx context.Context, clk clock.Clock, passes func(error) bool, request func() (T, error),
) (T, error) {
	pauses := awayBackoff
	for said := false; ; said = true {
		answer, err := request()
		if err == nil || !passes(err) || ctx.Err() != nil {
			return answer, err
		}
		if !said {
			logAway(ctx, err)
		}
		select {
		case <-ctx.Done():
			return answer, err
		case <-clk.After(pauses.Step()):
		}
	}
}

// logAway logs why a request is repeated.
func logAway(ctx context.Context, err error) {
	if undecodable(err) {
		log.FromContext(ctx).Error(err, "The API server's answer to a list or watch can't be read: trying again "+
			"until it can; run the doctor, which names the object, and correct or delete that")
		return
	}
	log.FromContext(ctx).Info(
		"The API server does not answer or allow a list or watch: trying again until it does",
		"cause", err.Error(),
	)
}

// awayOrStarting returns a function for one request, which reports whether the API server is unreachable, or forbids
// what it may allow when it has loaded the Roles.
func awayOrStarting(clk clock.Clock) func(error) bool {
	var forbiddenAt time.Time
	return func(err error) bool {
		if apierrors.IsForbidden(err) {
			kube.SetIfZero(&forbiddenAt, clk.Now())
		}
		return away(err) || apiaccess.MayPass(err, forbiddenAt, clk.Now())
	}
}

// away reports whether the API server did not answer, or can't serve anybody now. If its etcd was restored from a
// snapshot, it answers 504 to a later resourceVersion; that is not away, because the informer recovers by asking
// without a version.
func away(err error) bool {
	var status apierrors.APIStatus // an interface without Error, so not for errors.AsType
	if !errors.As(err, &status) {
		return true
	}
	return status.Status().Code >= http.StatusInternalServerError &&
		!apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}
