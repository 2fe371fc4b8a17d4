package pool

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// rememberedFor is how long it is remembered that a registration was removed, twice as long at most. The runner's object
// is deleted within a second of it.
const rememberedFor = 5 * time.Minute

// Removed remembers which registrations GitHub has removed because one controller asked, so that another need not ask
// again. It is memory only: what is forgotten is asked about once more. A nil Removed remembers nothing.
type Removed struct {
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

// NewRemoved returns an empty memory.
func NewRemoved(clock clock.PassiveClock) *Removed { return &Removed{clock: clock} }

// Note remembers that GitHub has agreed to remove the registration of a runner object.
func (r *Removed) Note(runner types.UID, id int) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.age()
	r.young[removal{runner, id}] = struct{}{}
}

// Has says whether that is remembered.
func (r *Removed) Has(runner types.UID, id int) bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.age()
	_, young := r.young[removal{runner, id}]
	_, old := r.old[removal{runner, id}]
	return young || old
}

// age forgets what is old enough, in two generations, so that nothing has to be looked through. The caller holds the lock.
func (r *Removed) age() {
	now := r.clock.Now()
	switch idle := now.Sub(r.since); {
	case r.young == nil || idle >= 2*rememberedFor:
		r.young, r.old, r.since = map[removal]struct{}{}, nil, now
	case idle >= rememberedFor:
		r.young, r.old, r.since = map[removal]struct{}{}, r.young, now
	}
}
