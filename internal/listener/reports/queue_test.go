package reports

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
)

// waiters returns deliveries of one report each.
func waiters(count int) []*sync.WaitGroup {
	all := make([]*sync.WaitGroup, count)
	for i := range all {
		all[i] = &sync.WaitGroup{}
		all[i].Add(1)
	}
	return all
}

// report returns a report about a runner, recognizable by its patchID.
func report(runner, result string, patchID int) Report {
	r := Report{Runner: runner}
	r.Status.JobResult, r.Status.JobPatchID = result, patchID
	return r
}

func newReportQueue() *reportQueue { return &reportQueue{byRunner: map[string]*pendingReport{}} }

// writeAll writes everything and returns it in order, with every attempt successful.
func (q *reportQueue) writeAll() (all []string) {
	for p := q.next(time.Time{}); p != nil; p = q.next(time.Time{}) {
		all = append(all, fmt.Sprint(p.Runner, " ", p.Status.JobResult, " ", p.Status.JobPatchID))
		q.done(p, time.Time{})
	}
	return all
}

func TestReportQueueOrder(t *testing.T) {
	for name, test := range map[string]struct {
		reports []Report
		want    []string
	}{
		"ends before starts":  {[]Report{report("a", "", 1), report("b", "failed", 2)}, []string{"b failed 2", "a  1"}},
		"each in their order": {[]Report{report("b", "", 1), report("a", "", 2)}, []string{"b  1", "a  2"}},
		"an end says the start too": {
			[]Report{report("a", "", 1), report("b", "", 1), report("a", "failed", 2)}, []string{"a failed 2", "b  1"}},
		"a late start keeps the end": {
			[]Report{report("a", "failed", 1), report("a", "", 2)}, []string{"a failed 2"}},
		"the last of two ends": {
			[]Report{report("a", "failed", 1), report("a", "succeeded", 2)},
			[]string{"a succeeded 2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := newReportQueue()
			for _, report := range test.reports {
				all := waiters(1)
				q.add(report, all[0], time.Time{})
				defer all[0].Wait()
			}
			if diff := cmp.Diff(test.want, q.writeAll()); diff != "" {
				t.Errorf("reports (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnEndWaitsForTheStartUnderWay(t *testing.T) {
	q, all := newReportQueue(), waiters(3)
	q.add(report("a", "", 1), all[0], time.Time{})
	first := q.next(time.Time{})
	q.add(report("a", "", 2), all[1], time.Time{})
	q.add(report("a", "failed", 3), all[2], time.Time{})
	if again := q.next(time.Time{}); again != nil {
		t.Fatalf("%+v is written beside the first", again.Report)
	}
	q.done(first, time.Time{})
	all[0].Wait()
	if diff := cmp.Diff([]string{"a failed 3"}, q.writeAll()); diff != "" {
		t.Errorf("after it (-want +got):\n%s", diff)
	}
	all[1].Wait()
	all[2].Wait()
}

func TestAFailedStartIsTriedAgainWithTheEnd(t *testing.T) {
	q, all := newReportQueue(), waiters(3)
	q.add(report("a", "", 1), all[0], time.Time{})
	first := q.next(time.Time{})
	q.add(report("a", "", 2), all[1], time.Time{})
	q.failed(first, errBroken, time.Time{}, time.Time{})
	q.add(report("a", "failed", 3), all[2], time.Time{})
	if early := q.next(time.Time{}); early != nil {
		t.Fatalf("%+v is written in its pause", early.Report)
	}
	q.enqueue(first, time.Time{})
	if diff := cmp.Diff([]string{"a failed 3"}, q.writeAll()); diff != "" {
		t.Errorf("after the pause (-want +got):\n%s", diff)
	}
	for _, waits := range all {
		waits.Wait()
	}
}

// In every order of events, the reports about a runner are written one at a time and together say what all of them
// said, the limit is kept, and each delivery is done a single time.
func TestReportQueueUnderRandomEvents(t *testing.T) {
	for seed := range uint64(300) {
		s := &randomReports{
			t: t, random: rand.New(rand.NewPCG(seed, 0)), q: newReportQueue(),
			said: map[string]Report{}, want: map[string]Report{},
		}
		for range 400 {
			s.event()
		}
		for len(s.q.byRunner) > 0 {
			s.settle()
		}
		if diff := cmp.Diff(s.want, s.said); diff != "" {
			t.Fatalf("seed %d: reports of the runners (-want +got):\n%s", seed, diff)
		}
		for _, waits := range s.waiting {
			waits.Wait()
		}
		if s.q.writing != 0 || s.q.startsWriting != 0 || len(s.q.ends)+len(s.q.starts) != 0 {
			t.Fatalf("seed %d: at the end %d under way, %d of them starts, %d wait",
				seed, s.q.writing, s.q.startsWriting, len(s.q.ends)+len(s.q.starts))
		}
	}
}

// randomReports plays random events.
type randomReports struct {
	t               *testing.T
	random          *rand.Rand
	q               *reportQueue
	writing, paused []*pendingReport
	patchID         int
	said, want      map[string]Report
	waiting         []*sync.WaitGroup
}

func (s *randomReports) event() {
	if s.random.IntN(2) == 0 {
		s.settle()
		return
	}
	s.patchID++
	result := []string{"", "failed", "succeeded"}[s.random.IntN(3)]
	next := report(fmt.Sprint("runner-", s.random.IntN(60)), result, s.patchID)
	waits := waiters(1)[0]
	s.waiting = append(s.waiting, waits)
	s.q.add(next, waits, time.Time{})
	apply(s.want, next)
}

// settle begins what the limit allows, then lets one write succeed or fail, or one pause end.
func (s *randomReports) settle() {
	for p := s.q.next(time.Time{}); p != nil; p = s.q.next(time.Time{}) {
		for _, other := range s.writing {
			if other.Runner == p.Runner {
				s.t.Fatalf("two reports about %s at once", p.Runner)
			}
		}
		s.writing = append(s.writing, p)
	}
	if len(s.writing) > maxWritesUnderLoad {
		s.t.Fatalf("%d at once", len(s.writing))
	}
	switch pick := s.random.IntN(4); {
	case len(s.paused) > 0 && pick == 0:
		s.q.enqueue(s.take(&s.paused), time.Time{})
	case len(s.writing) > 0 && pick == 1:
		p := s.take(&s.writing)
		s.q.failed(p, errBroken, time.Time{}, time.Time{})
		s.paused = append(s.paused, p)
	case len(s.writing) > 0:
		p := s.take(&s.writing)
		apply(s.said, p.Report)
		s.q.done(p, time.Time{})
	}
}

func (s *randomReports) take(from *[]*pendingReport) *pendingReport {
	i := s.random.IntN(len(*from))
	taken := (*from)[i]
	*from = append((*from)[:i], (*from)[i+1:]...)
	return taken
}

// apply merges a report as the API server does: fields that the report leaves out stay.
func apply(to map[string]Report, newer Report) {
	if before, is := to[newer.Runner]; is && newer.Status.JobResult == "" {
		newer.Status.JobResult = before.Status.JobResult
	}
	to[newer.Runner] = newer
}

// While a start waits, the pod of its job is not protected.
func TestMoreStartsAreWrittenWhenTheyHaveWaitedLong(t *testing.T) {
	q, all, now := newReportQueue(), waiters(2*maxWrites), time.Unix(1, 0)
	for i, waits := range all {
		q.add(report(fmt.Sprint("runner-", i), "", 1), waits, now)
	}
	begun := func(now time.Time) (count int) {
		for q.next(now) != nil {
			count++
		}
		return count
	}
	if got := begun(now.Add(startGrace - 1)); got != maxStartWrites {
		t.Errorf("%d at once, want %d", got, maxStartWrites)
	}
	if got := begun(now.Add(startGrace)); got != maxOldStartWrites-maxStartWrites {
		t.Errorf("%d more after %s, want %d", got, startGrace, maxOldStartWrites-maxStartWrites)
	}
	q.add(report("another", "failed", 2), &sync.WaitGroup{}, now)
	if begun(now.Add(startGrace)) != 1 {
		t.Error("an end waits for starts")
	}
}

// Fields that the end leaves out keep what the start said.
func TestAnEndThatSaysLessKeepsWhatTheStartSaid(t *testing.T) {
	q, all := newReportQueue(), waiters(2)
	start, end := report("a", "", 1), report("a", "failed", 2)
	start.Status.JobID, start.Status.JobDisplayName, end.Status.JobDisplayName = "job", "old", "new"
	q.add(start, all[0], time.Time{})
	q.add(end, all[1], time.Time{})
	got := q.next(time.Time{}).Status
	if got.JobID != "job" || got.JobDisplayName != "new" || got.JobResult != "failed" {
		t.Errorf("report = %+v", got)
	}
}

// A failing report has its full time again after another was merged into it.
func TestANewReportHasTimeOfItsOwn(t *testing.T) {
	q, all, now := newReportQueue(), waiters(2), time.Unix(1, 0)
	q.add(report("a", "", 1), all[0], time.Time{})
	p := q.next(now)
	q.failed(p, errBroken, time.Time{}, now)
	q.add(report("a", "failed", 2), all[1], time.Time{})
	q.enqueue(p, now.Add(time.Hour))
	q.next(now.Add(2 * time.Hour))
	if want := now.Add(2 * time.Hour); !p.firstTriedAt.Equal(want) {
		t.Errorf("it was first tried at %s, want %s", p.firstTriedAt, want)
	}
}

// Merging two reports loses no field.
func TestMergeStatusKeepsEveryField(t *testing.T) {
	message := &actions.Message{JobsCompleted: []actions.JobCompleted{{
		RunnerName: "a", Result: "failed", JobMessageBase: actions.JobMessageBase{
			RunnerRequestID: 1, JobID: "job", OwnerName: "my", RepositoryName: "repo", JobWorkflowRef: "ref",
			WorkflowRunID: 2, JobDisplayName: "name",
		},
	}}}
	full := Of(message, 3, time.Unix(1, 0))[0].Status
	var empty v1alpha1.EphemeralRunnerStatus
	for _, got := range []v1alpha1.EphemeralRunnerStatus{mergeStatus(full, empty), mergeStatus(empty, full)} {
		if diff := cmp.Diff(full, got); diff != "" {
			t.Errorf("lost (-want +got):\n%s", diff)
		}
	}
}
