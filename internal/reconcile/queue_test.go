package reconcile

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
)

func TestWakerNeverBlocks(t *testing.T) {
	var waker Waker
	object := types.NamespacedName{Name: "object"}
	waker.Wake(object) // before the controller has started
	queue := workqueue.NewTypedRateLimitingQueue(backOff())
	defer queue.ShutDown()
	if err := waker.Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	for range 10_000 {
		waker.Wake(object)
	}
	if queue.Len() != 1 {
		t.Errorf("%d requests queued, want 1", queue.Len())
	}
}

func TestBackOffIsBounded(t *testing.T) {
	limiter := backOff()
	var last time.Duration
	for range 50 {
		last = limiter.When(ctrl.Request{})
	}
	if last != longestBackoff {
		t.Errorf("pause %s after 50 failures, want %s", last, longestBackoff)
	}
}
