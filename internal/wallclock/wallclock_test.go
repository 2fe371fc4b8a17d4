//go:build !rig

package wallclock

import (
	"testing"
	"testing/synctest"
	"time"
)

// A clock that is wrong agrees with itself, and its timers are right.
func TestClockThatIsAhead(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			clock, right := ahead{by: by}, time.Now()
			began := clock.Now()
			if off := began.Sub(right); off != by {
				t.Errorf("the clock is ahead by %s, want %s", off, by)
			}
			<-clock.After(time.Minute)
			if took := clock.Since(began); took != time.Minute {
				t.Errorf("a minute took %s by the clock that is ahead by %s", took, by)
			}
			if took := time.Since(right); took != time.Minute {
				t.Errorf("a minute took %s", took)
			}
		})
	}
}

// What is shipped has the machine's clock, whatever the environment says.
func TestShippedClock(t *testing.T) {
	t.Setenv("RIG_CLOCK_OFFSET", "1h")
	if off := time.Until(System().Now()).Abs(); off > time.Minute {
		t.Errorf("the clock is off by %s", off)
	}
}
