package autoscalingrunnerset

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/internal/kube"
)

// memory is state that only limits rates and waits, and may be lost in a restart.
type memory struct {
	mu   sync.Mutex
	sets map[types.NamespacedName]*setMemory
}

// setMemory is the entry of one set.
type setMemory struct {
	// statusWrittenAt is when the status was last written.
	statusWrittenAt time.Time
	// deregistrationStart is when the deregistration began, zero while there is none.
	deregistrationStart time.Time
	// size is the set's size as last recorded, nil where it has not been recorded.
	size *scaling
	// troubles are those that the metrics show.
	troubles []trouble
	// begunHere is set when no process but this one has ever asked GitHub for anything on behalf of the set.
	begunHere bool
	// stripped is the last release of the chart that stripProtection has dealt with.
	stripped strippedRelease
}

// entryLocked returns the entry of a set. The caller holds the lock.
func (m *memory) entryLocked(key types.NamespacedName) *setMemory {
	if m.sets == nil {
		m.sets = map[types.NamespacedName]*setMemory{}
	}
	entry, known := m.sets[key]
	if !known {
		entry = &setMemory{}
		m.sets[key] = entry
	}
	return entry
}

// show publishes the metrics of a set's conditions. A set that is being deleted has no series, so that no alert fires for it.
func (m *memory) show(key types.NamespacedName, conditions []metav1.Condition, deleting bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	entry := m.entryLocked(key)
	if deleting {
		unpublish(key)
		entry.troubles = nil
		return
	}
	entry.troubles = publish(key, conditions, entry.troubles)
}

// scaled returns the set's size as last recorded, and false where it has not been recorded.
func (m *memory) scaled(key types.NamespacedName) (scaling, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if size := m.entryLocked(key).size; size != nil {
		return *size, true
	}
	return scaling{}, false
}

// noteScaled remembers the set's size as it was recorded.
func (m *memory) noteScaled(key types.NamespacedName, recorded scaling) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entryLocked(key).size = &recorded
}

// statusWrittenAt returns when the set's status was last written.
func (m *memory) statusWrittenAt(key types.NamespacedName) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.entryLocked(key).statusWrittenAt
}

// noteStatus is called only after a write: a pass that changes nothing doesn't delay the next write.
func (m *memory) noteStatus(key types.NamespacedName, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entryLocked(key).statusWrittenAt = now
}

// deregistrationStart returns when the deregistration began, which is now at the first call.
func (m *memory) deregistrationStart(key types.NamespacedName, now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	entry := m.entryLocked(key)
	kube.SetIfZero(&entry.deregistrationStart, now)
	return entry.deregistrationStart
}

// forgetDeregistration lets the next deregistration begin with a deadline of its own.
func (m *memory) forgetDeregistration(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entryLocked(key).deregistrationStart = time.Time{}
}

// noteBegun is called for a set that no manager has served before.
func (m *memory) noteBegun(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entryLocked(key).begunHere = true
}

// begunHere reports whether no process but this one has ever asked GitHub for anything on behalf of the set.
func (m *memory) begunHere(key types.NamespacedName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.entryLocked(key).begunHere
}

// stripped returns which release of the set's chart was last noted by noteStripped.
func (m *memory) stripped(key types.NamespacedName) strippedRelease {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.entryLocked(key).stripped
}

// noteStripped is called after ARC's finalizer was removed from the objects of the set's chart, as far as the API server lets it be.
func (m *memory) noteStripped(key types.NamespacedName, release strippedRelease) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entryLocked(key).stripped = release
}

// forget drops everything that is remembered of a set.
func (m *memory) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sets, key)
}
