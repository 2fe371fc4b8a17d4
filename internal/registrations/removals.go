package registrations

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"
)

// rememberedFor is how long an answer is remembered. The runner's object is deleted, or its pod marked as busy, within a second
// after it.
const rememberedFor = 5 * time.Minute

// Removals remembers which registrations GitHub has removed, or refused to remove because of a job: a set has surplus runners removed,
// and the runner's own controller finalizes them, or protects the job, so what one has learned, the other needn't ask again. It is lost
// in a restart: then GitHub is asked once more. Nil remembers nothing.
type Removals struct {
	removed, busy *cache.Expiring

	mu   sync.Mutex
	wake func(runner types.NamespacedName)
}

// removal identifies a registration by its id on GitHub and the runner that had it, because two servers may use the same id.
type removal struct {
	runner types.UID
	id     int
}

// NewRemovals returns an empty memory.
func NewRemovals(clk clock.Clock) *Removals {
	return &Removals{removed: cache.NewExpiringWithClock(clk), busy: cache.NewExpiringWithClock(clk), wake: func(types.NamespacedName) {}}
}

// Note remembers that GitHub no longer has the registration of a runner object.
func (m *Removals) Note(runner types.UID, id int) {
	if m != nil {
		m.removed.Set(removal{runner, id}, nil, rememberedFor)
	}
}

// Has reports whether GitHub is known to have removed the registration of a runner object.
func (m *Removals) Has(runner types.UID, id int) bool {
	if m == nil {
		return false
	}
	_, remembered := m.removed.Get(removal{runner, id})
	return remembered
}

// WhenBusy has a function called, which must not block, with each runner that NoteBusy is called for from now on.
func (m *Removals) WhenBusy(wake func(runner types.NamespacedName)) {
	if m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.wake = wake
	}
}

// NoteBusy remembers that GitHub has refused to remove the registration of a runner object, which has a job.
func (m *Removals) NoteBusy(name types.NamespacedName, runner types.UID, id int) {
	if m == nil {
		return
	}
	m.busy.Set(removal{runner, id}, nil, rememberedFor)
	m.mu.Lock()
	wake := m.wake
	m.mu.Unlock()
	wake(name)
}

// Busy reports whether GitHub has refused to remove the registration of a runner object because of a job.
func (m *Removals) Busy(runner types.UID, id int) bool {
	if m == nil {
		return false
	}
	_, remembered := m.busy.Get(removal{runner, id})
	return remembered
}
