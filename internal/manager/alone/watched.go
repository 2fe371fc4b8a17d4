package alone

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/internal/kube/revisions"
)

// watched are the pods that Deployments have made in the manager's namespace, as a watch shows them.
type watched struct {
	store cache.Store

	mu sync.Mutex
	// changed is closed at the next change.
	changed chan struct{}
}

// Watch watches the pods until the context ends. It returns at once.
func (d *Deployment) Watch(ctx context.Context) error {
	if !d.known() {
		return nil
	}
	options := []client.ListOption{client.InNamespace(d.own.Namespace),
		client.MatchingLabelsSelector{Selector: revisions.Selector()}}
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, raw metav1.ListOptions) (runtime.Object, error) {
			pods := &corev1.PodList{}
			return pods, d.cluster.List(ctx, pods, append(options, &client.ListOptions{Raw: &raw})...)
		},
		WatchFuncWithContext: func(ctx context.Context, raw metav1.ListOptions) (watch.Interface, error) {
			return d.cluster.Watch(ctx, &corev1.PodList{}, append(options, &client.ListOptions{Raw: &raw})...)
		},
	}
	informer := cache.NewSharedInformer(cache.ToListWatcherWithWatchListSemantics(source, d.cluster), &corev1.Pod{}, 0)
	d.pods.store = informer.GetStore()
	// The looks say what the API server refuses. Without a watch they are only further apart.
	_ = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		d.log.V(1).Info("The watch of the pods of the manager's Deployment ended", "cause", err.Error())
	}) // fails only once it runs
	news := func(object any) {
		if pod, ok := object.(*corev1.Pod); ok && !d.concerns(pod) {
			return
		}
		d.pods.change()
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: news, DeleteFunc: news, UpdateFunc: func(_, now any) { news(now) },
	}); err != nil {
		return fmt.Errorf("watch the pods of the manager's Deployment: %w", err)
	}
	go informer.RunWithContext(ctx)
	return nil
}

// concerns reports whether a pod is of the manager's Deployment. Other programs may have theirs in the namespace.
func (d *Deployment) concerns(pod *corev1.Pod) bool {
	revision, ok := revisions.Of(pod)
	return ok && revision.Deployment == d.own.Deployment
}

// change wakes those that wait for the next change.
func (w *watched) change() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.changed)
	w.changed = make(chan struct{})
}

// all returns the pods; none before the first list is there.
func (w *watched) all() (pods []corev1.Pod) {
	if w.store == nil {
		return nil
	}
	for _, object := range w.store.List() {
		if pod, ok := object.(*corev1.Pod); ok {
			pods = append(pods, *pod)
		}
	}
	return pods
}
