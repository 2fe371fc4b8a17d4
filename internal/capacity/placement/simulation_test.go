package placement_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/internal/capacity/placement"
)

// The numbers of jobs that a simulated set may announce room for.
const (
	static = "static" // its maximum
	ruled  = "rule"   // what the rule says
	oracle = "oracle" // what its cluster can really hold
)

const (
	hour       = 3600
	maxRunners = 400 // of each set, unless it says otherwise
)

var epoch = time.Unix(1_800_000_000, 0)

// moment returns the time of a second of the simulation.
func moment(second int) time.Time { return epoch.Add(time.Duration(second) * time.Second) }

// simulation is GitHub with a queue, and sets with one label, each in a cluster of its own. It goes by seconds, and
// everything in it follows from the seed.
type simulation struct {
	random *rand.Rand
	second int
	jobs   []*job // in the order of their arrival
	next   int    // the first that has not arrived
	queue  []*job
	sets   []*set
	open   int // jobs that have not ended
	choice choice
}

// choice is a way to choose among the sets that have room. Nobody outside of GitHub knows its own.
type choice int

const (
	roomiest choice = iota
	anyOne
	firstOne
)

type job struct {
	arrives, duration   int
	assigned, starts    int
	started, isStranded bool
}

// set is a scale set with its listener and its manager.
type set struct {
	sim  *simulation
	mode string
	cluster
	max      int // maxRunners
	memory   *placement.Memory
	decision placement.Decision
	changes  int // of the announced number
	changed  bool

	assigned     int    // jobs that GitHub has given to it, and that have not ended
	waitingJobs  []*job // those that have no runner
	polled       int    // what its listener has told GitHub
	pods         int    // that exist
	placed       int
	working      int
	waiting      []*runner
	idle         []*runner
	due          map[int][]func()
	refusedSince int // 0: not refused
	made         int
	awayUntil    int // of the listener
	live         map[types.UID]placement.Pod
	restarts     bool
}

type runner struct {
	id      types.UID
	created int
	odd     bool
}

func newSimulation(seed uint64) *simulation {
	return &simulation{random: rand.New(rand.NewPCG(seed, 24))}
}

func (s *simulation) add(mode string, c cluster) *set {
	one := &set{sim: s, mode: mode, max: maxRunners, cluster: c, due: map[int][]func(){},
		live: map[types.UID]placement.Pod{}, memory: placement.Remember(nil, moment(0)), changed: true}
	s.sets = append(s.sets, one)
	return one
}

// burst has jobs arrive in one second.
func (s *simulation) burst(second, jobs, shortest, longest int) {
	for range jobs {
		s.jobs = append(s.jobs, &job{arrives: second, duration: shortest + s.random.IntN(longest-shortest+1)})
	}
}

// run lets time pass until all jobs have ended, or the end.
func (s *simulation) run(end int) {
	if s.second == 0 {
		slices.SortStableFunc(s.jobs, func(a, b *job) int { return a.arrives - b.arrives })
		s.open = len(s.jobs)
	}
	for ; s.second < end && s.open > 0; s.second++ {
		for s.next < len(s.jobs) && s.jobs[s.next].arrives <= s.second {
			s.queue = append(s.queue, s.jobs[s.next])
			s.next++
		}
		s.assign()
		for _, one := range s.sets {
			one.step()
		}
		s.findStranded()
	}
}

// assign gives queued jobs to sets that have room, as far as their listeners have told.
func (s *simulation) assign() {
	for len(s.queue) > 0 {
		var fitting []*set
		for _, one := range s.sets {
			if one.polled > one.assigned && one.awayUntil <= s.second {
				fitting = append(fitting, one)
			}
		}
		if len(fitting) == 0 {
			return
		}
		chosen := fitting[0]
		switch s.choice {
		case roomiest:
			chosen = slices.MaxFunc(fitting, func(a, b *set) int {
				return (a.polled - a.assigned) - (b.polled - b.assigned)
			})
		case anyOne:
			chosen = fitting[s.random.IntN(len(fitting))]
		case firstOne:
		}
		next := s.queue[0]
		s.queue = s.queue[1:]
		next.assigned = s.second
		chosen.assigned++
		chosen.changed = true
		chosen.waitingJobs = append(chosen.waitingJobs, next)
	}
}

// findStranded marks the jobs that have been assigned for ten minutes without a runner while another set could run
// them.
func (s *simulation) findStranded() {
	if len(s.sets) < 2 || s.second%10 != 0 {
		return
	}
	for i, one := range s.sets {
		free := 0
		for k, other := range s.sets {
			if k != i {
				free += other.holds() - other.assigned
			}
		}
		for _, j := range one.waitingJobs[:min(len(one.waitingJobs), max(0, free))] {
			j.isStranded = j.isStranded || s.second-j.assigned >= 600
		}
	}
}

