package actions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
)

const (
	// maxBodyBytes limits an answer. A JIT config, the largest that a manager reads, has about 6 kB.
	maxBodyBytes = 1 << 20
	// maxMessageBytes limits a message of the queue. One with 50 entries is about 100 kB.
	maxMessageBytes = 16 << 20
	// maxFailureBytes is how much is read of an answer that is no success. Of a longer one its status is enough.
	maxFailureBytes = FirstBytes
	// FirstBytes is what every answer gets at once, beside the budget: more than all answers of an ordinary GitHub but long lists and
	// messages. So servers that announce much and send nothing, or that have used up the budget, delay no ordinary answer.
	FirstBytes = 32 << 10
)

// Budget limits the bytes of answers above FirstBytes that are in memory at the same time, for all clients that share it. An answer
// that has to wait for its turn keeps the deadline of its call. Decoding needs about four times as much for a moment.
type Budget struct {
	total, perClient int64

	mu       sync.Mutex
	used     int64
	byClient map[*Client]int64
	// waiting are in the order in which they asked.
	waiting []*reservation
}

// NewBudget returns a budget of which one client gets at most perClient bytes. That is also the size of the largest answer that a
// client accepts.
func NewBudget(total, perClient int64) *Budget {
	return &Budget{total: total, perClient: min(perClient, total), byClient: map[*Client]int64{}}
}

// reservation is a part of the budget that one call holds.
type reservation struct {
	client *Client
	held   int64
	// wanted is how much more it waits for, and granted is closed when it has that.
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
	if b.byClient[r.client] -= r.held; b.byClient[r.client] == 0 {
		delete(b.byClient, r.client)
	}
	r.held = 0
	b.grant()
}

// grant serves whoever waits, in order. A client that has used up its share holds up nobody else; a large answer for which the
// budget has no room holds up those behind it, so that small ones can't keep it waiting forever. The caller holds the lock.
func (b *Budget) grant() {
	var left []*reservation
	full := false
	for _, r := range b.waiting {
		share := b.byClient[r.client]+r.wanted <= b.perClient
		full = full || share && b.used+r.wanted > b.total
		if full || !share {
			left = append(left, r)
			continue
		}
		b.used += r.wanted
		b.byClient[r.client] += r.wanted
		r.held += r.wanted
		close(r.granted)
	}
	b.waiting = left
}

// limit returns how many bytes of an answer are read at most.
func (b *Budget) limit(wanted int64) int64 {
	if b == nil {
		return wanted
	}
	return min(wanted, b.perClient)
}

// errTooLarge is a kind of ErrTruncated: the answer is not read to its end.
var errTooLarge = errors.New("it is too large")

// tooLargeError says how large an answer may be. It has the ID of a message, which must be deleted: the queue would never get past
// it.
type tooLargeError struct {
	// limit is what is allowed, size what the server announced, or -1.
	limit, size int64
	messageID   int64
}

func (e *tooLargeError) Error() string {
	if e.size > e.limit {
		return fmt.Sprintf("%v: it has %d bytes, and more than %d are not read", ErrTruncated, e.size, e.limit)
	}
	return fmt.Sprintf("%v: more than %d bytes are not read", ErrTruncated, e.limit)
}

func (e *tooLargeError) Unwrap() []error { return []error{ErrTruncated, errTooLarge} }

// readBody reads an answer. If it has more than FirstBytes, it counts against the budget until the next answer of the exchange is read,
// or until the exchange's memory is freed. The budget is asked once, when that many bytes have really come: what a server announces
// costs nobody anything, and as nobody waits while holding a part of the budget, calls can't wait for each other.
func (x *exchange) readBody(ctx context.Context, answer *http.Response) ([]byte, error) {
	x.free()
	success := answer.StatusCode/100 == 2
	limit, expected := x.client.budget.limit(x.request.maxBody()), answer.ContentLength
	if !success {
		limit = maxFailureBytes
	}
	switch {
	case success && expected > limit && x.request.endpoint != EndpointGetMessage: // the beginning of a message has its ID
		return nil, &tooLargeError{limit: limit, size: expected}
	case expected < 0:
		expected = limit
	}
	expected = min(expected, limit)
	body := make([]byte, 0, min(expected, FirstBytes)+1) // with room to notice the end
	for rest := io.LimitReader(answer.Body, limit+1); ; {
		if len(body) == cap(body) {
			if err := x.reserve(ctx, expected); err != nil {
				return nil, err
			}
			body = slices.Grow(body, len(body))
		}
		n, err := rest.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case err == nil:
			continue
		case !errors.Is(err, io.EOF):
			return nil, fmt.Errorf("%w: %w", ErrTruncated, err)
		case int64(len(body)) <= limit:
			return body, nil
		case !success:
			return body[:limit], nil
		}
		return nil, &tooLargeError{limit: limit, size: answer.ContentLength, messageID: messageIDIn(body)}
	}
}

// maxBody returns how large a success may be.
func (r *request) maxBody() int64 {
	if r.endpoint == EndpointGetMessage {
		return maxMessageBytes
	}
	return maxBodyBytes
}

// reserve waits until the budget has room for so many bytes of an answer.
func (x *exchange) reserve(ctx context.Context, size int64) error {
	x.memory.client = x.client
	return x.client.budget.raise(ctx, &x.memory, size)
}

// free gives the memory of the last answer back to the budget. It may be called again.
func (x *exchange) free() { x.client.budget.free(&x.memory) }
