package demand_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/internal/capacity/demand"
)

// slots is a set with its jobs and runners, second by second, planned by the rules; it counts by itself what the rules
// may do.
type slots struct {
	random  *rand.Rand
	second  int
	jobs    []int // the seconds that each assigned job still takes; those that run come first
	running int
	runners []*runner // those without a job
	asked   demand.Asked
	limit   int // starts per minute
	delay   int
	maxIdle int

	surplus demand.Surplus
	pace    demand.Pace

	starts  []int // the second of each
	tooMany []int // runners beyond those that were asked for, in each second
	wanted  []int
	removed int
}

// runner is a runner without a job. It is up from the second up on; an old one leaves in the second leaves, 0 is never.
type runner struct{ created, up, leaves int }

func (s *slots) at(second int) time.Time { return epoch.Add(time.Duration(second) * time.Second) }

func newSlots(seed uint64) *slots {
	s := &slots{random: rand.New(rand.NewPCG(seed, 3))}
	s.asked = demand.Asked{Min: s.random.IntN(5), Max: 5 + s.random.IntN(100),
		Headroom: demand.Headroom{Percent: s.random.IntN(60), Max: s.random.IntN(20)}}
	s.limit = []int{0, 1, 7, 60}[s.random.IntN(4)]
	s.delay = []int{0, 30, 300}[s.random.IntN(3)]
	s.maxIdle = []int{0, 900}[s.random.IntN(2)]
	return s
}

// live counts the runners.
func (s *slots) live() int { return s.running + len(s.runners) }

// step lets a second pass. Nothing new comes while it is calm.
func (s *slots) step(calm bool) {
	s.second++
	if !calm {
		s.happen()
	}
	for i := s.running - 1; i >= 0; i-- { // jobs end, and their runners with them
		if s.jobs[i]--; s.jobs[i] <= 0 && !calm {
			s.jobs = slices.Delete(s.jobs, i, i+1)
			s.running--
		}
	}
	s.runners = slices.DeleteFunc(s.runners, func(r *runner) bool { return r.leaves != 0 && r.leaves <= s.second })
	for i := 0; i < len(s.runners) && s.running < len(s.jobs); { // jobs start on runners that are up
		if r := s.runners[i]; r.up > s.second || r.leaves != 0 {
			i++
			continue
		}
		s.runners = slices.Delete(s.runners, i, i+1)
		s.running++
	}
	s.plan()
}

// happen has jobs come, get canceled, limits change and the manager restart.
func (s *slots) happen() {
	switch s.random.IntN(60) {
	case 0:
		for range s.random.IntN(20) {
			s.jobs = append(s.jobs, 10+s.random.IntN(600))
		}
	case 1:
		s.jobs = s.jobs[:s.running+s.random.IntN(len(s.jobs)-s.running+1)]
	case 2:
		if s.random.IntN(20) == 0 {
			s.asked.Drained = !s.asked.Drained
		}
	case 3:
		if s.random.IntN(10) == 0 {
			s.restart()
		}
	}
}

// restart loses the memory, and takes the starts from the runners that there are.
func (s *slots) restart() {
	s.surplus, s.pace = nil, demand.Pace{}
	for _, second := range s.starts { // all of them: a runner with a job shows its creation as well
		s.pace.Start(1, s.at(second), s.at(s.second))
	}
}

