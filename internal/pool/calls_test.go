package pool_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/internal/pool"
)

func TestCallsRunOncePerKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var done []string
		calls := pool.NewCalls[string, int](run(t, 2), clock.RealClock{}, func(key string) { done = append(done, key) })
		call := func(context.Context) (int, error) { <-time.After(time.Second); return 7, nil }
		if last, known := calls.Last("a"); known {
			t.Errorf("Last() = %+v before the first call", last)
		}
		if !calls.Go("set", "a", call) || calls.Go("set", "a", call) {
			t.Fatal("want the first call accepted and the second, while the first runs, refused")
		}
		if last, known := calls.Last("a"); !known || !last.Running() {
			t.Errorf("Last() = %+v, %t while the call runs", last, known)
		}
		if _, ended := calls.Take("a"); ended {
			t.Error("a call that runs is taken")
		}
		<-time.After(2 * time.Second)
		synctest.Wait()
		last, _ := calls.Last("a")
		if last.Running() || last.Result != 7 || last.Err != nil || len(done) != 1 {
			t.Errorf("Last() = %+v, done = %v", last, done)
		}
		if taken, ended := calls.Take("a"); !ended || taken.Result != 7 {
			t.Errorf("Take() = %+v, %t", taken, ended)
		}
		if _, again := calls.Take("a"); again {
			t.Error("an answer is taken twice")
		}
	})
}

// The memory of one object begins empty, and is empty after it was forgotten.
func TestLastRemembersNothingAtFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var last pool.Last[int]
		nothing := func(when string) {
			t.Helper()
			if call, known := last.Get(); known || call.Result != 0 {
				t.Errorf("%s: Get() = %+v, %t", when, call, known)
			}
			if call, ended := last.Take(); ended || call.Result != 0 {
				t.Errorf("%s: Take() = %+v, %t", when, call, ended)
			}
		}
		nothing("at first")
		call := func(context.Context) (int, error) { return 7, nil }
		if !last.Go(run(t, 2), clock.RealClock{}, "set", call, func() {}) {
			t.Error("the first call is refused")
		}
		synctest.Wait()
		if call, known := last.Get(); !known || call.Result != 7 {
			t.Errorf("Get() = %+v, %t after the call", call, known)
		}
		last.Forget()
		nothing("when it is forgotten")
	})
}

func TestCallsCountFailuresInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := pool.NewCalls[string, int](run(t, 2), clock.RealClock{}, func(string) {})
		outcomes := []error{errors.New("first"), errors.New("second"), nil}
		for i, want := range []int{1, 2, 0} {
			calls.Go("set", "a", func(context.Context) (int, error) { return 0, outcomes[i] })
			synctest.Wait()
			if last, _ := calls.Last("a"); last.Failures != want {
				t.Errorf("after call %d: %d failures, want %d", i+1, last.Failures, want)
			}
		}
	})
}

func TestCallsForgottenResultIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := pool.NewCalls[string, int](run(t, 2), clock.RealClock{}, func(string) {})
		calls.Go("set", "a", func(context.Context) (int, error) { <-time.After(time.Second); return 1, nil })
		calls.Forget("a")
		calls.Go("set", "a", func(context.Context) (int, error) { <-time.After(time.Minute); return 2, nil })
		<-time.After(10 * time.Second)
		synctest.Wait()
		if last, known := calls.Last("a"); !known || !last.Running() {
			t.Errorf("Last() = %+v: the forgotten call's end was taken for the new one's", last)
		}
	})
}
