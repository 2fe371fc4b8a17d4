package autoscalingrunnerset

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// memory is what only bounds rates and waits and may be lost in a restart.
type memory struct {
	mu            sync.Mutex
	written       map[types.NamespacedName]time.Time
	deregistering map[types.NamespacedName]time.Time
	scaling       map[types.NamespacedName]scaling
	shown         map[types.NamespacedName][]trouble
	begun         map[types.NamespacedName]bool
}

// show publishes the metrics of a set's conditions. Nobody has to be called for a set that is on its way out: it has none.
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

// scaled returns what was last told of the set's size, if anything was.
func (m *memory) scaled(key types.NamespacedName) (scaling, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, known := m.scaling[key]
	return last, known
}

func (m *memory) noteScaled(key types.NamespacedName, told scaling) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.scaling == nil {
		m.scaling = map[types.NamespacedName]scaling{}
	}
	m.scaling[key] = told
}

// statusWritten returns when the set's status was last written.
func (m *memory) statusWritten(key types.NamespacedName) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.written[key]
}

// noteStatus is told after a write only: a pass that changes nothing delays nobody.
func (m *memory) noteStatus(key types.NamespacedName, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.written == nil {
		m.written = map[types.NamespacedName]time.Time{}
	}
	m.written[key] = now
}

// deregistrationSince returns when the deregistration began, which is now if nobody asked before.
func (m *memory) deregistrationSince(key types.NamespacedName, now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	since, known := m.deregistering[key]
	if !known {
		if m.deregistering == nil {
			m.deregistering = map[types.NamespacedName]time.Time{}
		}
		since, m.deregistering[key] = now, now
	}
	return since
}

// forgetDeregistration makes room for another, with a deadline of its own.
func (m *memory) forgetDeregistration(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.deregistering, key)
}

// noteBegun is told of a set that no manager has served before.
func (m *memory) noteBegun(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.begun == nil {
		m.begun = map[types.NamespacedName]bool{}
	}
	m.begun[key] = true
}

// begunHere says that nobody but this process has ever asked anything of GitHub for the set.
func (m *memory) begunHere(key types.NamespacedName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.begun[key]
}

func (m *memory) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.written, key)
	delete(m.scaling, key)
	delete(m.deregistering, key)
	delete(m.shown, key)
	delete(m.begun, key)
}
