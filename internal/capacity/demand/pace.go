package demand

import (
	"math"
	"time"
)

// A start counts for paceSeconds: a minute, and the second in which it was.
const paceSeconds = 61

// Pace counts the runners that were started in the last minute, so that there are never more than allowed in any
// minute. The zero value has none. After a restart the starts are the creations of the existing runners.
type Pace struct {
	starts [paceSeconds]struct {
		second int64
		n      int
	}
}

// Start counts n runners that are, or were, started at the given time. Runners from before the last minute are not
// counted, and runners whose creation is in the future, because clocks differ, count as started now.
func (p *Pace) Start(n int, at, now time.Time) {
	second := min(at.Unix(), now.Unix())
	if !counts(second, now) {
		return
	}
	entry := &p.starts[(second%paceSeconds+paceSeconds)%paceSeconds]
	if entry.second != second {
		entry.second, entry.n = second, 0
	}
	entry.n += n
}

// Allowed returns the number of runners that may still be started, and the time at which it grows; zero means that
// nothing was counted. perMinute 0 allows any number.
func (p *Pace) Allowed(perMinute int, now time.Time) (n int, more time.Time) {
	if perMinute <= 0 {
		return math.MaxInt, time.Time{}
	}
	n = perMinute
	for _, entry := range p.starts {
		if entry.n == 0 || !counts(entry.second, now) {
			continue
		}
		n -= entry.n
		if over := time.Unix(entry.second+paceSeconds, 0); more.IsZero() || over.Before(more) {
			more = over
		}
	}
	return max(0, n), more
}

// counts reports whether a start in that second is within a minute before now or, if the clock has been put back, after
// now.
func counts(second int64, now time.Time) bool {
	ago := now.Unix() - second
	return -paceSeconds < ago && ago < paceSeconds
}
