package manager

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

var errBroken = errors.New("broken")

// These tests are inside of the package: time passes for them in bubbles, which have no network.

// controller-runtime's Start ignores its context while caches can't be filled. The pod's grace (10 s in the chart) is
// for ending by itself.
func TestAManagerThatDoesNotHeedItsContextEnds(t *testing.T) {
	for name, test := range map[string]struct {
		takes time.Duration
		fails error
		want  error
		after time.Duration
	}{
		"at once":          {0, nil, nil, 0},
		"after its grace":  {8 * time.Second, nil, nil, 8 * time.Second},
		"with an error":    {time.Second, errBroken, errBroken, time.Second},
		"not by itself":    {time.Hour, nil, errNotStopped, 9 * time.Second},
		"not, and failing": {time.Hour, errBroken, errNotStopped, 9 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				time.AfterFunc(time.Minute, stop)
				defer func() { <-time.After(test.takes) }() // no goroutine may outlive the bubble
				begun := time.Now()
				err := runUntilStopped(ctx, nil, func(ctx context.Context) error {
					<-ctx.Done()
					<-time.After(test.takes)
					return test.fails
				})
				if after := time.Since(begun) - time.Minute; !errors.Is(err, test.want) ||
					(err == nil) != (test.want == nil) || after != test.after {
					t.Errorf(
						"ended %s after it was asked to, with %v; want %s and %v",
						after, err, test.after, test.want,
					)
				}
			})
		})
	}
}

func TestAManagerThatFailsEndsAtOnce(t *testing.T) {
	err := runUntilStopped(t.Context(), nil, func(context.Context) error { return errBroken })
	if !errors.Is(err, errBroken) {
		t.Errorf("got %v, want what it failed with", err)
	}
}

// What a manager was doing when its Lease was lost fails at the same moment.
func TestALostLeaseIsTheCauseOfWhateverElseFails(t *testing.T) {
	for range 100 { // of two that are ready, Go takes either
		lost := make(chan struct{})
		err := runUntilStopped(t.Context(), lost, func(context.Context) error {
			close(lost)
			return errBroken
		})
		if !errors.Is(err, errLeaseLost) {
			t.Fatalf("got %v, want the lost Lease", err)
		}
	}
}

// Its grace would overlap with the work of the next leader, which may begin 2 s later.
func TestAManagerThatLostItsLeaseIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := make(chan struct{})
		time.AfterFunc(time.Minute, func() { close(lost) })
		defer func() { <-time.After(time.Hour) }() // no goroutine may outlive the bubble
		begun := time.Now()
		var stopped error
		err := runUntilStopped(t.Context(), lost, func(ctx context.Context) error {
			<-ctx.Done()
			stopped = ctx.Err()
			<-time.After(8 * time.Second)
			return nil
		})
		if after := time.Since(begun); !errors.Is(err, errLeaseLost) || after != time.Minute {
			t.Errorf("ended after %s with %v", after, err)
		}
		synctest.Wait()
		if stopped == nil {
			t.Error("its calls to GitHub go on")
		}
	})
}
