package listener

import (
	"math/rand/v2"
	"time"
)

// backoff counts failures in a row and doubles the pause with each.
type backoff struct {
	initial, max time.Duration
	failures     int
}

// next counts a failure and returns how long to wait: initial·2ⁿ after n earlier failures, at most max, and of that a random
// part between half and all, so that listeners that lost the same server do not return at the same time.
func (b *backoff) next() time.Duration {
	const doublings = 20 // keeps the shift from overflowing: 1 ms becomes 17 min, more than any max
	pause := min(b.initial<<min(b.failures, doublings), b.max)
	b.failures++
	return pause/2 + rand.N(pause/2+1) //nolint:gosec // pauses need no secrecy
}

func (b *backoff) reset() { b.failures = 0 }
