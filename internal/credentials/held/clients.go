package held

import (
	"crypto/sha256"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/github/actions"
)

// Clients are the clients in use, keyed by everything that distinguishes them. S are the names of what was read for
// them. Its fields are set before it is used.
type Clients[S comparable] struct {
	// A client that was not used for Grace goes; that is looked at every Interval.
	Grace, Interval time.Duration
	// Unused is called with each set that has no client any more; it may be nil.
	Unused func(set types.NamespacedName)

	mu      sync.Mutex
	entries map[Key]*entry[S]
	sets    Sets[Key]
	swept   time.Time
}

// Key stands for values, not for names: callers of a namespace share a client exactly if they would create the same
// one. What a client uses up, such as memory for answers, is its namespace's.
type Key struct {
	Namespace, URL string
	Values         [sha256.Size]byte
}

type entry[S comparable] struct {
	client *actions.Client
	usedAt time.Time
	// authorities keeps others from making what the client has, too; nil if it trusts the system's.
	authorities *Bundle
	// sources are read again when GitHub refuses the credentials.
	sources map[S]struct{}
}

// Tell calls a function with the sets that use a client. While it runs, no set is forgotten: what it notes about a set
// is there when Forget returns.
func (c *Clients[S]) Tell(key Key, about func(sets []types.NamespacedName)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	about(slices.Collect(maps.Keys(c.sets.users[key])))
}

// Use returns the client for the key, or nil if there is none. It notes which set uses it, and which source its values
// came from; the zero source means none.
func (c *Clients[S]) Use(key Key, set types.NamespacedName, source S, now time.Time) *actions.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweep(now)
	found, known := c.entries[key]
	if !known {
		return nil
	}
	c.note(key, found, set, source, now)
	return found.client
}

// Add stores a client unless somebody was faster, and returns the stored one. authorities are those that it trusts; nil
// if it trusts the system's.
func (c *Clients[S]) Add(
	key Key, made *actions.Client, authorities *Bundle, set types.NamespacedName, source S, now time.Time,
) *actions.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, known := c.entries[key]
	if !known {
		found = &entry[S]{client: made, authorities: authorities, sources: map[S]struct{}{}}
		if c.entries == nil {
			c.entries = map[Key]*entry[S]{}
		}
		c.entries[key] = found
	}
	c.note(key, found, set, source, now)
	return found.client
}

// note notes who uses a client, and from where its values are. The caller holds the lock.
func (c *Clients[S]) note(key Key, used *entry[S], set types.NamespacedName, source S, now time.Time) {
	used.usedAt = now
	if none := *new(S); source != none {
		if len(used.sources) >= mostSources {
			clear(used.sources) // what is in use is noted again
		}
		used.sources[source] = struct{}{}
	}
	c.end(c.sets.Use(set, key, now))
}

// mostSources bounds the sources that a client remembers: every change of a set that leaves the values as they are has
// a new one.
const mostSources = 1000

// end ends clients that nobody uses any more, and the calls that still use them: otherwise a server that answers slowly
// would have one kept for each change of a set. The caller holds the lock.
func (c *Clients[S]) end(unused []Key) {
	for _, key := range unused {
		if entry := c.entries[key]; entry != nil {
			entry.client.Close()
			delete(c.entries, key)
		}
	}
}

// Forget drops the clients that only a set used that is gone.
func (c *Clients[S]) Forget(set types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leave(set)
}

// leave drops what only a set used. The caller holds the lock.
func (c *Clients[S]) leave(set types.NamespacedName) {
	c.end(c.sets.Forget(set))
	if c.Unused != nil {
		c.Unused(set)
	}
}

// SourcesOf returns from where the values of a client are.
func (c *Clients[S]) SourcesOf(key Key) []S {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, known := c.entries[key]
	if !known {
		return nil
	}
	return slices.Collect(maps.Keys(found.sources))
}

// sweep drops clients that have not been used for Grace, among them those with replaced credentials. Calls in
// flight continue. The caller holds the lock.
func (c *Clients[S]) sweep(now time.Time) {
	if now.Sub(c.swept) < c.Interval {
		return
	}
	c.swept = now
	for key, entry := range c.entries {
		if now.Sub(entry.usedAt) >= c.Grace {
			entry.client.CloseIdleConnections()
			delete(c.entries, key)
			c.sets.Drop(key)
		}
	}
	for _, set := range c.sets.Idle(now.Add(-c.Grace)) {
		c.leave(set)
	}
}
