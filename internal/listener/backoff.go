package listener

import (
	"math/rand/v2"
	"time"
)

// backoff doubles its pause with every failure in a row.
type backoff struct {
	first, most time.Duration
	failures    int
}

// next counts a failure and returns how long to wait: first·2ⁿ, at most most, of which a random half, because
// listeners that lost the same server must not come back together.
func (b *backoff) next() time.Duration {
	const doublings = 20 // of a first pause of 1 ms that is 17 min, more than any most
	pause := min(b.first<<min(b.failures, doublings), b.most)
	b.failures++
	return pause/2 + rand.N(pause/2+1)
}

func (b *backoff) reset() { b.failures = 0 }
