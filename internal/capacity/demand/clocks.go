package demand

import (
	"slices"
	"time"
)

// DefaultScaleDownDelay passes before a runner that is too many goes, unless the set says otherwise.
const DefaultScaleDownDelay = 30 * time.Second

// Surplus has a clock for each runner that is too many: more than i runners have been too many since the time in
// element i. Nil has no clocks; after a restart all of them begin anew.
type Surplus []time.Time

// Next returns the clocks when n runners are too many, the number of those that have been too many for the whole delay,
// and the time at which the next one will have been; zero means never. figuresAt is the time of GitHub's last figures:
// figures from before the end of the delay remove nothing.
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

// TooOld returns the index of the idle runner that is to be replaced because it has been idle for maxIdle or, if there
// is none, the time at which there will be one; zero means never. idleSince has the time since which each runner has
// been idle. They are replaced one by one: only while settled, that is while no runner is missing, starting or leaving.
// maxIdle 0 replaces none.
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
