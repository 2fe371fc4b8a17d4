package limited_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/capacity/limits"
	"github.com/harrier-ci/harrier/operations/history/ledger"
	"github.com/harrier-ci/harrier/operations/history/watch/limited"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// set is a scale set whose status tells limits; each call tells another one from a time on.
type toldSet struct {
	seen limited.Times
	set  v1alpha1.AutoscalingRunnerSet
}

func (s *toldSet) limit(kind v1alpha1.LimitKind, reason string, most int, since, seen time.Time) {
	s.set.Namespace, s.set.Name = "n", "s"
	s.set.Status.EffectiveMaxRunners = &most
	s.set.Status.LimitedBy = &v1alpha1.Limit{Kind: kind, Reason: reason, Since: metav1.NewTime(since)}
	s.seen.Saw(&s.set, seen)
}

func (s *toldSet) free(seen time.Time) {
	s.set.Status.LimitedBy = nil
	s.seen.Saw(&s.set, seen)
}

// waited is a job that was queued at noon, assigned after 61 s, and whose pod had a node 10 s after its runner was
// created.
func waited() ledger.Job {
	return ledger.Job{RunnerUID: "u", Cluster: "c", Namespace: "n", Set: "s", At: noon.Add(90 * time.Second),
		Queued: noon, Assigned: noon.Add(61 * time.Second), Created: noon.Add(65 * time.Second),
		Placed: noon.Add(75 * time.Second), Started: noon.Add(90 * time.Second)}
}

// The share of a wait during which the set was at its limit is the set's, with the limit's name and number, and the
// parts of the wait add up to the wait.
func TestTheShareOfAWaitAtTheSetsLimit(t *testing.T) {
	at := func(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }
	for title, test := range map[string]struct {
		tell   func(*toldSet)
		reason string
		number int64
		want   map[string]time.Duration
	}{
		"at its maximum from before until the job was assigned, but for a moment": {func(s *toldSet) {
			s.limit(limits.Maximum, "MaxRunnersReached", 3, at(-300), at(-299))
			s.free(at(60))
			s.limit(limits.Maximum, "MaxRunnersReached", 3, at(-300), at(62))
		}, "MaxRunnersReached", 3, map[string]time.Duration{"limited": 65, "assigned": 0, "created": 0, "placed": 10, "started": 15}},
		"for a part": {func(s *toldSet) {
			s.limit(limits.Maximum, "MaxRunnersReached", 3, at(-300), at(-299))
			s.free(at(20))
		}, "MaxRunnersReached", 3, map[string]time.Duration{"limited": 20, "assigned": 41, "created": 4, "placed": 10, "started": 15}},
		"the ledger begins late": {func(s *toldSet) {
			s.limit(limits.Maximum, "MaxRunnersReached", 3, at(-300), at(80))
		}, "MaxRunnersReached", 3, map[string]time.Duration{"limited": 65, "assigned": 0, "created": 0, "placed": 10, "started": 15}},
		"the job was the last that fit": {func(s *toldSet) {
			s.limit(limits.Maximum, "MaxRunnersReached", 3, at(61), at(61))
		}, "", -1, map[string]time.Duration{"assigned": 61, "created": 4, "placed": 10, "started": 15}},
		"a quota": {func(s *toldSet) {
			s.limit(limits.Quota, "QuotaExceeded", 3, at(62), at(62))
			s.free(at(72))
		}, "QuotaExceeded", -1, map[string]time.Duration{"limited": 10, "assigned": 61, "created": 1, "placed": 3, "started": 15}},
		"claims": {func(s *toldSet) {
			s.limit(limits.Claims, "VolumeUnbound", 3, at(66), at(66))
		}, "VolumeUnbound", -1, map[string]time.Duration{"limited": 9, "assigned": 61, "created": 4, "placed": 1, "started": 15}},
		"the maximum is raised from 2 to 3": {func(s *toldSet) {
			s.limit(limits.Maximum, "MaxRunnersReached", 2, at(-300), at(-299))
			s.limit(limits.Maximum, "MaxRunnersReached", 3, at(-300), at(10))
			s.free(at(50))
		}, "MaxRunnersReached", 3, map[string]time.Duration{"limited": 50, "assigned": 11, "created": 4, "placed": 10, "started": 15}},
		"a status from the future": {func(s *toldSet) {
			s.limit(limits.Maximum, "MaxRunnersReached", 3, at(9000), at(31))
			s.free(at(41))
		}, "MaxRunnersReached", 3, map[string]time.Duration{"limited": 10, "assigned": 51, "created": 4, "placed": 10, "started": 15}},
	} {
		t.Run(title, func(t *testing.T) {
			s, job := &toldSet{}, waited()
			test.tell(s)
			s.seen.Add(&job, at(100))
			if job.LimitedReason != test.reason || ptr.Deref(job.LimitNumber, -1) != test.number {
				t.Errorf("limited by %s at %d", job.LimitedReason, ptr.Deref(job.LimitNumber, -1))
			}
			whole := time.Duration(0)
			for _, wait := range job.Waits() {
				if want, known := test.want[wait.Phase]; !known || wait.Took != want*time.Second {
					t.Errorf("%s took %s, want %d s", wait.Phase, wait.Took, want)
				}
				whole += wait.Took
			}
			if whole != 90*time.Second {
				t.Errorf("the parts add up to %s", whole)
			}
		})
	}
}

// A set that changes its limit for ever takes bounded memory, and one that is gone none.
func TestLimitsAreBounded(t *testing.T) {
	s := &toldSet{}
	for i := range 10_000 {
		at := noon.Add(time.Duration(i) * time.Second)
		s.limit(limits.Maximum, "MaxRunnersReached", i, at, at)
	}
	if known := s.seen.Known(); known > 200 {
		t.Errorf("%d are remembered", known)
	}
}
