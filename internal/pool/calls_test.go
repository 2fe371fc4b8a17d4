package pool

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

func TestCallsRunOncePerKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var done []string
		calls := NewCalls[string, int](run(t, 2), clock.RealClock{}, func(key string) { done = append(done, key) })
		call := func(context.Context) (int, error) { <-time.After(time.Second); return 7, nil }
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

func TestCallsCountFailuresInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := NewCalls[string, int](run(t, 2), clock.RealClock{}, func(string) {})
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
		calls := NewCalls[string, int](run(t, 2), clock.RealClock{}, func(string) {})
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
