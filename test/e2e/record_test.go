package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// record remembers the last state of runner pods: the status that the kubelet gives a pod before it is gone.
type record struct {
	mutex sync.Mutex
	pods  map[types.UID]corev1.Pod
	gone  map[types.UID]bool
}

// recordPods watches the runner pods of the namespace until the test ends.
func recordPods(t *testing.T, namespace string) *record {
	t.Helper()
	return recordPodsOf(t, namespace, client.MatchingLabels{v1alpha1.LabelRunner: "True"})
}

// recordPodsOf watches the selected pods of the namespace until the test ends.
func recordPodsOf(t *testing.T, namespace string, selected client.ListOption) *record {
	t.Helper()
	r := &record{pods: map[types.UID]corev1.Pod{}, gone: map[types.UID]bool{}}
	ctx, stop := context.WithCancel(context.Background())
	events, err := kube.Watch(ctx, &corev1.PodList{}, client.InNamespace(namespace), selected)
	if err != nil {
		stop()
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for event := range events.ResultChan() {
			r.note(event)
		}
	}()
	t.Cleanup(func() {
		events.Stop()
		stop()
		<-ended
	})
	return r
}

func (r *record) note(event watch.Event) {
	pod, ok := event.Object.(*corev1.Pod)
	if !ok {
		return
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.pods[pod.UID] = *pod
	r.gone[pod.UID] = event.Type == watch.Deleted
}

// untold returns what the watch has not shown yet: it should show the end of that many pods or more. A list may show it
// earlier.
func (r *record) untold(count int) (string, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if len(r.pods) < count {
		return fmt.Sprintf("%d runner pods were seen, want %d", len(r.pods), count), nil
	}
	for uid, pod := range r.pods {
		if !r.gone[uid] {
			return "the end of " + pod.Name, nil
		}
	}
	return "", nil
}

// all returns the pods that have been seen, gone or not.
func (r *record) all() []corev1.Pod {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	pods := make([]corev1.Pod, 0, len(r.pods))
	for _, pod := range r.pods {
		pods = append(pods, pod)
	}
	return pods
}
