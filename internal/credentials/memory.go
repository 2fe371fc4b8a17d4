package credentials

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/internal/credentials/azurekeyvault"
)

// shared returns the known result for the key, or reads it a single time for all concurrent callers, on account of a
// set. values are logged.
func (p *Provider) shared(
	ctx context.Context, key sourceKey, set types.NamespacedName, read func(context.Context) (*Resolved, error),
	values ...any,
) (*Resolved, error) {
	resolved, fresh, edition, err := p.results.get(key, set, p.options.Clock.Now())
	if fresh {
		return resolved, err
	}
	flight := p.results.flights.DoChan(fmt.Sprintf("%d %x", edition, key), func() (any, error) {
		// Another caller may have read it since the check above.
		if resolved, fresh, _, err := p.results.get(key, set, p.options.Clock.Now()); fresh {
			return resolved, err
		}
		// The read outlives the caller that started it, because others wait for it too.
		readCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
		defer cancel()
		resolved, err := read(readCtx)
		if certificate, ok := errors.AsType[*azurekeyvault.CertificateError](err); ok {
			p.options.Logger.Info("The certificate of a vault's client can't be used", slices.Concat(
				values, []any{"cause", certificate.Cause.Error()},
			)...)
		}
		now := p.options.Clock.Now()
		authorities := (*bundle)(nil)
		if err == nil {
			authorities, _ = p.bundles.of(resolved.RootCAs) // whoever uses it learns what is wrong with it
		}
		entry, replaced := p.results.put(key, set, now, edition, resolved, authorities, err)
		if replaced {
			p.options.Logger.Info(
				"Credentials, proxy or certificate authorities changed; new calls use the new ones",
				values...,
			)
		}
		return entry.outcome(now)
	})
	var timeout <-chan time.Time
	standIn := p.results.standIn(key, p.options.Clock.Now())
	if standIn != nil {
		timeout = p.options.Clock.After(rereadTimeout)
	}
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("read credentials: %w", ctx.Err())
	case <-timeout:
		return standIn, nil
	case answer := <-flight:
		resolved, _ := answer.Val.(*Resolved)
		return resolved, answer.Err
	}
}

// Reread reads immediately what the reference names, whatever is remembered: somebody says that it has changed.
// Everybody else gets the result, too. It fails as Resolve does, and also if only what was read before could be
// returned.
func (p *Provider) Reread(ctx context.Context, reference Reference) (*Resolved, error) {
	p.results.outdate(reference.source(), reference.holder(), p.options.Clock.Now())
	resolved, err := p.Resolve(ctx, reference)
	if err == nil {
		err = p.results.lastError(reference.source())
	}
	return resolved, err
}

// Invalidate makes the next use read again, but not before the last read is RetryBackoff old. After a 401 this happens
// by itself.
func (p *Provider) Invalidate(reference Reference) { p.results.invalidate(reference.source()) }

// results remembers what was read, and lets concurrent callers for the same key share one read.
type results struct {
	flights singleflight.Group

	mu      sync.Mutex
	entries map[sourceKey]*result
	holders holders[sourceKey]
	swept   time.Time
}

// result is the outcome of reads for one key.
type result struct {
	// resolved is the last good outcome, nil before the first. It was read at goodAt.
	resolved *Resolved
	goodAt   time.Time
	// authorities has the text of resolved.RootCAs, so that it is not made again; nil if there is none.
	authorities *bundle
	// err is the error of the last read, nil if it succeeded. That read was at readAt.
	err    error
	readAt time.Time
	// invalid asks for a read as soon as RetryBackoff allows.
	invalid bool
	// edition counts the known changes of the objects that are named. A read that began in an earlier one doesn't
	// count.
	edition int
	usedAt  time.Time
}

// get returns the known result, and false if it must be read (again), for the edition.
func (r *results) get(
	key sourceKey, set types.NamespacedName, now time.Time,
) (resolved *Resolved, fresh bool, edition int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sweep(now)
	entry, known := r.entries[key]
	if !known {
		return nil, false, 0, nil
	}
	entry.usedAt = now
	r.hold(set, key, now)
	limit := RereadInterval
	if entry.invalid || entry.err != nil {
		limit = RetryBackoff
	}
	if now.Sub(entry.readAt) >= limit {
		return nil, false, entry.edition, nil
	}
	resolved, err = entry.outcome(now)
	return resolved, true, entry.edition, err
}

// hold notes who uses a result, and drops what the set used before. The caller holds the lock.
func (r *results) hold(set types.NamespacedName, key sourceKey, now time.Time) {
	for _, unused := range r.holders.use(set, key, now) {
		delete(r.entries, unused)
	}
}

// forget drops what only a set used that is gone.
func (r *results) forget(set types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, unused := range r.holders.forget(set) {
		delete(r.entries, unused)
	}
}

// put remembers a read for an edition. It returns a copy of what is known now, and whether good values were replaced by
// different ones. A read for an earlier edition is not remembered.
func (r *results) put(
	key sourceKey, set types.NamespacedName, now time.Time, edition int, resolved *Resolved, authorities *bundle,
	err error,
) (known result, replaced bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	entry := r.entries[key]
	switch {
	case entry == nil:
		entry = &result{usedAt: now, edition: edition}
		r.entries[key] = entry
		r.hold(set, key, now)
	case entry.edition != edition:
		return result{resolved: resolved, goodAt: now, err: err, readAt: now}, false
	}
	entry.err, entry.readAt, entry.invalid = err, now, false
	if err == nil {
		replaced = entry.resolved != nil && entry.resolved.digest() != resolved.digest()
		entry.resolved, entry.authorities, entry.goodAt = resolved, authorities, now
	}
	return *entry, replaced
}

// outcome prefers the last good result to a failed read, for as long as keepGrace, unless the failure says that a user
// removed or broke the credentials.
func (e *result) outcome(now time.Time) (*Resolved, error) {
	if e.err == nil {
		return e.resolved, nil
	}
	if e.resolved == nil || now.Sub(e.goodAt) >= keepGrace || IsUserError(e.err) {
		return nil, e.err
	}
	return e.resolved, nil
}

// standIn returns the last good result if it may stand in for a slow read, or nil. It may not if GitHub has refused it.
func (r *results) standIn(key sourceKey, now time.Time) *Resolved {
	r.mu.Lock()
	defer r.mu.Unlock()
	entry, known := r.entries[key]
	if !known || entry.invalid || now.Sub(entry.goodAt) >= keepGrace {
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
func (r *results) outdate(key sourceKey, set types.NamespacedName, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	entry := r.entries[key]
	if entry == nil {
		entry = &result{usedAt: now}
		r.entries[key] = entry
		r.hold(set, key, now)
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

// sweep drops what nobody has used for keepGrace. The caller holds the lock.
func (r *results) sweep(now time.Time) {
	if now.Sub(r.swept) < RereadInterval {
		return
	}
	r.swept = now
	for key, entry := range r.entries {
		if now.Sub(entry.usedAt) >= keepGrace {
			delete(r.entries, key)
			r.holders.drop(key)
		}
	}
	for _, set := range r.holders.idle(now.Add(-keepGrace)) {
		for _, unused := range r.holders.forget(set) {
			delete(r.entries, unused)
		}
	}
}