// plan makes one pass.
func (s *slots) plan() {
	now := s.at(s.second)
	s.asked.Assigned, s.asked.Running = len(s.jobs), s.running
	wanted := s.asked.Wanted()
	allowed, _ := s.pace.Allowed(s.limit, now)
	created := max(0, min(wanted-s.live(), allowed))
	for range created {
		s.runners = append(s.runners, &runner{created: s.second, up: s.second + 5 + s.random.IntN(55)})
		s.starts = append(s.starts, s.second)
	}
	s.pace.Start(created, now, now)
	s.wanted = append(s.wanted, wanted)
	s.tooMany = append(s.tooMany, s.live()-wanted)

	var due int
	s.surplus, due, _ = s.surplus.Next(s.live()-wanted, time.Duration(s.delay)*time.Second, now, now)
	leaving, starting := 0, 0
	var idle []*runner
	var since []time.Time
	for _, r := range s.runners {
		switch {
		case r.leaves != 0:
			leaving++
		case r.up > s.second:
			starting++
		default:
			idle, since = append(idle, r), append(since, s.at(r.up))
		}
	}
	for range min(due-leaving, len(idle)) {
		idle[0].leaves = s.second + 1
		idle, since = idle[1:], since[1:]
		leaving++
		s.removed++
	}
	settled := leaving == 0 && starting == 0 && s.live() == wanted
	if i, found, _ := demand.TooOld(since, settled, time.Duration(s.maxIdle)*time.Second, now); found {
		idle[i].leaves = s.second + 1 + s.random.IntN(10)
	}
}

// TestSlots: no runner is created beyond what the numbers ask for, or in a minute that has had its number; none is
// surplus that was not for the whole delay; and when nothing changes any more, nothing is done any more.
func TestSlots(t *testing.T) {
	for seed := range uint64(60) {
		s := newSlots(seed)
		for range 3000 {
			created, removed := len(s.starts), s.removed
			s.step(false)
			if broken := s.broken(len(s.starts)-created, s.removed-removed); broken != "" {
				t.Fatalf("seed %d, second %d: %s", seed, s.second, broken)
			}
		}
		s.maxIdle = 0
		for range 2*s.delay + 60*len(s.jobs) + 6000 {
			s.step(true)
		}
		started, removed := len(s.starts), s.removed
		for range 1000 {
			s.step(true)
		}
		if len(s.starts) != started || s.removed != removed || s.live() != s.asked.Wanted() {
			t.Fatalf("seed %d: nothing changes, and %d runners start and %d go; there are %d of %d", seed,
				len(s.starts)-started, s.removed-removed, s.live(), s.asked.Wanted())
		}
	}
}

// broken says what is wrong with the creations and removals of the last second.
func (s *slots) broken(created, removed int) string {
	if created > 0 && s.tooMany[len(s.tooMany)-1] > 0 {
		return fmt.Sprintf("%d runners are created, and there are too many", created)
	}
	if n := len(s.starts); s.limit > 0 && n > s.limit && s.starts[n-1]-s.starts[n-1-s.limit] < 60 {
		return fmt.Sprintf("more than %d starts in a minute", s.limit)
	}
	if least := slices.Min(s.tooMany[max(0, len(s.tooMany)-1-s.delay):]); removed > max(0, least) {
		return fmt.Sprintf("%d runners go, and within %d s there were %d too many", removed, s.delay, least)
	}
	if s.live() > s.asked.Max {
		return fmt.Sprintf("%d runners, at most %d are allowed", s.live(), s.asked.Max)
	}
	return ""
}

// TestReplacement: idle runners are replaced one by one, and none stays much longer than it may.
func TestReplacement(t *testing.T) {
	s := newSlots(1)
	s.asked, s.limit, s.delay, s.maxIdle = demand.Asked{Min: 10, Max: 20}, 0, 30, 7200
	for range 10 * s.maxIdle {
		s.step(true)
		missing := 0
		for _, r := range s.runners {
			if r.leaves != 0 || r.up > s.second {
				missing++
			}
			if age := s.second - r.up; age > s.maxIdle+10*70 {
				t.Fatalf("second %d: a runner has been idle for %d s", s.second, age)
			}
		}
		if s.second > 60 && missing > 1 {
			t.Fatalf("second %d: %d of 10 runners are not there at the same time", s.second, missing)
		}
	}
	if n := len(s.starts); n < 80 || n > 100 {
		t.Errorf("%d runners in ten times %d s", n, s.maxIdle)
	}
}
