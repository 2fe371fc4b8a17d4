package nodes

import (
	"context"
	"sync/atomic"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// InPages wraps the source of an informer of Nodes so that it lists them in pages of the size that the informer asks
// for, and strips each. A list from the API server's cache, which informers ask for first, has all of them in one
// answer: 75 MiB for 5,000 nodes. Where the API server streams lists, from Kubernetes 1.34 on, informers don't list.
func InPages(source cache.ListerWatcher) cache.ListerWatcher {
	inner := cache.ToListerWatcherWithContext(source)
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			if options.ResourceVersion == "0" {
				options.ResourceVersion = "" // the limit counts only without a version
			}
			answer, err := inner.ListWithContext(ctx, options)
			if list, ok := answer.(*corev1.NodeList); ok {
				for i := range list.Items {
					_, _ = Strip(&list.Items[i]) // never fails
				}
			}
			return answer, err
		},
		WatchFuncWithContext: inner.WatchWithContext,
	}
}

// LogForbiddenOnce handles the errors of an informer of Nodes. That the API server forbids it is logged a single time
// and costs nothing else; the informer tries again a few times a minute, in case the right is granted.
func LogForbiddenOnce(logger logr.Logger) cache.WatchErrorHandlerWithContext {
	var said atomic.Bool
	return func(ctx context.Context, r *cache.Reflector, err error) {
		switch {
		case !apierrors.IsForbidden(err):
			cache.DefaultWatchErrorHandler(ctx, r, err)
		case said.CompareAndSwap(false, true):
			logger.Info("Nodes can't be watched, so idle runners stay on a node that is about to go away until they "+
				"are evicted, and runners wait for volumes on nodes that are gone: let the manager's ClusterRole list and "+
				"watch nodes, as the chart does, or set flags.watchNodes to false", "cause", err.Error())
		}
	}
}
