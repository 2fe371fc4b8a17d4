package credentials

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/credentials/azurekeyvault"
	"github.com/harrier-ci/harrier/internal/credentials/held"
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
		authorities := (*held.Bundle)(nil)
		if err == nil {
			authorities, _ = p.bundles.Of(resolved.RootCAs) // whoever uses it learns what is wrong with it
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
	holders held.Sets[sourceKey]
	swept   time.Time
}

// result is the outcome of reads for one key.
type result struct {
	// resolved is the last good outcome, nil before the first. It was read at goodAt.
	resolved *Resolved
	goodAt   time.Time
	// authorities has the text of resolved.RootCAs, so that it is not made again; nil if there is none.
	authorities *held.Bundle
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
	for _, unused := range r.holders.Use(set, key, now) {
		delete(r.entries, unused)
	}
}

// Forget drops what is kept only for a set that is gone.
func (p *Provider) Forget(set types.NamespacedName) {
	p.clients.Forget(set)
	p.results.mu.Lock()
	defer p.results.mu.Unlock()
	for _, unused := range p.results.holders.Forget(set) {
		delete(p.results.entries, unused)
	}
}

// put remembers a read for an edition. It returns a copy of what is known now, and whether good values were replaced by
// different ones. A read for an earlier edition is not remembered.
func (r *results) put(
	key sourceKey, set types.NamespacedName, now time.Time, edition int, resolved *Resolved, authorities *held.Bundle,
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
			r.holders.Drop(key)
		}
	}
	for _, set := range r.holders.Idle(now.Add(-keepGrace)) {
		for _, unused := range r.holders.Forget(set) {
			delete(r.entries, unused)
		}
	}
}

// digest stands for all values.
func (r *Resolved) digest() [sha256.Size]byte {
	roots := sha256.Sum256([]byte(r.RootCAs)) // of 1 MiB it takes a millisecond, and a call to GitHub some hundred
	// A nil proxy, which means the environment's, and an empty one, which means none, have other texts. Strings and
	// numbers can't fail to encode.
	text, _ := json.Marshal(struct {
		Token string
		App   *actions.AppCredentials
		Roots []byte
		Proxy *ProxySettings
	}{r.Credentials.Token, r.Credentials.App, roots[:], r.Proxy})
	return sha256.Sum256(text)
}

// salt makes the names of accounts worthless outside of this process.
var salt = sync.OnceValue(func() []byte {
	made := make([]byte, sha256.Size)
	_, _ = rand.Read(made) // never fails
	return made
})

// accountOf names the account that calls with these values use: whoever has another credential, or reaches the server
// by another way, can't spend what is its. On a way without TLS nothing proves who answers, so that the account is the
// namespace's own.
func accountOf(key held.Key) string {
	name := hmac.New(sha256.New, salt())
	server, namespace := key.URL, key.Namespace
	if address, err := url.Parse(key.URL); err == nil {
		server = strings.ToLower(address.Scheme + "://" + address.Host)
		if address.Scheme == "https" {
			namespace = ""
		}
	}
	fmt.Fprintf(name, "%q %q %x", server, namespace, key.Values)
	return hex.EncodeToString(name.Sum(nil)[:16])
}

// client returns the shared client for the values, and notes which source they came from; "" means none.
func (p *Provider) client(reference Reference, resolved *Resolved, source sourceKey) (*actions.Client, error) {
	key := held.Key{Namespace: reference.Namespace, URL: reference.GitHubConfigURL, Values: resolved.digest()}
	if found := p.clients.Use(key, reference.holder(), source, p.options.Clock.Now()); found != nil {
		return found, nil
	}
	// Created outside the lock, because that parses a private key and certificates. If two callers do so at the same
	// time, one client is discarded.
	authorities, err := p.bundles.Of(resolved.RootCAs)
	if err != nil {
		return nil, &InvalidError{Key: "githubServerTLS", Reason: whyUnusable(err)}
	}
	made, err := p.newClient(key, resolved, authorities)
	if err != nil {
		return nil, err
	}
	return p.clients.Add(key, made, authorities, reference.holder(), source, p.options.Clock.Now()), nil
}

func (p *Provider) newClient(key held.Key, resolved *Resolved, authorities *held.Bundle) (*actions.Client, error) {
	options := actions.Options{
		UserAgent: p.options.UserAgent,
		Logger:    p.options.Logger,
		Clock:     p.options.Clock,
		OnRequest: func(info actions.RequestInfo) { p.observe(key, info) },
		Addresses: p.options.Addresses.Check(key.URL, resolved.Proxy == nil),
		Budget:    p.options.Budget,
		Owner:     key.Namespace,
		Account:   accountOf(key),

		RoundTripper: p.options.GitHub,
	}
	if authorities != nil {
		options.RootCAs = authorities.Pool
	}
	if resolved.Proxy != nil {
		options.Proxy = resolved.Proxy.Func()
	}
	made, err := actions.NewClient(key.URL, resolved.Credentials, options)
	if err != nil {
		return nil, fmt.Errorf("prepare the connection to GitHub: %w", err)
	}
	return made, nil
}

// observe notices refused credentials. A token that expires as usual, about every hour, gets a 401, too; one more read
// then costs nothing.
func (p *Provider) observe(key held.Key, info actions.RequestInfo) {
	if info.StatusCode == http.StatusUnauthorized {
		p.results.invalidate(p.clients.SourcesOf(key)...)
	}
	if p.options.OnRequest != nil {
		p.clients.Tell(key, func(sets []types.NamespacedName) {
			// Not of what stands for a former registration.
			sets = slices.DeleteFunc(sets, func(s types.NamespacedName) bool { return strings.Contains(s.Name, " ") })
			p.options.OnRequest(sets, info)
		})
	}
}
