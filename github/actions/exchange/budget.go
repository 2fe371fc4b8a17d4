package exchange

import (
	"context"
	"slices"
	"sync"
)

// Budget limits the bytes of answers above FirstBytes that are in memory at the same time, for all callers that share
// it. An answer that has to wait for its turn keeps the deadline of its call. Decoding needs about four times as much
// for a moment.
type Budget struct {
	total, perOwner int64

	mu      sync.Mutex
	used    int64
	byOwner map[any]int64
	// waiting are in the order in which they asked.
	waiting []*reservation
}

// NewBudget returns a budget of which one owner gets at most perOwner bytes. That is also the size of the largest answer
// that a caller accepts.
func NewBudget(total, perOwner int64) *Budget {
	return &Budget{total: total, perOwner: min(perOwner, total), byOwner: map[any]int64{}}
}

// reservation is a part of the budget that one call holds.
type reservation struct {
	owner any
	held  int64
	// wanted is the number of bytes for which it still waits, and granted is closed when it has them.
	wanted  int64
	granted chan struct{}
}

// raise waits until the reservation holds size bytes.
func (b *Budget) raise(ctx context.Context, r *reservation, size int64) error {
	if b == nil || size <= r.held {
		return nil
	}
	granted := make(chan struct{})
	b.mu.Lock()
	r.wanted, r.granted = size-r.held, granted
	b.waiting = append(b.waiting, r)
	b.grant()
	b.mu.Unlock()
	select {
	case <-granted:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = slices.DeleteFunc(b.waiting, func(other *reservation) bool { return other == r })
	b.grant() // whoever came later may have waited only behind this one
	return context.Cause(ctx)
}

// free gives back what the reservation holds.
func (b *Budget) free(r *reservation) {
	if b == nil || r.held == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= r.held
	if b.byOwner[r.owner] -= r.held; b.byOwner[r.owner] == 0 {
		delete(b.byOwner, r.owner)
	}
	r.held = 0
	b.grant()
}

// grant serves whoever waits, in order. An owner that has used up its share holds up nobody else; a large answer for
// which the budget has no room holds up the answers behind it, so that small ones can't keep it waiting forever. It
// needs the lock.
func (b *Budget) grant() {
	var left []*reservation
	full := false
	for _, r := range b.waiting {
		share := b.byOwner[r.owner]+r.wanted <= b.perOwner
		full = full || (share && b.used+r.wanted > b.total)
		if full || !share {
			left = append(left, r)
			continue
		}
		b.used += r.wanted
		b.byOwner[r.owner] += r.wanted
		r.held += r.wanted
		close(r.granted)
	}
	b.waiting = left
}
