// Package held keeps what scale sets use to reach GitHub, such as clients and bundles of certificate authorities, for as
// long as they use it, and of each set no more than a few: whoever changes a set once a second has the memory of two
// clients, not of as many as there were changes.
package held

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// most is the number of things of a kind that a set has at a time: the one in use, and one that ends with the calls and
// runners that began with it.
const most = 2

// Sets know which set uses what of a map. Without them, a set whose spec or bundle is changed once a second would
// have everything kept that it has used in the last minutes. The zero value knows nothing. Its user has a lock.
type Sets[K comparable] struct {
	// keys are those that a set has used last, the newest first; users are the other direction.
	keys  map[types.NamespacedName][]K
	users map[K]map[types.NamespacedName]struct{}
	// used has the last time at which each set used something.
	used map[types.NamespacedName]time.Time
}

// Use notes what a set uses, and returns what nobody uses any more because of that.
func (s *Sets[K]) Use(set types.NamespacedName, key K, now time.Time) (unused []K) {
	if s.keys == nil {
		s.keys, s.users = map[types.NamespacedName][]K{}, map[K]map[types.NamespacedName]struct{}{}
		s.used = map[types.NamespacedName]time.Time{}
	}
	s.used[set] = now
	held := s.keys[set]
	if len(held) > 0 && held[0] == key {
		return nil
	}
	held = append([]K{key}, slices.DeleteFunc(slices.Clone(held), func(k K) bool { return k == key })...)
	if s.users[key] == nil {
		s.users[key] = map[types.NamespacedName]struct{}{}
	}
	s.users[key][set] = struct{}{}
	for _, former := range held[min(len(held), most):] {
		if s.release(set, former) {
			unused = append(unused, former)
		}
	}
	s.keys[set] = held[:min(len(held), most)]
	return unused
}

// Forget drops a set that is gone, and returns what nobody uses any more.
func (s *Sets[K]) Forget(set types.NamespacedName) (unused []K) {
	for _, key := range s.keys[set] {
		if s.release(set, key) {
			unused = append(unused, key)
		}
	}
	delete(s.keys, set)
	delete(s.used, set)
	return unused
}

// Idle returns the sets that have used nothing since.
func (s *Sets[K]) Idle(since time.Time) (idle []types.NamespacedName) {
	for set, at := range s.used {
		if !at.After(since) {
			idle = append(idle, set)
		}
	}
	return idle
}

// Drop drops what is kept no longer.
func (s *Sets[K]) Drop(key K) {
	for set := range s.users[key] {
		s.keys[set] = slices.DeleteFunc(s.keys[set], func(k K) bool { return k == key })
	}
	delete(s.users, key)
}

// release reports whether the set was the last that used the key.
func (s *Sets[K]) release(set types.NamespacedName, key K) bool {
	delete(s.users[key], set)
	if len(s.users[key]) > 0 {
		return false
	}
	delete(s.users, key)
	return true
}
