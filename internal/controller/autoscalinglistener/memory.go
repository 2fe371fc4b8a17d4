package autoscalinglistener

import (
	"cmp"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/internal/kube"
)

// memory is state that only limits rates and waits, and may be lost in a restart.
type memory struct {
	mu        sync.Mutex
	listeners map[types.NamespacedName]*remembered
}

// remembered is the entry of one listener.
type remembered struct {
	// secrets are the listener's Secrets as last written, by suffix.
	secrets map[string]writtenSecret
	// failures counts the pods that ended in a row. failedAt is when the last of them, failedPod, was seen to have ended.
	failures  int
	failedAt  time.Time
	failedPod types.UID
	// deletingSince is when the deletion of each pod that is being deleted was first seen, by UID.
	deletingSince map[types.UID]time.Time
	// announced is the hash of the configuration last announced on the pod, even if the manager was not allowed to.
	announced string
	// news is the hash of a configuration that is still to be announced, first seen at newsAt.
	news   string
	newsAt time.Time
	// obstruction is what keeps the pod from being created. obstructions counts the attempts in a row that met it, the last of
	// them at triedAt.
	obstruction  podState
	obstructions int
	triedAt      time.Time
	// phrasedAt is when the status last took over the text of an error.
	phrasedAt time.Time
}

// writtenSecret is the hash of a Secret, and when it was last written or found to be as it should.
type writtenSecret struct {
	hash      string
	writtenAt time.Time
}

// entryLocked returns the entry of a listener. The caller holds the lock.
func (m *memory) entryLocked(key types.NamespacedName) *remembered {
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

// secretIs reports whether a Secret was written or checked after since, and had this content.
func (m *memory) secretIs(key types.NamespacedName, suffix, hash string, since time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	written := m.entryLocked(key).secrets[suffix]
	return written.hash == hash && written.writtenAt.After(since)
}

// noteSecret is called after a write, or a read that found nothing to write.
func (m *memory) noteSecret(key types.NamespacedName, suffix, hash string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entryLocked(key).secrets[suffix] = writtenSecret{hash: hash, writtenAt: now}
}

// noteFailure counts a pod that ended, only once however often it is seen.
func (m *memory) noteFailure(key types.NamespacedName, pod types.UID, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if entry := m.entryLocked(key); entry.failedPod != pod {
		entry.failures++
		entry.failedAt, entry.failedPod = now, pod
	}
}

// failures returns how many pods ended in a row, and when the last one was seen to have ended.
func (m *memory) failures(key types.NamespacedName) (int, time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	entry := m.entryLocked(key)
	return entry.failures, entry.failedAt
}

// noteSuccess resets the number of failures in a row.
func (m *memory) noteSuccess(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entryLocked(key).failures = 0
}

// noteDeletions returns when the deletion of those pods that are being deleted was first seen, and forgets all others.
func (m *memory) noteDeletions(key types.NamespacedName, pods []corev1.Pod, now time.Time) map[types.UID]time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	entry := m.entryLocked(key)
	since := map[types.UID]time.Time{}
	for i := range pods {
		if pods[i].DeletionTimestamp != nil {
			since[pods[i].UID] = cmp.Or(entry.deletingSince[pods[i].UID], now)
		}
	}
	entry.deletingSince = since
	return since
}

// announces reports whether the configuration is still to be announced, and after what wait. It is consulted besides the pod's
// annotation, so that a pass that sees an old pod in the cache, or is not allowed to patch it, repeats nothing.
func (m *memory) announces(key types.NamespacedName, configuration string, now time.Time) (news bool, wait time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	entry := m.entryLocked(key)
	if entry.announced == configuration {
		return false, 0
	}
	if entry.news != configuration {
		entry.news, entry.newsAt = configuration, now
	}
	return true, max(0, entry.newsAt.Add(announceAfter).Sub(now))
}

// noteAnnounced is called after an attempt to announce the configuration.
func (m *memory) noteAnnounced(key types.NamespacedName, configuration string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entryLocked(key).announced = configuration
}

// noteObstruction remembers an attempt to create the pod that met an obstruction, or none where the state has no reason. It
// reports whether the obstruction is another one than the last.
func (m *memory) noteObstruction(key types.NamespacedName, state podState, now time.Time) (first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	entry := m.entryLocked(key)
	first = entry.obstruction.reason != state.reason
	if first {
		entry.obstructions = 0
	}
	entry.obstruction, entry.triedAt = state, now
	entry.obstructions++
	return first
}

// obstructed returns what kept the pod from being created, and how long to wait until the next attempt.
func (m *memory) obstructed(key types.NamespacedName, now time.Time) (podState, time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	entry := m.entryLocked(key)
	if entry.obstruction.reason == "" {
		return podState{}, 0
	}
	return entry.obstruction, entry.triedAt.Add(kube.ExponentialBackoff(successorBaseDelay, successorMaxDelay, entry.obstructions)).Sub(now)
}

// mayRephrase reports whether the status may take over the text of an error, which it may once in rephrasePeriod.
func (m *memory) mayRephrase(key types.NamespacedName, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	entry := m.entryLocked(key)
	if since := now.Sub(entry.phrasedAt); since >= 0 && since < rephrasePeriod {
		return false
	}
	entry.phrasedAt = now
	return true
}

// forget drops everything that is remembered of a listener that is gone. A new one of the same name starts afresh.
func (m *memory) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.listeners, key)
}
