package manager

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

var errBroken = errors.New("broken")

// controller-runtime's Start ignores its context while caches can't be filled.
func TestAManagerThatDoesNotHeedItsContextEnds(t *testing.T) {
	for name, test := range map[string]struct {
		takes time.Duration
		fails error
		want  error
		after time.Duration
	}{
		"at once":          {0, nil, nil, 0},
		"after its grace":  {shutdownGrace, nil, nil, shutdownGrace},
		"with an error":    {time.Second, errBroken, errBroken, time.Second},
		"not by itself":    {time.Hour, nil, errNotStopped, stopLimit},
		"not, and failing": {time.Hour, errBroken, errNotStopped, stopLimit},
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
			<-time.After(shutdownGrace)
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

// The pod's grace (10 s in the chart) is for ending by itself.
func TestTheManagerEndsWithinThePodsGrace(t *testing.T) {
	if stopLimit <= shutdownGrace || stopLimit >= 10*time.Second {
		t.Errorf("stopLimit = %s, want it between %s and 10 s", stopLimit, shutdownGrace)
	}
}
