// Package wallclock is the clock that the programs give to everything that asks for the time. It is the machine's,
// except in programs built for test/rig, whose clock can be set wrong: the clocks of nodes, of the API server and of
// GitHub do differ.
package wallclock

import (
	"time"

	"k8s.io/utils/clock"
)

// Clock is a clock with timers.
type Clock = clock.WithTickerAndDelayedExecution

// ahead is a clock that is wrong by a constant. Its timers last as long as those of any other clock.
type ahead struct {
	clock.RealClock
	by time.Duration
}

func (a ahead) Now() time.Time { return a.RealClock.Now().Add(a.by) }

func (a ahead) Since(t time.Time) time.Duration { return a.Now().Sub(t) }
