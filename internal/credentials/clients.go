package credentials

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
)

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
	// proxied distinguishes an empty proxy configuration, which means no proxy, from none, which means the environment's proxy.
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
	// Created outside the lock, because that parses a private key and certificates. If two callers do so at once, one client is
	// discarded.
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

// vaultTransport returns a transport for requests to a vault. It follows the rules that those to GitHub follow.
func vaultTransport(proxy *ProxySettings, options Options) *actions.Transport {
	settings := actions.Options{Addresses: options.Addresses.Check("", proxy == nil)}
	if proxy != nil {
		settings.Proxy = proxy.Func()
	}
	transport := actions.NewTransport(settings)
	transport.DisableKeepAlives = true // it serves two requests, once a minute
	return transport
}

// noRedirect follows no redirect: Azure's servers answer with none, and a token is for one of them only.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// observe notices refused credentials. A token that expires as usual, about once an hour, gets a 401, too; one more read then
// costs nothing.
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

// sweep drops clients that have not been used for keepFor, among them those with replaced credentials. Calls in flight continue.
// The caller holds the lock.
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
