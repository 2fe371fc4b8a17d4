package demand

import (
	"slices"
	"time"
)

// DefaultScaleDownDelay passes before a runner that is too many goes, unless the set says otherwise.
const DefaultScaleDownDelay = 30 * time.Second

// Surplus has a clock for each runner that is too many: more than i have been too many since element i. Nil has no
// clocks; after a restart all of them begin anew.
type Surplus []time.Time

// Next returns the clocks when n runners are too many, how many of these have been so for the whole delay, and when the
// next one will have been; zero means never. GitHub told its figures last at figuresAt: those from before the end of
// the delay remove nothing.
func (s Surplus) Next(n int, delay time.Duration, figuresAt, now time.Time) (next Surplus, due int, at time.Time) {
	n = max(0, n)
	next = slices.Clone(s[:min(n, len(s))]) // the youngest stop first
	for len(next) < n {
		next = append(next, now)
	}
	for _, since := range next {
		switch end := since.Add(delay); {
		case now.Before(end):
			return next, due, end
		case !figuresAt.Before(end):
			due++
		}
	}
	return next, due, time.Time{}
}

// TooOld returns the index of the idle runner that is to be replaced because it has been idle for maxIdle, and when
// there will be one; zero means never. Each has been idle since its element of idleSince. They are replaced one by one:
// only while settled, that is while no runner is missing, starting or leaving. maxIdle 0 replaces none.
func TooOld(
	idleSince []time.Time, settled bool, maxIdle time.Duration, now time.Time,
) (index int, found bool, at time.Time) {
	if maxIdle <= 0 || len(idleSince) == 0 || !settled {
		return 0, false, time.Time{} // the set is planned again when it has settled
	}
	for i, since := range idleSince {
		if since.Before(idleSince[index]) {
			index = i
		}
	}
	if end := idleSince[index].Add(maxIdle); now.Before(end) {
		return 0, false, end
	}
	return index, true, time.Time{}
}
