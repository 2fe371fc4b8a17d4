package kube

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// Expectations remembers, by owner, the names of objects that were asked for and that the cache has not shown yet.
// Without it a second reconcile, run before the watch has caught up with the first one's creations, would create them
// again. It is memory only: after a restart the cache is complete before anything is reconciled.
type Expectations struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	names map[types.NamespacedName]map[string]time.Time
}

// NewExpectations returns an empty memory.
func NewExpectations(clk clock.PassiveClock) *Expectations {
	return &Expectations{clock: clk, names: map[types.NamespacedName]map[string]time.Time{}}
}

// Expect notes names before they are asked for, so that they can be observed even before the answer has come.
func (e *Expectations) Expect(owner types.NamespacedName, names ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.names[owner] == nil {
		e.names[owner] = map[string]time.Time{}
	}
	for _, name := range names {
		e.names[owner][name] = e.clock.Now()
	}
}

// Met forgets a name: the watch has shown the object, or its deletion, or the server has refused it for good.
func (e *Expectations) Met(owner types.NamespacedName, name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.names[owner], name)
	if len(e.names[owner]) == 0 {
		delete(e.names, owner)
	}
}

// Pending returns the names that are still expected, with the time each was noted; nil where there are none.
func (e *Expectations) Pending(owner types.NamespacedName) map[string]time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.names[owner])
}

// Forget drops everything about an owner that is gone.
func (e *Expectations) Forget(owner types.NamespacedName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.names, owner)
}
