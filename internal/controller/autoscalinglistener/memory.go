package autoscalinglistener

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/requeue"
)

// memory is what is remembered of a listener between passes.
type memory struct {
	// secrets are the listener's Secrets as last written, by suffix.
	secrets map[string]writtenSecret
	// trusted is what GitHub has accepted last, or what the listener had before this process; nil before it was read.
	trusted *credentials.Resolved
	// failures counts the pods that ended in a row. failedAt is when the last of them, failedPod, was seen to have ended.
	// A pod that becomes ready resets the count.
	failures  int
	failedAt  time.Time
	failedPod types.UID
	// deletingSince is when each pod that is being deleted was first seen in deletion, by UID.
	deletingSince map[types.UID]time.Time
	// kept are the listener's own objects that are to be deleted and have finalizers of others.
	kept kube.Kept
	// announced is the revision of the configuration last announced on the pod, even if the patch was forbidden.
	announced string
	// news is the revision of a configuration that is still to be announced, first seen at newsAt.
	news   string
	newsAt time.Time
	// obstruction is what keeps the pod from being created. obstructions counts the attempts in a row that met it, the last one
	// at triedAt.
	obstruction  podState
	obstructions int
	triedAt      time.Time
	// phrasedAt is when the text of an error was last copied to the status.
	phrasedAt time.Time
	// publishedAddress is the GitHub address in the labels of the listener's series.
	publishedAddress string
}

// writtenSecret is the hash of a Secret, its revision, and when it was last written or found to be up to date.
type writtenSecret struct {
	hash, revision string
	writtenAt      time.Time
}

// secretIs returns a Secret as last written, and reports whether it was written or checked after since, and had this content.
func (m *memory) secretIs(suffix, hash string, since time.Time) (writtenSecret, bool) {
	written := m.secrets[suffix]
	return written, written.hash == hash && written.writtenAt.After(since)
}

// noteSecret is called after a write, or a read that found nothing to write.
func (m *memory) noteSecret(suffix string, written writtenSecret) {
	if m.secrets == nil {
		m.secrets = map[string]writtenSecret{}
	}
	m.secrets[suffix] = written
}

// noteFailure counts a pod that ended, only once no matter how often it is seen.
func (m *memory) noteFailure(pod types.UID, now time.Time) {
	if m.failedPod != pod {
		m.failures++
		m.failedAt, m.failedPod = now, pod
	}
}

// noteDeletions notes the pods that are being deleted, and forgets all others.
func (m *memory) noteDeletions(pods []corev1.Pod, now time.Time) {
	since := map[types.UID]time.Time{}
	for i := range pods {
		if pods[i].DeletionTimestamp != nil {
			since[pods[i].UID] = cmp.Or(m.deletingSince[pods[i].UID], now)
		}
	}
	m.deletingSince = since
}

// announces reports whether the configuration is still to be announced, and how long to wait before. The pod's annotation alone
// doesn't do: a pass that sees an outdated pod in the cache, or that may not patch it, must not announce again.
func (m *memory) announces(configuration string, now time.Time) (news bool, wait time.Duration) {
	if m.announced == configuration {
		return false, 0
	}
	if m.news != configuration {
		m.news, m.newsAt = configuration, now
	}
	return true, max(0, m.newsAt.Add(announceAfter).Sub(now))
}

// noteObstruction records an attempt to create the pod that met an obstruction, or none if the state has no reason. It reports
// whether the obstruction differs from the last one.
func (m *memory) noteObstruction(state podState, now time.Time) (first bool) {
	first = m.obstruction.reason != state.reason
	if first {
		m.obstructions = 0
	}
	m.obstruction, m.triedAt = state, now
	m.obstructions++
	return first
}

// obstructed returns what kept the pod from being created, and how long to wait until the next attempt.
func (m *memory) obstructed(now time.Time) (podState, time.Duration) {
	if m.obstruction.reason == "" {
		return podState{}, 0
	}
	return m.obstruction, m.triedAt.Add(requeue.Backoff(successorBaseDelay, successorMaxDelay, m.obstructions)).Sub(now)
}

// mayRephrase reports whether the text of an error may be copied to the status, which is allowed once in rephrasePeriod.
func (m *memory) mayRephrase(now time.Time) bool {
	if since := now.Sub(m.phrasedAt); since >= 0 && since < rephrasePeriod {
		return false
	}
	m.phrasedAt = now
	return true
}
