package figures_test

import (
	"testing"
	"time"

	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/figures"
)

const grace = 10 * time.Minute

// figures that are seen one after the other, a minute apart.
type history struct {
	doubt figures.Doubt
	now   time.Time
}

func (h *history) see(seen figures.Evidence) *history {
	h.now = h.now.Add(time.Minute)
	h.doubt, _ = h.doubt.Next(seen, grace, h.now)
	return h
}

func (h *history) seeFor(d time.Duration, seen figures.Evidence) *history {
	for range d / time.Minute {
		h.see(seen)
	}
	return h
}

func TestJobsThatWaitBesideIdleRunnersAreDoubted(t *testing.T) {
	for name, test := range map[string]struct {
		then func(*history)
		want int
	}{
		"for less than the grace": {func(h *history) { h.seeFor(grace, figures.Evidence{Waiting: 3, Idle: 2}) }, 0},
		"for so long":             {func(h *history) { h.seeFor(grace+time.Minute, figures.Evidence{Waiting: 3, Idle: 2}) }, 3},
		"beside no idle runner":   {func(h *history) { h.seeFor(24*time.Hour, figures.Evidence{Waiting: 3}) }, 0},
		"until the figures move": {func(h *history) {
			h.seeFor(grace+time.Minute, figures.Evidence{Waiting: 3, Idle: 2}).seeFor(2*time.Minute,
				figures.Evidence{Waiting: 1, Idle: 2})
		}, 0},
		"and jobs start": {func(h *history) {
			// one for each idle runner is doubted: the others may only have runners that hang
			h.see(figures.Evidence{Waiting: 5, Idle: 2}).
				seeFor(grace, figures.Evidence{Waiting: 5, Idle: 2, Started: 1})
		}, 2},
	} {
		h := &history{now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
		if test.then(h); h.doubt.Jobs != test.want {
			t.Errorf("%s: %d jobs are doubted, want %d", name, h.doubt.Jobs, test.want)
		}
	}
}
