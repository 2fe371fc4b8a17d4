// Package pass is what a pass of a runner set shows to the rooms that act in it, and where they keep what they remember
// of the set between passes. The controller fills in the Pass when it has observed; a room reads it, and asks for
// another pass.
package pass

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
)

// Pass is one pass of one set.
type Pass struct {
	// Set is the pass's own copy, as the cache has it. ScaleSet is the scale set to which its runners belong.
	Set      *v1alpha1.EphemeralRunnerSet
	ScaleSet types.NamespacedName
	// Origin is the AutoscalingRunnerSet that controls the set, nil if there is none. A set that is being deleted goes
	// on if it can't be read: OriginErr says why.
	Origin    *v1alpha1.AutoscalingRunnerSet
	OriginErr error
	// Runners are the set's, oldest first, as the watch has shown them.
	Runners []*roster.Runner
	// Now is the time at which the pass began.
	Now time.Time
	// RequeueAt asks for another pass at a moment; zero means never.
	RequeueAt func(time.Time)
}

// Deleting reports whether the set is being deleted.
func (p *Pass) Deleting() bool { return p.Set.DeletionTimestamp != nil }

// Drained reports whether the set is to take no more jobs.
func (p *Pass) Drained() bool { return p.Origin != nil && p.Origin.Drained() }

// Memories have what a room remembers of each set. A set is in one pass at a time, so only the map has a lock. The zero
// value is empty, as after a restart: what is in it may be lost.
type Memories[M any] struct {
	mu   sync.Mutex
	sets map[types.UID]*M
}

// Of returns what is remembered of a set, a new M if nothing is.
func (m *Memories[M]) Of(set types.UID) *M {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.sets[set]
	if known == nil {
		if m.sets == nil {
			m.sets = map[types.UID]*M{}
		}
		known = new(M)
		m.sets[set] = known
	}
	return known
}

// Has reports whether something is remembered of a set.
func (m *Memories[M]) Has(set types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sets[set] != nil
}

// Forget drops what is remembered of a set.
func (m *Memories[M]) Forget(set types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sets, set)
}
