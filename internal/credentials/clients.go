package credentials

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
)

// clients are those in use, by everything that makes one differ from another.
type clients struct {
	// unused is told the config URLs that have no client any more; it may be nil.
	unused  func(url string)
	mu      sync.Mutex
	entries map[clientKey]*clientEntry
	swept   time.Time
}

// clientKey holds values: a client is shared exactly by those who would make the same one.
type clientKey struct {
	url            string
	token          string
	appID          string
	installationID int64
	privateKey     string
	rootCAs        string
	// proxied tells an empty proxy configuration, which means none, from no configuration, which means the environment's.
	proxied bool
	proxy   ProxySettings
}

type clientEntry struct {
	client *actions.Client
	usedAt time.Time
	// sources are what to read again when GitHub refuses the credentials.
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

// client returns the shared client for the values, and notes which source they came from; "" is none.
func (p *Provider) client(reference Reference, resolved *Resolved, source sourceKey) (*actions.Client, error) {
	key := keyOf(reference.GitHubConfigURL, resolved)
	if found := p.clients.use(key, source, p.options.Clock.Now()); found != nil {
		return found, nil
	}
	// Made outside the lock: it parses a private key and a pool of certificates. If two do so at once, one is thrown away.
	made, err := p.newClient(key, resolved)
	if err != nil {
		return nil, err
	}
	return p.clients.add(key, made, source, p.options.Clock.Now()), nil
}

func (p *Provider) newClient(key clientKey, resolved *Resolved) (*actions.Client, error) {
	pool, err := actions.CertPool(resolved.RootCAs)
	if err != nil {
		return nil, &InvalidError{Key: "githubServerTLS", Reason: noCertificate}
	}
	options := actions.Options{
		UserAgent: p.options.UserAgent,
		RootCAs:   pool,
		Logger:    p.options.Logger,
		Clock:     p.options.Clock,
		OnRequest: func(info actions.RequestInfo) { p.observe(key, info) },
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

// observe notices a refused credential. A 401 is also what an ordinary expiry looks like, about once an hour: one more
// read then costs nothing.
func (p *Provider) observe(key clientKey, info actions.RequestInfo) {
	if info.StatusCode == http.StatusUnauthorized {
		p.results.invalidate(p.clients.sourcesOf(key)...)
	}
	if p.options.OnRequest != nil {
		p.options.OnRequest(key.url, info)
	}
}

// use returns the client for the key, nil when there is none.
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

// sweep drops clients that nobody has asked for during keepFor, among them those of credentials that were replaced.
// Calls under way go on. The caller holds the lock.
func (c *clients) sweep(now time.Time) {
	if now.Sub(c.swept) < RereadAfter {
		return
	}
	c.swept = now
	for key, entry := range c.entries {
		if now.Sub(entry.usedAt) >= keepFor {
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
