package autoscalingrunnerset

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// memory is state that only limits rates and waits, and may be lost in a restart.
type memory struct {
	mu                   sync.Mutex
	statusWrites         map[types.NamespacedName]time.Time
	deregistrationStarts map[types.NamespacedName]time.Time
	scaling              map[types.NamespacedName]scaling
	shown                map[types.NamespacedName][]trouble
	begun                map[types.NamespacedName]bool
}

// show publishes the metrics of a set's conditions. A set that is being deleted has no series, so that no alert fires for it.
func (m *memory) show(key types.NamespacedName, conditions []metav1.Condition, deleting bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if deleting {
		unpublish(key)
		delete(m.shown, key)
		return
	}
	if m.shown == nil {
		m.shown = map[types.NamespacedName][]trouble{}
	}
	m.shown[key] = publish(key, conditions, m.shown[key])
}

// scaled returns the set's size as last recorded, and false where it has not been recorded.
func (m *memory) scaled(key types.NamespacedName) (scaling, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, known := m.scaling[key]
	return last, known
}

// noteScaled remembers the set's size as it was recorded.
func (m *memory) noteScaled(key types.NamespacedName, recorded scaling) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.scaling == nil {
		m.scaling = map[types.NamespacedName]scaling{}
	}
	m.scaling[key] = recorded
}

// statusWrittenAt returns when the set's status was last written.
func (m *memory) statusWrittenAt(key types.NamespacedName) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.statusWrites[key]
}

// noteStatus is called only after a write: a pass that changes nothing doesn't delay the next write.
func (m *memory) noteStatus(key types.NamespacedName, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.statusWrites == nil {
		m.statusWrites = map[types.NamespacedName]time.Time{}
	}
	m.statusWrites[key] = now
}

// deregistrationStart returns when the deregistration began, which is now at the first call.
func (m *memory) deregistrationStart(key types.NamespacedName, now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	since, known := m.deregistrationStarts[key]
	if !known {
		if m.deregistrationStarts == nil {
			m.deregistrationStarts = map[types.NamespacedName]time.Time{}
		}
		since, m.deregistrationStarts[key] = now, now
	}
	return since
}

// forgetDeregistration lets the next deregistration begin with a deadline of its own.
func (m *memory) forgetDeregistration(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.deregistrationStarts, key)
}

// noteBegun is called for a set that no manager has served before.
func (m *memory) noteBegun(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.begun == nil {
		m.begun = map[types.NamespacedName]bool{}
	}
	m.begun[key] = true
}

// begunHere reports whether no process but this one has ever asked GitHub for anything on behalf of the set.
func (m *memory) begunHere(key types.NamespacedName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.begun[key]
}

// forget drops everything that is remembered of a set.
func (m *memory) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.statusWrites, key)
	delete(m.scaling, key)
	delete(m.deregistrationStarts, key)
	delete(m.shown, key)
	delete(m.begun, key)
}
