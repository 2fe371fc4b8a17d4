package kube

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestExpectations(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(100, 0))
	expectations := NewExpectations(clock)
	owner, other := types.NamespacedName{Name: "owner"}, types.NamespacedName{Name: "other"}
	expectations.Expect(owner, "a", "b")
	expectations.Expect(other, "c")
	if got := expectations.Pending(owner); len(got) != 2 || !got["a"].Equal(clock.Now()) {
		t.Errorf("pending %v", got)
	}
	expectations.Met(owner, "a")
	expectations.Met(owner, "never expected")
	if got := expectations.Pending(owner); len(got) != 1 {
		t.Errorf("pending %v, want b", got)
	}
	expectations.Met(owner, "b")
	expectations.Forget(other)
	if len(expectations.names) != 0 {
		t.Errorf("remembered still: %v", expectations.names)
	}
}

func TestForEachIsBoundedAndComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most, done atomic.Int32
		failure := errors.New("third")
		items := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
		err := ForEach(t.Context(), 3, items, func(_ context.Context, item int) error {
			most.Store(max(most.Load(), running.Add(1)))
			<-time.After(time.Second)
			running.Add(-1)
			done.Add(1)
			if item == 3 {
				return failure
			}
			return nil
		})
		if !errors.Is(err, failure) || done.Load() != 10 || most.Load() != 3 {
			t.Errorf("ForEach() = %v, %d done, %d at once", err, done.Load(), most.Load())
		}
	})
}

func TestForEachDoesNotTellTheSameAThousandTimes(t *testing.T) {
	refused := errors.New("refused")
	err := ForEach(t.Context(), 4, make([]int, 1000), func(context.Context, int) error { return refused })
	if want := "refused\nrefused\nrefused\nand 997 more"; !errors.Is(err, refused) || err.Error() != want {
		t.Errorf("ForEach() = %q, want %q", err, want)
	}
}

func TestForEachEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var done atomic.Int32
	err := ForEach(ctx, 1, make([]int, 100), func(context.Context, int) error {
		done.Add(1)
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) || done.Load() > 3 {
		t.Errorf("ForEach() = %v after %d items", err, done.Load())
	}
	if err := ForEach(t.Context(), 4, nil, func(context.Context, int) error { return nil }); err != nil {
		t.Errorf("ForEach() of nothing = %v", err)
	}
}

func TestOlder(t *testing.T) {
	for _, test := range []struct {
		have, written string
		want          bool
	}{
		{"9", "10", true}, {"10", "10", false}, {"11", "10", false}, {"9", "", false}, {"", "10", false}, {"x", "10", false},
	} {
		object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: test.have}}
		if got := Older(object, test.written); got != test.want {
			t.Errorf("Older(%q, %q) = %t", test.have, test.written, got)
		}
	}
}

func TestWakerNeverBlocks(t *testing.T) {
	var waker Waker
	object := types.NamespacedName{Name: "object"}
	waker.Wake(object) // before the controller has started
	queue := workqueue.NewTypedRateLimitingQueue(BackOff())
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
	limiter := BackOff()
	var last time.Duration
	for range 50 {
		last = limiter.When(reconcile.Request{})
	}
	if last != longestPause {
		t.Errorf("pause %s after 50 failures, want %s", last, longestPause)
	}
}
