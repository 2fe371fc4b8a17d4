package reports_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/internal/listener/reports"
)

// In every order of events, the reports about a runner are written one at a time and together have the content of all
// that were delivered, the limit is kept, and each delivery is done.
func TestReportQueueUnderRandomEvents(t *testing.T) {
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			s := &randomReports{
				t: t, random: rand.New(rand.NewPCG(seed, 0)), desk: &desk{}, begun: time.Now(),
				said: map[string]reports.Report{}, want: map[string]reports.Report{},
			}
			s.reporter = reporterOf(s.desk)
			for range 400 {
				s.event()
			}
			for s.undone() > 0 {
				s.settle()
			}
			s.waits.Wait()
			if diff := cmp.Diff(s.want, s.said); diff != "" {
				t.Fatalf("seed %d: reports of the runners (-want +got):\n%s", seed, diff)
			}
			if len(s.reporter.reasons) > 0 {
				t.Fatalf("seed %d: given up: %v", seed, s.reporter.reasons)
			}
			s.checkRoom()
		})
	}
}

// randomReports plays random events.
type randomReports struct {
	t        *testing.T
	random   *rand.Rand
	begun    time.Time
	desk     *desk
	reporter *testReporter
	patchID  int
	// want has the content that was delivered about each runner, said the content that the API server accepted.
	said, want map[string]reports.Report
	waits      sync.WaitGroup
	mu         sync.Mutex
	deliveries int // that are not done
}

func (s *randomReports) undone() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deliveries
}

func (s *randomReports) count(change int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deliveries += change
}

func (s *randomReports) event() {
	if s.random.IntN(2) == 0 {
		s.settle()
		return
	}
	s.patchID++
	result := []string{"", "failed", "succeeded"}[s.random.IntN(3)]
	next := report(fmt.Sprint("runner-", s.random.IntN(60)), result, s.patchID)
	apply(s.want, next)
	s.count(1)
	wait := s.reporter.Deliver(s.t.Context(), []reports.Report{next})
	s.waits.Go(func() {
		if !wait() {
			s.t.Error("a delivery said it was given up")
		}
		s.count(-1)
	})
}

// settle lets one write succeed or fail, or time pass, in which pauses end. Nothing fails after 50 s, because a report
// that does for a minute is given up.
func (s *randomReports) settle() {
	open := s.desk.visits()
	for i, v := range open {
		if i > 0 && open[i-1].Runner == v.Runner {
			s.t.Fatalf("two reports about %s at once", v.Runner)
		}
	}
	if len(open) > 16+16 {
		s.t.Fatalf("%d at once", len(open))
	}
	pick := s.random.IntN(4)
	if len(open) == 0 || pick == 0 {
		<-time.After(time.Duration(s.random.IntN(1000)) * time.Millisecond)
		return
	}
	v := open[s.random.IntN(len(open))]
	if pick == 1 && time.Since(s.begun) < 50*time.Second {
		s.desk.say(v, errBroken)
		return
	}
	apply(s.said, v.Report)
	s.desk.say(v, nil)
}

// checkRoom checks that nothing counts as being written when all is: as many reports as at first may be in flight, six
// ends or two starts.
func (s *randomReports) checkRoom() {
	s.reporter.Deliver(s.t.Context(), reportsAbout("", "quick")) // so that starts seem to take no time
	s.desk.accept()
	for result, most := range map[string]int{"": 2, "succeeded": 6} {
		s.reporter.Deliver(s.t.Context(), reportsAbout(result, numbered("last", 8)...))
		if got := len(s.desk.visits()); got != most {
			s.t.Fatalf("at the end %d reports with the result %q are written at once, want %d", got, result, most)
		}
		s.desk.accept()
	}
}

// apply merges a report as the API server does: fields that the report leaves out stay.
func apply(to map[string]reports.Report, newer reports.Report) {
	if before, is := to[newer.Runner]; is && newer.Status.JobResult == "" {
		newer.Status.JobResult = before.Status.JobResult
	}
	to[newer.Runner] = newer
}
