package credentials

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// mostHeld is the number of clients, and of what was read, that a set has at a time: the one in use, and one that ends
// with the calls and runners that began with it.
const mostHeld = 2

// holder returns the set on whose account things are kept. A reference that names none, as one of a former
// registration, stands for itself.
func (r Reference) holder() types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: cmp.Or(r.Set, r.GitHubConfigURL+" "+r.GitHubConfigSecret)}
}

// holders know which set uses what of a map. Without them, a set whose spec or bundle is changed once a second would
// have everything kept that it has used in the last minutes. The zero value knows nothing. Its user has a lock.
type holders[K comparable] struct {
	// keys are those that a set has used last, the newest first; sets are the other direction.
	keys map[types.NamespacedName][]K
	sets map[K]map[types.NamespacedName]struct{}
	// used has the last time at which each set used something.
	used map[types.NamespacedName]time.Time
}

// use notes what a set uses, and returns what nobody uses any more because of that.
func (h *holders[K]) use(set types.NamespacedName, key K, now time.Time) (unused []K) {
	if h.keys == nil {
		h.keys, h.sets = map[types.NamespacedName][]K{}, map[K]map[types.NamespacedName]struct{}{}
		h.used = map[types.NamespacedName]time.Time{}
	}
	h.used[set] = now
	held := h.keys[set]
	if len(held) > 0 && held[0] == key {
		return nil
	}
	held = append([]K{key}, slices.DeleteFunc(slices.Clone(held), func(k K) bool { return k == key })...)
	if h.sets[key] == nil {
		h.sets[key] = map[types.NamespacedName]struct{}{}
	}
	h.sets[key][set] = struct{}{}
	for _, former := range held[min(len(held), mostHeld):] {
		if h.release(set, former) {
			unused = append(unused, former)
		}
	}
	h.keys[set] = held[:min(len(held), mostHeld)]
	return unused
}

// forget drops a set that is gone, and returns what nobody uses any more.
func (h *holders[K]) forget(set types.NamespacedName) (unused []K) {
	for _, key := range h.keys[set] {
		if h.release(set, key) {
			unused = append(unused, key)
		}
	}
	delete(h.keys, set)
	delete(h.used, set)
	return unused
}

// idle returns the sets that have used nothing since.
func (h *holders[K]) idle(since time.Time) (sets []types.NamespacedName) {
	for set, at := range h.used {
		if !at.After(since) {
			sets = append(sets, set)
		}
	}
	return sets
}

// drop drops what is kept no longer.
func (h *holders[K]) drop(key K) {
	for set := range h.sets[key] {
		h.keys[set] = slices.DeleteFunc(h.keys[set], func(k K) bool { return k == key })
	}
	delete(h.sets, key)
}

// release reports whether the set was the last that used the key.
func (h *holders[K]) release(set types.NamespacedName, key K) bool {
	delete(h.sets[key], set)
	if len(h.sets[key]) > 0 {
		return false
	}
	delete(h.sets, key)
	return true
}
