package listener

import (
	"testing"
	"time"

	"k8s.io/utils/clock"
)

// askedClock records the times whose age is asked for.
type askedClock struct {
	clock.RealClock
	about []time.Time
}

func (c *askedClock) Since(t time.Time) time.Duration {
	c.about = append(c.about, t)
	return c.RealClock.Since(t)
}

// A change of the wall clock must not change what the probes say: that is what the monotonic reading in a time is for.
func TestHealthKeepsTheMonotonicClock(t *testing.T) {
	clk := &askedClock{}
	h := &health{clock: clk}
	now := time.Now()
	h.turned(now)
	h.polled(now)
	if err := h.alive(); err != nil {
		t.Error(err)
	}
	if err := h.ready(); err != nil {
		t.Error(err)
	}
	for _, about := range clk.about {
		if about != now { // Equal would compare wall clock readings
			t.Errorf("the age of %s is asked for, want that of %s", about, now)
		}
	}
	if len(clk.about) != 2 {
		t.Errorf("asked %d times, want twice", len(clk.about))
	}
}
