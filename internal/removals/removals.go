// Package removals remembers which registrations GitHub has removed. The EphemeralRunnerSet's controller asks GitHub to remove
// surplus runners, the EphemeralRunner's controller finishes them: what the one has learned here, the other need not ask again.
package removals

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// rememberedFor is how long it is remembered that a registration was removed, twice as long at most. The runner's object
// is deleted within a second of it.
const rememberedFor = 5 * time.Minute

// Memory remembers which registrations GitHub has removed because one controller asked, so that another need not ask
// again. It is memory only: what is forgotten is asked about once more. A nil Memory remembers nothing.
type Memory struct {
	clock clock.PassiveClock

	mu         sync.Mutex
	since      time.Time // when young was begun
	young, old map[removal]struct{}
}

// removal names a registration by its id on GitHub and the runner that had it, for ids of two servers may be alike.
type removal struct {
	runner types.UID
	id     int
}

// New returns an empty memory.
func New(clock clock.PassiveClock) *Memory { return &Memory{clock: clock} }

// Note remembers that GitHub has agreed to remove the registration of a runner object.
func (m *Memory) Note(runner types.UID, id int) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.age()
	m.young[removal{runner, id}] = struct{}{}
}

// Has reports whether that is remembered.
func (m *Memory) Has(runner types.UID, id int) bool {
	if m == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.age()
	_, young := m.young[removal{runner, id}]
	_, old := m.old[removal{runner, id}]
	return young || old
}

// age forgets what is old enough, in two generations, so that nothing has to be looked through. The caller holds the lock.
func (m *Memory) age() {
	now := m.clock.Now()
	switch idle := now.Sub(m.since); {
	case m.young == nil || idle >= 2*rememberedFor:
		m.young, m.old, m.since = map[removal]struct{}{}, nil, now
	case idle >= rememberedFor:
		m.young, m.old, m.since = map[removal]struct{}{}, m.young, now
	}
}
