package errand

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
)

// now is any time.
var now = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func TestPausesGrowUntilASuccess(t *testing.T) {
	e := New(time.Second, 15*time.Second)
	pause := func() time.Duration {
		e.Pause(now)
		return e.NotBefore.Sub(now)
	}
	for i, full := range []time.Duration{1, 2, 4, 8, 15, 15} {
		if got := pause(); got < full*time.Second/2 || got > full*time.Second {
			t.Errorf("pause %d = %s, want between %s and %s", i, got, full*time.Second/2, full*time.Second)
		}
	}
	for range 1000 {
		if got := pause(); got > 15*time.Second || got < 7*time.Second {
			t.Fatalf("pause after many failures = %s", got)
		}
	}
	e.Succeed()
	if got := pause(); got > time.Second {
		t.Errorf("pause after a success = %s", got)
	}
	e.Pause(now)
	e.ResetPauses()
	if got := pause(); got > time.Second {
		t.Errorf("pause after a reset = %s", got)
	}
}

// An attempt is under way from its beginning to its end, whatever else is learned meanwhile.
func TestOnlyTheEndEndsAnAttempt(t *testing.T) {
	e := New(time.Second, time.Minute)
	e.Begin()
	e.Pause(now)
	e.Succeed()
	_ = e.Fail(errors.New("broken"), now)
	if !e.UnderWay {
		t.Error("the attempt ended before its end")
	}
	e.End()
	if e.UnderWay {
		t.Error("the attempt has not ended")
	}
}

// What GitHub asks for counts if it is longer than the errand's own pause, and the cause of the failure keeps its
// beginning.
func TestAFailureWaitsAsLongAsGitHubAsks(t *testing.T) {
	for name, test := range map[string]struct {
		err         error
		least, most time.Duration
	}{
		"an error": {errors.New("broken"), 500 * time.Millisecond, time.Second},
		"a long limit": {
			&actions.RateLimitedError{Until: now.Add(time.Hour), Err: errors.New("slow down")}, time.Hour,
			time.Hour + longestSpread,
		},
		"a short limit": {
			&actions.RateLimitedError{Until: now.Add(2 * time.Second), Err: errors.New("slow down")}, 2 * time.Second,
			4 * time.Second,
		},
		"a limit that ends at once": {
			&actions.RateLimitedError{Until: now.Add(time.Millisecond), Err: errors.New("slow down")},
			500 * time.Millisecond, time.Second,
		},
		"a limit without an end": {
			&actions.RateLimitedError{Assumed: true, Until: now.Add(time.Hour), Err: errors.New("slow down")},
			500 * time.Millisecond, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			e := New(time.Second, time.Minute)
			if err := e.Fail(test.err, now); !errors.Is(err, test.err) {
				t.Errorf("%v hides %v", err, test.err)
			}
			if got := e.NotBefore.Sub(now); got < test.least || got > test.most {
				t.Errorf("the next attempt waits %s, want %s to %s", got, test.least, test.most)
			}
			_ = e.Remember(test.err, now.Add(time.Minute))
			if e.Failure == nil || !e.Failure.FirstAt.Equal(now) {
				t.Errorf("failure = %+v, want it since %s", e.Failure, now)
			}
			if e.Succeed(); e.Failure != nil {
				t.Error("it still fails after a success")
			}
		})
	}
}

// 200 listeners that share a GitHub App are limited together and are told the same end. Each waits for it, and they
// come back one by one.
func TestListenersDoNotReturnTogether(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	limit := &actions.RateLimitedError{Until: now.Add(time.Minute), Err: errors.New("slow down")}
	inSecond := map[time.Duration]int{}
	for range 200 {
		e := New(time.Second, time.Minute)
		e.random = func(most time.Duration) time.Duration { return time.Duration(random.Int64N(int64(most) + 1)) }
		_ = e.Fail(limit, now)
		inSecond[e.NotBefore.Sub(limit.Until).Truncate(time.Second)]++
	}
	for second, count := range inSecond {
		if second < 0 || second >= longestSpread || count > 20 {
			t.Errorf(
				"%d of 200 listeners return %s after the limit's end; want 7 a second for %s",
				count, second, longestSpread,
			)
		}
	}
}
