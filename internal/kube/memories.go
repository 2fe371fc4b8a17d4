package kube

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Memories holds what a controller remembers of each of its objects between passes: what only limits rates and waits, and may be
// lost in a restart. An object is reconciled by one worker at a time, so only the map has a lock. The zero value is empty.
type Memories[T any] struct {
	mu      sync.Mutex
	objects map[types.NamespacedName]*T
}

// Of returns what is remembered of an object, a zero T at first. It belongs to the worker that reconciles the object.
func (m *Memories[T]) Of(key types.NamespacedName) *T {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.objects == nil {
		m.objects = map[types.NamespacedName]*T{}
	}
	if m.objects[key] == nil {
		m.objects[key] = new(T)
	}
	return m.objects[key]
}

// Forget drops what is remembered of an object that is gone. A new one of the same name starts afresh.
func (m *Memories[T]) Forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, key)
}
