// Package limited remembers at which limits scale sets were, for the part of a job's wait that was theirs.
package limited

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/capacity/limits"
	"github.com/harrier-ci/harrier/operations/history/ledger"
	"github.com/harrier-ci/harrier/operations/history/watch/times"
)

// Times are the times during which scale sets were at their limits, as far as their status has told it since the
// ledger began, and since when the limit held that it found.
type Times struct {
	mu sync.Mutex
	of map[types.NamespacedName][]held
}

// held is a time during which a set was at a limit; to is zero while it is.
type held struct {
	kind     v1alpha1.LimitKind
	reason   string
	number   *int64
	from, to time.Time
}

// keptLimits bounds what is remembered of a set, of about 100 B each: a job that waits longer than the last so many limits
// held lacks the first of them.
const keptLimits = 200

// Saw takes in what the status of a set says.
func (l *Times) Saw(set *v1alpha1.AutoscalingRunnerSet, now time.Time) {
	key := types.NamespacedName{Namespace: set.Namespace, Name: set.Name}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[types.NamespacedName][]held{}
	}
	known := l.of[key]
	var last *held
	if len(known) > 0 {
		last = &known[len(known)-1]
	}
	by := set.Status.LimitedBy
	if by == nil {
		if last != nil && last.to.IsZero() {
			last.to = now
		}
		return
	}
	at := held{kind: by.Kind, reason: ledger.Clean(by.Reason), number: numberOf(set), from: by.Since.UTC()}
	if at.from.After(now) || now.Sub(at.from) > times.LongestQueue {
		at.from = now // nobody's word
	}
	if last != nil {
		if last.reason == at.reason && ptr.Equal(last.number, at.number) && !at.from.After(last.from) {
			last.to = time.Time{} // it did not hold for a moment only
			return
		}
		if last.to.IsZero() {
			last.to = now
			if at.from.After(last.from) {
				last.to = at.from
			}
		}
		if last.to.After(at.from) {
			at.from = last.to
		}
	}
	known = append(known, at)
	l.of[key] = slices.Delete(known, 0, max(0, len(known)-keptLimits))
}

// numberOf returns the number of a set's limit, nil if it has none.
func numberOf(set *v1alpha1.AutoscalingRunnerSet) (number *int64) {
	of := func(known *int) {
		if known != nil {
			number = new(int64(*known))
		}
	}
	switch set.Status.LimitedBy.Kind {
	case limits.Maximum, limits.Ceiling:
		of(set.Status.EffectiveMaxRunners)
	case limits.Announced:
		of(set.Status.AdvertisedCapacity)
	case limits.NoJobs:
		of(new(0))
	}
	return number
}

// Gone forgets a set.
func (l *Times) Gone(set types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.of, set)
}

// Add adds to a job for how long its set was at a limit while it waited, and which limit held longest.
func (l *Times) Add(job *ledger.Job, now time.Time) {
	l.mu.Lock()
	known := slices.Clone(l.of[types.NamespacedName{Namespace: job.Namespace, Name: job.Set}])
	l.mu.Unlock()
	reached := job.Reached()
	type name struct {
		reason string
		number int64
	}
	var whole limits.Share
	longest, shares := held{}, map[name]limits.Share{}
	named := func(t *held) name { return name{t.reason, ptr.Deref(t.number, -1)} }
	for i := range known {
		t := &known[i]
		to := t.to
		if to.IsZero() {
			to = now.Add(times.MaxAhead) // clocks differ, and what the job waited for is over
		}
		share := limits.ShareOf(t.kind, t.from, to, reached)
		whole = whole.Plus(share)
		shares[named(t)] = shares[named(t)].Plus(share)
		if cmp.Compare(shares[named(t)].Whole(), shares[named(&longest)].Whole()) > 0 {
			longest = *t
		}
	}
	if whole.Whole() < time.Second {
		return
	}
	seconds := func(part time.Duration) *int64 {
		if part < time.Second {
			return nil
		}
		return new(int64(part / time.Second))
	}
	job.LimitedReason, job.LimitNumber = longest.reason, longest.number
	job.LimitedAssigned, job.LimitedCreated, job.LimitedPlaced = seconds(whole.Assigned), seconds(whole.Created),
		seconds(whole.Placed)
}