// step lets a second pass in a set and its cluster.
func (s *set) step() {
	now := s.sim.second
	for _, do := range s.due[now] {
		do()
	}
	delete(s.due, now)
	s.create()
	s.place()
	if s.autoscaler != nil {
		s.autoscaler.step(s)
	}
	for len(s.idle) > 0 && len(s.waitingJobs) > 0 {
		s.start(s.idle[0], s.waitingJobs[0])
		s.idle, s.waitingJobs = s.idle[1:], s.waitingJobs[1:]
	}
	if s.restarts {
		s.restart()
	}
	s.decide()
	// each publication brings the number; while all is assigned it is read every five seconds
	if s.changed || now%5 == 0 {
		s.polled = s.announced()
	}
	s.changed = false
}

func (s *set) after(seconds int, do func()) {
	at := s.sim.second + max(1, seconds)
	s.due[at] = append(s.due[at], do)
}

// create creates a runner for each job that has none, as far as the quota allows.
func (s *set) create() {
	for s.pods < min(s.assigned, s.max) {
		if s.quota > 0 && s.pods >= s.quota {
			if s.refusedSince == 0 {
				s.refusedSince, s.changed = s.sim.second, true
			}
			return
		}
		s.made++
		r := &runner{id: types.UID(fmt.Sprint(s.made)), created: s.sim.second}
		if len(s.oddAt) > 0 && s.sim.second >= s.oddAt[0] {
			r.odd, s.oddAt = true, s.oddAt[1:]
		}
		s.pods++
		s.waiting = append(s.waiting, r)
		s.see(r, placement.Pod{CreatedAt: moment(r.created)})
	}
	if s.refusedSince != 0 {
		s.refusedSince, s.changed = 0, true
	}
}

// start has a runner take a job. Its pod is gone some seconds after the job has ended.
func (s *set) start(r *runner, j *job) {
	j.started, j.starts = true, s.sim.second
	s.working++
	s.changed = true
	s.after(j.duration, func() {
		s.working--
		s.assigned--
		s.sim.open--
		s.pods--
		s.changed = true
		s.memory.Forget(r.id, moment(s.sim.second)) // its container has ended
		delete(s.live, r.id)
		s.after(2+s.sim.random.IntN(8), func() { s.placed-- })
	})
}

func (s *set) see(r *runner, pod placement.Pod) {
	s.live[r.id] = pod
	s.memory.See(r.id, pod, moment(s.sim.second))
	s.changed = true
}

// restart kills the manager and the listener now and then.
func (s *set) restart() {
	now := s.sim.second
	if s.sim.random.IntN(120) == 0 {
		state := s.decision.State
		s.memory = placement.Remember(&state, moment(now))
		for id, pod := range s.live {
			s.memory.See(id, pod, moment(now))
		}
		s.changed = true
	}
	if s.sim.random.IntN(120) == 0 {
		s.awayUntil = now + 5 + s.sim.random.IntN(15)
	}
}

func (s *set) decide() {
	now := moment(s.sim.second)
	due := !s.decision.Next.IsZero() && !now.Before(s.decision.Next)
	if s.mode != ruled || (!s.changed && !due) {
		return
	}
	seen := placement.Seen{Now: now, Working: s.working, Assigned: s.assigned, Max: s.max,
		Timeout: placement.DefaultTimeout}
	if s.refusedSince != 0 {
		seen.RefusedSince = moment(s.refusedSince)
	}
	before := s.decision.Announced
	if s.decision = s.memory.Decide(seen); s.decision.Announced != before {
		s.changes++
	}
}

func (s *set) announced() int {
	switch s.mode {
	case ruled:
		return s.decision.Announced
	case oracle:
		return s.holds()
	default:
		return s.max
	}
}

// outcome sums up the jobs of a run: the 95th percentile of their wait in seconds, the number of those that were
// stranded, and the number of times that a set announced another number, in an hour.
type outcome struct{ wait, stranded, changes float64 }

// result returns the outcome of the jobs that arrived between two seconds.
func (s *simulation) result(from, until int) outcome {
	var waits []int
	var o outcome
	for _, j := range s.jobs {
		if j.arrives < from || j.arrives >= until {
			continue
		}
		wait := s.second - j.arrives
		if j.started {
			wait = j.starts - j.arrives
		}
		waits = append(waits, wait)
		if j.isStranded {
			o.stranded++
		}
	}
	for _, one := range s.sets {
		o.changes += float64(one.changes) * hour / float64(s.second*len(s.sets))
	}
	slices.Sort(waits)
	o.wait = float64(waits[(len(waits)*95+99)/100-1])
	return o
}
