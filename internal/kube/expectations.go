package kube

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// Expectations remembers, by owner, the names of objects whose creation was requested and that the cache has not shown yet.
// Without it a second pass, before the watch has caught up with what the first one created, would create more. It is kept
// only in memory: a process that has just started asks the API server what its predecessor created last.
type Expectations struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	names map[types.NamespacedName]map[string]time.Time
}

// NewExpectations returns an empty memory.
func NewExpectations(clk clock.PassiveClock) *Expectations {
	return &Expectations{clock: clk, names: map[types.NamespacedName]map[string]time.Time{}}
}

// Expect notes names before their creation is requested, because the watch may show an object before the request is answered.
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

// Met drops a name: the watch has shown the object or its deletion, or the server has refused it for good.
func (e *Expectations) Met(owner types.NamespacedName, name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.names[owner], name)
	if len(e.names[owner]) == 0 {
		delete(e.names, owner)
	}
}

// Pending returns the names that are still expected and when each was noted, nil if there are none.
func (e *Expectations) Pending(owner types.NamespacedName) map[string]time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.names[owner])
}

// Expects reports whether a name is still expected.
func (e *Expectations) Expects(owner types.NamespacedName, name string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, expected := e.names[owner][name]
	return expected
}

// Forget drops all names of an owner that is gone.
func (e *Expectations) Forget(owner types.NamespacedName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.names, owner)
}
