package credentials

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/github/actions"
)

// clients are the clients in use, keyed by everything that distinguishes them.
type clients struct {
	// unused is called with each set that has no client any more; it may be nil.
	unused  func(set types.NamespacedName)
	mu      sync.Mutex
	entries map[clientKey]*clientEntry
	holders holders[clientKey]
	swept   time.Time
}

// clientKey stands for values, not for names: callers of a namespace share a client exactly if they would create the
// same one. What a client uses up, such as memory for answers, is its namespace's.
type clientKey struct {
	namespace, url string
	values         [sha256.Size]byte
}

type clientEntry struct {
	client *actions.Client
	usedAt time.Time
	// authorities keeps others from making what the client has, too; nil if it trusts the system's.
	authorities *bundle
	// sources are read again when GitHub refuses the credentials.
	sources map[sourceKey]struct{}
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
func accountOf(key clientKey) string {
	name := hmac.New(sha256.New, salt())
	server, namespace := key.url, key.namespace
	if address, err := url.Parse(key.url); err == nil {
		server = strings.ToLower(address.Scheme + "://" + address.Host)
		if address.Scheme == "https" {
			namespace = ""
		}
	}
	fmt.Fprintf(name, "%q %q %x", server, namespace, key.values)
	return hex.EncodeToString(name.Sum(nil)[:16])
}

// client returns the shared client for the values, and notes which source they came from; "" means none.
func (p *Provider) client(reference Reference, resolved *Resolved, source sourceKey) (*actions.Client, error) {
	key := clientKey{namespace: reference.Namespace, url: reference.GitHubConfigURL, values: resolved.digest()}
	if found := p.clients.use(key, reference.holder(), source, p.options.Clock.Now()); found != nil {
		return found, nil
	}
	// Created outside the lock, because that parses a private key and certificates. If two callers do so at the same
	// time, one client is discarded.
	authorities, err := p.bundles.of(resolved.RootCAs)
	if err != nil {
		return nil, &InvalidError{Key: "githubServerTLS", Reason: whyUnusable(err)}
	}
	made, err := p.newClient(key, resolved, authorities)
	if err != nil {
		return nil, err
	}
	entry := &clientEntry{client: made, authorities: authorities, sources: map[sourceKey]struct{}{}}
	return p.clients.add(key, entry, reference.holder(), source, p.options.Clock.Now()), nil
}

func (p *Provider) newClient(key clientKey, resolved *Resolved, authorities *bundle) (*actions.Client, error) {
	options := actions.Options{
		UserAgent: p.options.UserAgent,
		Logger:    p.options.Logger,
		Clock:     p.options.Clock,
		OnRequest: func(info actions.RequestInfo) { p.observe(key, info) },
		Addresses: p.options.Addresses.Check(key.url, resolved.Proxy == nil),
		Budget:    p.options.Budget,
		Owner:     key.namespace,
		Account:   accountOf(key),
	}
	if authorities != nil {
		options.RootCAs = authorities.pool
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
		p.clients.tell(key, func(sets []types.NamespacedName) { p.options.OnRequest(sets, info) })
	}
}

// tell calls a function with the sets that use a client. While it runs, no set is forgotten: what it notes about a set
// is there when Forget returns.
func (c *clients) tell(key clientKey, about func(sets []types.NamespacedName)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var sets []types.NamespacedName
	for set := range c.holders.sets[key] {
		if !strings.Contains(set.Name, " ") { // it is a set's, and no former registration's
			sets = append(sets, set)
		}
	}
	about(sets)
}

// use returns the client for the key, or nil if there is none.
func (c *clients) use(
	key clientKey, set types.NamespacedName, source sourceKey, now time.Time,
) *actions.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweep(now)
	entry, known := c.entries[key]
	if !known {
		return nil
	}
	c.note(key, entry, set, source, now)
	return entry.client
}

// add stores a client unless somebody was faster, and returns the stored one.
func (c *clients) add(
	key clientKey, made *clientEntry, set types.NamespacedName, source sourceKey, now time.Time,
) *actions.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	entry, known := c.entries[key]
	if !known {
		entry = made
		c.entries[key] = made
	}
	c.note(key, entry, set, source, now)
	return entry.client
}

// note notes who uses a client, and from where its values are. The caller holds the lock.
func (c *clients) note(key clientKey, entry *clientEntry, set types.NamespacedName, source sourceKey, now time.Time) {
	entry.usedAt = now
	if source != noSource {
		if len(entry.sources) >= mostSources {
			clear(entry.sources) // what is in use is noted again
		}
		entry.sources[source] = struct{}{}
	}
	c.end(c.holders.use(set, key, now))
}

// mostSources bounds the sources that a client remembers: every change of a set that leaves the values as they are has
// a new one.
const mostSources = 1000

// end ends clients that nobody uses any more, and the calls that still use them: otherwise a server that answers slowly
// would have one kept for each change of a set. The caller holds the lock.
func (c *clients) end(unused []clientKey) {
	for _, key := range unused {
		if entry := c.entries[key]; entry != nil {
			entry.client.Close()
			delete(c.entries, key)
		}
	}
}

// forget drops the clients that only a set used that is gone.
func (c *clients) forget(set types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leave(set)
}

// leave drops what only a set used. The caller holds the lock.
func (c *clients) leave(set types.NamespacedName) {
	c.end(c.holders.forget(set))
	if c.unused != nil {
		c.unused(set)
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
			c.holders.drop(key)
		}
	}
	for _, set := range c.holders.idle(now.Add(-keepGrace)) {
		c.leave(set)
	}
}
