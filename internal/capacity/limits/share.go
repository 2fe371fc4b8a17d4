package limits

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/meaning"
)

// Share is the part of a job's wait during which its scale set was at a limit, by the phase that the job waited for
// meanwhile.
type Share struct{ Assigned, Created, Placed time.Duration }

// Plus adds another part, of another time.
func (s Share) Plus(other Share) Share {
	return Share{s.Assigned + other.Assigned, s.Created + other.Created, s.Placed + other.Placed}
}

// ByPhase has the parts by the names of their phases.
func (s Share) ByPhase() map[string]time.Duration {
	return map[string]time.Duration{
		meaning.PhaseAssigned: s.Assigned, meaning.PhaseCreated: s.Created, meaning.PhasePlaced: s.Placed,
	}
}

// Whole is the part in all phases together.
func (s Share) Whole() time.Duration { return s.Assigned + s.Created + s.Placed }

// ShareOf returns the part of a job's wait that lies between two times, during which a limit of a kind held. GitHub
// keeps a job for as long as the set has no room, whatever the limit is. After GitHub has assigned it, a limit on the
// number of jobs counts only if it held before: with the last job that fits the set reaches it, and that job has its
// room. After its runner was created, the job waits for what refuses pods, and no longer for room among jobs.
func ShareOf(kind v1alpha1.LimitKind, from, to time.Time, reached *v1alpha1.RunnerPhases) (share Share) {
	if kind == None || reached == nil {
		return share
	}
	begin := reached.Queued
	if begin == nil {
		begin = reached.Assigned
	}
	if begin == nil {
		return share
	}
	at := begin.Time
	phase := func(end *metav1.Time, counts bool) (took time.Duration) {
		if end == nil {
			return 0
		}
		if counts {
			took = overlap(at, end.Time, from, to)
		}
		if end.After(at) {
			at = end.Time
		}
		return took
	}
	held := reached.Assigned == nil || from.Before(reached.Assigned.Time)
	share.Assigned = phase(reached.Assigned, true)
	share.Created = phase(reached.Created, held || !ofJobs(kind))
	phase(reached.Registered, false)
	share.Placed = phase(reached.Placed, refusesPods(kind))
	return share
}

// ofJobs reports whether a limit is one on the number of jobs.
func ofJobs(kind v1alpha1.LimitKind) bool {
	return kind == Announced || kind == Ceiling || kind == Maximum
}

// refusesPods reports whether a limit keeps runners that exist from having a pod on a node.
func refusesPods(kind v1alpha1.LimitKind) bool {
	return kind == Quota || kind == Claims || kind == Failures
}

// overlap returns how long two times overlap.
func overlap(from, to, otherFrom, otherTo time.Time) time.Duration {
	if otherFrom.After(from) {
		from = otherFrom
	}
	if otherTo.Before(to) {
		to = otherTo
	}
	return max(0, to.Sub(from))
}
