package reconcile_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/harrier-ci/harrier/internal/reconcile"
)

func TestWakerNeverBlocks(t *testing.T) {
	var waker reconcile.Waker
	object := types.NamespacedName{Name: "object"}
	waker.Wake(object) // before the controller has started
	queue := workqueue.NewTypedRateLimitingQueue(reconcile.ControllerOptions(1).RateLimiter)
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
	limiter := reconcile.ControllerOptions(1).RateLimiter
	var last time.Duration
	for range 50 {
		last = limiter.When(ctrl.Request{})
	}
	if last != 30*time.Second {
		t.Errorf("pause %s after 50 failures, want %s", last, 30*time.Second)
	}
}
