package kube

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Memories holds what a controller remembers of each of its objects between passes: only what limits rates and waits, and may be
// lost in a restart. An object is reconciled by one worker at a time, so only the map has a lock. The zero value is empty.
type Memories[T any] struct {
	mu      sync.Mutex
	objects map[types.NamespacedName]remembered[T]
}

// remembered is what is remembered of the object with this UID.
type remembered[T any] struct {
	uid    types.UID
	memory *T
}

// Of returns what is remembered of an object. fresh reports that this very object was not seen before, so that memory is a zero T:
// a former object may have been deleted and recreated under its name between two passes. The memory belongs to the worker that
// reconciles the object.
func (m *Memories[T]) Of(object client.Object) (memory *T, fresh bool) {
	key := client.ObjectKeyFromObject(object)
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, found := m.objects[key]; found && known.uid == object.GetUID() {
		return known.memory, false
	}
	if m.objects == nil {
		m.objects = map[types.NamespacedName]remembered[T]{}
	}
	memory = new(T)
	m.objects[key] = remembered[T]{uid: object.GetUID(), memory: memory}
	return memory, true
}

// Forget drops what is remembered of an object that is gone.
func (m *Memories[T]) Forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, key)
}
