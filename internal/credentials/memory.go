package credentials

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/credentials/azurekeyvault"
)

// shared returns the known result for the key, or reads it a single time for all concurrent callers. values are logged.
func (p *Provider) shared(
	ctx context.Context, key sourceKey, read func(context.Context) (*Resolved, error), values ...any,
) (*Resolved, error) {
	resolved, fresh, edition, err := p.results.get(key, p.options.Clock.Now())
	if fresh {
		return resolved, err
	}
	flight := p.results.flights.DoChan(fmt.Sprintf("%d %s", edition, key), func() (any, error) {
		// Another caller may have read it since the check above.
		if resolved, fresh, _, err := p.results.get(key, p.options.Clock.Now()); fresh {
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
		entry, replaced := p.results.put(key, now, edition, resolved, err)
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
	p.results.outdate(reference.source(), p.options.Clock.Now())
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
	swept   time.Time
}

// result is the outcome of reads for one key.
type result struct {
	// resolved is the last good outcome, nil before the first. It was read at goodAt.
	resolved *Resolved
	goodAt   time.Time
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
func (r *results) get(key sourceKey, now time.Time) (resolved *Resolved, fresh bool, edition int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sweep(now)
	entry, known := r.entries[key]
	if !known {
		return nil, false, 0, nil
	}
	entry.usedAt = now
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

// put remembers a read for an edition. It returns a copy of what is known now, and whether good values were replaced by
// different ones. A read for an earlier edition is not remembered.
func (r *results) put(
	key sourceKey, now time.Time, edition int, resolved *Resolved, err error,
) (known result, replaced bool) {
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

// sweep drops what nobody has used for keepGrace. The caller holds the lock.
func (r *results) sweep(now time.Time) {
	if now.Sub(r.swept) < RereadInterval {
		return
	}
	r.swept = now
	for key, entry := range r.entries {
		if now.Sub(entry.usedAt) >= keepGrace {
			delete(r.entries, key)
		}
	}
}

// clients are the clients in use, keyed by everything that distinguishes them.
type clients struct {
	// unused is called with each config URL that no longer has a client; it may be nil.
	unused  func(url string)
	mu      sync.Mutex
	entries map[clientKey]*clientEntry
	swept   time.Time
}

// clientKey holds values, not names: callers share a client exactly if they would create the same one.
type clientKey struct {
	url            string
	token          string
	appID          string
	installationID int64
	privateKey     string
	rootCAs        string
	// proxied distinguishes an empty proxy configuration, which means no proxy, from none, which means the
	// environment's proxy.
	proxied bool
	proxy   ProxySettings
}

type clientEntry struct {
	client *actions.Client
	usedAt time.Time
	// sources are read again when GitHub refuses the credentials.
	sources map[sourceKey]struct{}
}

func keyOf(url string, resolved *Resolved) clientKey {
	key := clientKey{url: url, token: resolved.Credentials.Token, rootCAs: resolved.RootCAs}
	if app := resolved.Credentials.App; app != nil {
		key.appID, key.installationID, key.privateKey = app.ID, app.InstallationID, app.PrivateKey
	}
	if resolved.Proxy != nil {
		key.proxied, key.proxy = true, *resolved.Proxy
	}
	return key
}

// client returns the shared client for the values, and notes which source they came from; "" means none.
func (p *Provider) client(reference Reference, resolved *Resolved, source sourceKey) (*actions.Client, error) {
	key := keyOf(reference.GitHubConfigURL, resolved)
	if found := p.clients.use(key, source, p.options.Clock.Now()); found != nil {
		return found, nil
	}
	// Created outside the lock, because that parses a private key and certificates. If two callers do so at the same
	// time, one client is discarded.
	made, err := p.newClient(key, resolved)
	if err != nil {
		return nil, err
	}
	return p.clients.add(key, made, source, p.options.Clock.Now()), nil
}

func (p *Provider) newClient(key clientKey, resolved *Resolved) (*actions.Client, error) {
	pool, err := actions.CertPool(resolved.RootCAs)
	if err != nil {
		return nil, &InvalidError{Key: "githubServerTLS", Reason: whyUnusable(err)}
	}
	options := actions.Options{
		UserAgent: p.options.UserAgent,
		RootCAs:   pool,
		Logger:    p.options.Logger,
		Clock:     p.options.Clock,
		OnRequest: func(info actions.RequestInfo) { p.observe(key, info) },
		Addresses: p.options.Addresses.Check(key.url, resolved.Proxy == nil),
		Budget:    p.options.Budget,
	}
	if resolved.Proxy != nil {
		options.Proxy = resolved.Proxy.Func()
	}
	made, err := actions.NewClient(key.url, resolved.Credentials, options)
	if err != nil {
		return nil, fmt.Errorf("prepare the connection to GitHub: %w", err)
	}
	return made, nil
}

// observe notices refused credentials. A token that expires as usual, about every hour, gets a 401, too; one more read
// then costs nothing.
func (p *Provider) observe(key clientKey, info actions.RequestInfo) {
	if info.StatusCode == http.StatusUnauthorized {
		p.results.invalidate(p.clients.sourcesOf(key)...)
	}
	if p.options.OnRequest != nil {
		p.options.OnRequest(key.url, info)
	}
}

// use returns the client for the key, or nil if there is none.
func (c *clients) use(key clientKey, source sourceKey, now time.Time) *actions.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweep(now)
	entry, known := c.entries[key]
	if !known {
		return nil
	}
	entry.use(source, now)
	return entry.client
}

// add stores a client unless somebody was faster, and returns the stored one.
func (c *clients) add(key clientKey, made *actions.Client, source sourceKey, now time.Time) *actions.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	entry, known := c.entries[key]
	if !known {
		entry = &clientEntry{client: made, sources: map[sourceKey]struct{}{}}
		c.entries[key] = entry
	}
	entry.use(source, now)
	return entry.client
}

func (e *clientEntry) use(source sourceKey, now time.Time) {
	e.usedAt = now
	if source != "" {
		e.sources[source] = struct{}{}
	}
}

func (c *clients) sourcesOf(key clientKey) []sourceKey {
	c.mu.Lock()
	defer c.mu.Unlock()
	entry, known := c.entries[key]
	if !known {
		return nil
	}
	sources := make([]sourceKey, 0, len(entry.sources))
	for source := range entry.sources {
		sources = append(sources, source)
	}
	return sources
}

// sweep drops clients that have not been used for keepGrace, among them those with replaced credentials. Calls in
// flight continue. The caller holds the lock.
func (c *clients) sweep(now time.Time) {
	if now.Sub(c.swept) < RereadInterval {
		return
	}
	c.swept = now
	for key, entry := range c.entries {
		if now.Sub(entry.usedAt) >= keepGrace {
			entry.client.CloseIdleConnections()
			delete(c.entries, key)
			if c.unused != nil && !c.has(key.url) {
				c.unused(key.url)
			}
		}
	}
}

// has reports whether there is a client for the config URL. The caller holds the lock.
func (c *clients) has(url string) bool {
	for key := range c.entries {
		if key.url == url {
			return true
		}
	}
	return false
}
