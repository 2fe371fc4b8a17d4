package fakenode

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// A manager that is killed while it deletes a pod leaves the pod with a grace period of zero, and nobody but its node
// removes it.
func TestANodeRemovesAPodWhoseDeletionWasInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "n", Name: "runner", UID: "u", DeletionTimestamp: new(metav1.Now()),
				DeletionGracePeriodSeconds: new(int64(0)),
			},
			Spec:   corev1.PodSpec{NodeName: "fake-node"},
			Status: corev1.PodStatus{Phase: corev1.PodSucceeded},
		}
		clientset := fake.NewClientset(pod)
		node := &Node{options: Options{}.withDefaults(), clientset: clientset, directory: t.TempDir(),
			writes: make(chan struct{}, 1)}
		ctx, stop := context.WithCancel(t.Context())
		defer node.playing.Wait()
		defer stop()
		node.playing.Go(newPlayer(ctx, node, pod).play)
		synctest.Wait()
		if got := deletions(clientset); got != 0 {
			t.Errorf("the node deletes the pod at once, but the API server may be about to")
		}
		<-time.After(removalTimeout)
		synctest.Wait()
		if got := deletions(clientset); got != 1 {
			t.Errorf("the node deletes the pod %d times, want once", got)
		}
	})
}

func deletions(clientset *fake.Clientset) int {
	count := 0
	for _, action := range clientset.Actions() {
		if action.GetVerb() == "delete" {
			count++
		}
	}
	return count
}
