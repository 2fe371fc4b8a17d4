package kube_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/harrier-ci/harrier/internal/kube"
)

func TestForEachIsBoundedAndComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most, done atomic.Int32
		failure := errors.New("third")
		items := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
		err := kube.ForEach(t.Context(), 3, items, func(_ context.Context, item int) error {
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
	err := kube.ForEach(t.Context(), 4, make([]int, 1000), func(context.Context, int) error { return refused })
	if want := "refused\nrefused\nrefused\nand 997 more"; !errors.Is(err, refused) || err.Error() != want {
		t.Errorf("ForEach() = %q, want %q", err, want)
	}
}

func TestForEachEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var done atomic.Int32
	err := kube.ForEach(ctx, 1, make([]int, 100), func(context.Context, int) error {
		done.Add(1)
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) || done.Load() > 3 {
		t.Errorf("ForEach() = %v after %d items", err, done.Load())
	}
	if err := kube.ForEach(t.Context(), 4, nil, func(context.Context, int) error { return nil }); err != nil {
		t.Errorf("ForEach() of nothing = %v", err)
	}
}

func TestEarlierOfTwoMoments(t *testing.T) {
	var never time.Time
	soon := time.Now()
	late := soon.Add(time.Second)
	for name, test := range map[string]struct{ a, b, want time.Time }{
		"the first":          {soon, late, soon},
		"the second":         {late, soon, soon},
		"never is no moment": {never, late, late},
		"on either side":     {late, never, late},
		"never at all":       {never, never, never},
	} {
		if got := kube.EarlierOf(test.a, test.b); !got.Equal(test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
