package credentials

import (
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// results remembers what was read, and lets concurrent callers for the same key share one read.
type results struct {
	flights singleflight.Group

	mu      sync.Mutex
	entries map[sourceKey]*result
	swept   time.Time
}

// result is the outcome of reads for one key.
type result struct {
	// resolved is the last good outcome, nil before the first, and goodAt is when it was read.
	resolved *Resolved
	goodAt   time.Time
	// err is the error of the last read, nil if it succeeded, and readAt is when that was.
	err    error
	readAt time.Time
	// invalid asks for a read as soon as RetryAfter allows.
	invalid bool
	// edition is how often what is named was known to have changed. A read that began in an earlier one doesn't count.
	edition int
	usedAt  time.Time
}

// get returns what is known, and false if it must be read (again), for the edition.
func (r *results) get(key sourceKey, now time.Time) (resolved *Resolved, fresh bool, edition int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sweep(now)
	entry, known := r.entries[key]
	if !known {
		return nil, false, 0, nil
	}
	entry.usedAt = now
	limit := RereadAfter
	if entry.invalid || entry.err != nil {
		limit = RetryAfter
	}
	if now.Sub(entry.readAt) >= limit {
		return nil, false, entry.edition, nil
	}
	resolved, err = entry.outcome(now)
	return resolved, true, entry.edition, err
}

// put records a read for an edition. It returns a copy of what is known now, and whether good values were replaced by different ones. A
// read for an earlier edition is not recorded.
func (r *results) put(key sourceKey, now time.Time, edition int, resolved *Resolved, err error) (known result, replaced bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	entry := r.entries[key]
	switch {
	case entry == nil:
		entry = &result{usedAt: now, edition: edition}
		r.entries[key] = entry
	case entry.edition != edition:
		return result{resolved: resolved, goodAt: now, err: err, readAt: now}, false
	}
	entry.err, entry.readAt, entry.invalid = err, now, false
	if err == nil {
		replaced = entry.resolved != nil && keyOf("", entry.resolved) != keyOf("", resolved)
		entry.resolved, entry.goodAt = resolved, now
	}
	return *entry, replaced
}

// outcome prefers the last good result to a failed read, for as long as keepFor, unless the failure says that a user removed or
// broke the credentials.
func (e *result) outcome(now time.Time) (*Resolved, error) {
	if e.err == nil {
		return e.resolved, nil
	}
	if e.resolved == nil || now.Sub(e.goodAt) >= keepFor || IsUserError(e.err) {
		return nil, e.err
	}
	return e.resolved, nil
}

// standIn returns the last good result if it may stand in for a slow read, or nil. It may not if GitHub has refused it.
func (r *results) standIn(key sourceKey, now time.Time) *Resolved {
	r.mu.Lock()
	defer r.mu.Unlock()
	entry, known := r.entries[key]
	if !known || entry.invalid || now.Sub(entry.goodAt) >= keepFor {
		return nil
	}
	resolved, _ := entry.outcome(now) // nil if it fails
	return resolved
}

func (r *results) invalidate(keys ...sourceKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range keys {
		if entry, known := r.entries[key]; known {
			entry.invalid = true
		}
	}
}

// outdate makes the next use read, also if a read is under way that may have begun before the change.
func (r *results) outdate(key sourceKey, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	entry := r.entries[key]
	if entry == nil {
		entry = &result{usedAt: now}
		r.entries[key] = entry
	}
	entry.edition++
	entry.invalid, entry.readAt = true, time.Time{}
}

// lastError returns the error of the last read.
func (r *results) lastError(key sourceKey) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if entry := r.entries[key]; entry != nil {
		return entry.err
	}
	return nil
}

// sweep drops what nobody has used for keepFor. The caller holds the lock.
func (r *results) sweep(now time.Time) {
	if now.Sub(r.swept) < RereadAfter {
		return
	}
	r.swept = now
	for key, entry := range r.entries {
		if now.Sub(entry.usedAt) >= keepFor {
			delete(r.entries, key)
		}
	}
}
