package autoscalinglistener

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/internal/kube"
)

// memory is what only bounds rates and may be lost in a restart.
type memory struct {
	mu        sync.Mutex
	listeners map[types.NamespacedName]*remembered
}

type remembered struct {
	// secrets are the listener's Secrets as last written, by suffix.
	secrets map[string]writtenSecret
	// failures counts the pods that ended in a row, and failedAt is when the last one was seen to have.
	failures  int
	failedAt  time.Time
	failedPod types.UID
	// announced is the configuration that the pod was last told of, or would have been if the manager might.
	announced string
	// news is a configuration that the pod has yet to be told of, known since newsSince.
	news      string
	newsSince time.Time
	// obstruction is what keeps the pod from being created, obstructions are the tries in a row that met it, and triedAt is
	// the last of them.
	obstruction  podState
	obstructions int
	triedAt      time.Time
}

type writtenSecret struct {
	hash string
	at   time.Time
}

// of returns the entry of a listener. The caller holds the lock.
func (m *memory) of(key types.NamespacedName) *remembered {
	if m.listeners == nil {
		m.listeners = map[types.NamespacedName]*remembered{}
	}
	entry, known := m.listeners[key]
	if !known {
		entry = &remembered{secrets: map[string]writtenSecret{}}
		m.listeners[key] = entry
	}
	return entry
}

// secretIs says that a Secret was written with this content, and looked at no earlier than since.
func (m *memory) secretIs(key types.NamespacedName, suffix, hash string, since time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	written := m.of(key).secrets[suffix]
	return written.hash == hash && written.at.After(since)
}

// noteSecret is told after a write, or a look that found nothing to write.
func (m *memory) noteSecret(key types.NamespacedName, suffix, hash string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of(key).secrets[suffix] = writtenSecret{hash: hash, at: now}
}

// noteFailure counts a pod that ended, once however often it is seen.
func (m *memory) noteFailure(key types.NamespacedName, pod types.UID, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if entry := m.of(key); entry.failedPod != pod {
		entry.failures++
		entry.failedAt, entry.failedPod = now, pod
	}
}

// failures returns how many pods ended in a row, and when the last one was seen to have.
func (m *memory) failures(key types.NamespacedName) (int, time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	entry := m.of(key)
	return entry.failures, entry.failedAt
}

// noteSuccess ends the row.
func (m *memory) noteSuccess(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of(key).failures = 0
}

// announces says that the configuration is news, and how long it still has to wait. It is asked beside the pod's own
// annotation, so that a pass that is faster than the cache, or may not write, repeats nothing.
func (m *memory) announces(key types.NamespacedName, configuration string, now time.Time) (news bool, wait time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	entry := m.of(key)
	if entry.announced == configuration {
		return false, 0
	}
	if entry.news != configuration {
		entry.news, entry.newsSince = configuration, now
	}
	return true, max(0, entry.newsSince.Add(announceAfter).Sub(now))
}

func (m *memory) noteAnnounced(key types.NamespacedName, configuration string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of(key).announced = configuration
}

// noteObstruction records a try to create the pod that met an obstruction, or none where the state has no reason. It says
// whether the obstruction is new.
func (m *memory) noteObstruction(key types.NamespacedName, state podState, now time.Time) (first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	entry := m.of(key)
	first = entry.obstruction.reason != state.reason
	if first {
		entry.obstructions = 0
	}
	entry.obstruction, entry.triedAt = state, now
	entry.obstructions++
	return first
}

// obstructed returns what kept the pod from being created, and how long that need not be tried again.
func (m *memory) obstructed(key types.NamespacedName, now time.Time) (podState, time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	entry := m.of(key)
	if entry.obstruction.reason == "" {
		return podState{}, 0
	}
	return entry.obstruction, entry.triedAt.Add(kube.ExponentialBackoff(successorFirst, successorMost, entry.obstructions)).Sub(now)
}

// forget drops everything remembered of a listener that is gone; a new one of the same name begins anew.
func (m *memory) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.listeners, key)
}
