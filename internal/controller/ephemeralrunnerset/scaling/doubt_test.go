package scaling_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/creations"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/scaling"
	"github.com/harrier-ci/harrier/internal/registrations"
)

// world is a set of runners over hours: jobs that come and go, a GitHub that counts more of them than there are, pods
// that take a while, and reports that come some seconds late. A tick is a second.
type world struct {
	*scenario
	random     *rand.Rand
	startup    time.Duration
	maxRunners int
	phantoms   func(time.Duration) int
	arrivals   func(time.Duration, *rand.Rand) int
	newestWins bool               // GitHub gives a job to the newest idle runner instead of the oldest
	hung       bool               // no runner that comes up in the first minute ever takes a job
	ghosts     map[types.UID]bool // runners whose registration is gone

	waiting []time.Time // real jobs that no runner has, by the time of their arrival
	running map[*roster.Runner]*run
	changes map[*roster.Runner]turn

	waits                                    []time.Duration
	created, unused, questions, doubtedHours []int // by hour
	most, jobsInDoubt                        int
}

// run is a real job on a runner.
type run struct{ until time.Time }

// turn is a change that a runner's pod or a report will bring about.
type turn struct {
	at    time.Time
	apply func(*roster.Runner)
}

const jobDuration = time.Minute

func newWorld(seed uint64, minRunners, maxRunners, hours int) *world {
	w := &world{
		scenario: newScenario(0), random: rand.New(rand.NewPCG(seed, 3)), startup: 20 * time.Second, maxRunners: maxRunners,
		phantoms: func(time.Duration) int { return 0 }, arrivals: func(time.Duration, *rand.Rand) int { return 0 },
		running: map[*roster.Runner]*run{}, changes: map[*roster.Runner]turn{},
		created: make([]int, hours+1), unused: make([]int, hours+1), questions: make([]int, hours+1),
		doubtedHours: make([]int, hours+1),
	}
	w.numbers, w.spec.MaxRunners = inForce(minRunners, maxRunners), new(maxRunners)
	return w
}

func (w *world) since() time.Duration { return w.now.Sub(start) }

func (w *world) hour() int { return int(w.since() / time.Hour) }

// run lets time pass.
func (w *world) run(t *testing.T, until time.Duration) {
	t.Helper()
	for w.since() < until {
		w.tick()
		if w.most > w.maxRunners {
			t.Fatalf("%d runners after %s, maxRunners is %d", w.most, w.since(), w.maxRunners)
		}
	}
}

func (w *world) tick() {
	w.later(time.Second)
	for range w.arrivals(w.since(), w.random) {
		w.waiting = append(w.waiting, w.now)
	}
	for i, r := range w.runners {
		if c, due := w.changes[r]; due && !w.now.Before(c.at) {
			delete(w.changes, r)
			changed := *r // views never change
			c.apply(&changed)
			w.runners[i] = &changed
			if job, has := w.running[r]; has {
				delete(w.running, r)
				w.running[&changed] = job
			}
		}
	}
	w.give()
	w.end()
	if w.random.IntN(3) == 0 {
		w.patchID++
		w.spec.AssignedJobs = len(w.waiting) + len(w.running) + w.phantoms(w.since())
		w.spec.Replicas = min(w.numbers.Min+min(w.spec.AssignedJobs, w.maxRunners), w.maxRunners)
	}
	p := w.pass()
	w.act(p)
	w.most = max(w.most, len(w.runners))
	if w.jobsInDoubt = w.doubted(p); w.jobsInDoubt > 0 {
		w.doubtedHours[w.hour()]++
	}
}

// give gives waiting jobs to idle runners.
func (w *world) give() {
	idle := slices.DeleteFunc(slices.Clone(w.runners), func(r *roster.Runner) bool {
		hangs := w.ghosts[r.UID] || (w.hung && r.CreatedAt.Sub(start) < time.Minute)
		return !r.Up() || w.running[r] != nil || r.HadJob || r.Deleting || hangs
	})
	if w.newestWins {
		slices.Reverse(idle)
	}
	for _, r := range idle[:min(len(idle), len(w.waiting))] {
		w.waits = append(w.waits, w.now.Sub(w.waiting[0]))
		w.waiting = w.waiting[1:]
		w.running[r] = &run{until: w.now.Add(jobDuration)}
		w.changes[r] = turn{w.now.Add(w.lag()), func(r *roster.Runner) { r.HadJob, r.JobPatchID = true, w.patchID }}
	}
}

// lag returns the time by which a report is late.
func (w *world) lag() time.Duration { return time.Duration(w.random.IntN(4)) * time.Second }

// end ends jobs. The listener counts the end before it reports it, and the runner goes.
func (w *world) end() {
	for r, job := range w.running {
		if w.now.Before(job.until) {
			continue
		}
		delete(w.running, r)
		w.patchID++
		w.spec.AssignedJobs--
		w.spec.Replicas = min(w.numbers.Min+min(w.spec.AssignedJobs, w.maxRunners), w.maxRunners)
		patchID := w.patchID
		w.changes[r] = turn{w.now.Add(w.lag()),
			func(r *roster.Runner) { r.HadJob, r.Completed, r.Deleting, r.JobPatchID = true, true, true, patchID }}
	}
	w.runners = slices.DeleteFunc(w.runners, func(r *roster.Runner) bool { return r.Completed })
}

// act carries a plan out. GitHub answers immediately.
func (w *world) act(p *plan) {
	for range p.create {
		r := w.add(1, starting)
		w.changes[r] = turn{w.now.Add(w.startup),
			func(r *roster.Runner) { r.Phase, r.RegistrationID = v1alpha1.EphemeralRunnerPhaseRunning, 7 }}
		w.created[w.hour()]++
	}
	for _, r := range p.With(scaling.LookUp) {
		w.questions[w.hour()]++
		if w.ghosts[r.UID] {
			w.answer(r, registrations.Missing)
			continue
		}
		w.answer(r, registrations.Registered)
	}
	for _, r := range p.With(scaling.Deregister) {
		w.questions[w.hour()]++
		if w.running[r] != nil {
			w.answer(r, registrations.Busy)
			continue
		}
		w.answer(r, registrations.Removed)
	}
	for _, r := range slices.Concat(p.With(scaling.Delete), p.With(scaling.DeleteUnregistered)) {
		w.runners = slices.DeleteFunc(w.runners, func(other *roster.Runner) bool { return other == r })
		delete(w.changes, r)
		w.unused[w.hour()]++
	}
}

func (w *world) idleNow() int { return len(w.runners) - len(w.running) }

func (w *world) String() string {
	slices.Sort(w.waits)
	text := fmt.Sprintf("created %v, removed unused %v, questions %v, seconds in doubt %v, at most %d runners", w.created,
		w.unused, w.questions, w.doubtedHours, w.most)
	if n := len(w.waits); n > 0 {
		text += fmt.Sprintf(", %d jobs waited: half %s, 95 %% %s, all %s", n, w.waits[n/2], w.waits[n*95/100], w.waits[n-1])
	}
	return text
}

func constant(n int) func(time.Duration) int { return func(time.Duration) int { return n } }

// between counts n phantoms for a time in each period.
func inEach(period, lasts time.Duration, n int) func(time.Duration) int {
	return func(since time.Duration) int {
		if since%period < lasts {
			return n
		}
		return 0
	}
}

var shapes = map[string]func(time.Duration) int{
	"none":          constant(0),
	"one":           constant(1),
	"constant":      constant(15),
	"above maximum": constant(1000),
	"drifting up":   func(since time.Duration) int { return int(since / (5 * time.Minute)) },
	"drifting down": func(since time.Duration) int { return max(0, 60-int(since/(7*time.Minute))) },
	"fast":          inEach(2*time.Minute, time.Minute, 15),
	"very fast":     inEach(20*time.Second, 10*time.Second, 15),
	"slow":          inEach(30*time.Minute, 15*time.Minute, 15),
	"hourly":        inEach(time.Hour, 5*time.Minute, 15),
	"jitter":        func(since time.Duration) int { return 14 + int(since/(70*time.Second))%3 },
	"sine":          func(since time.Duration) int { return int(12 + 10*math.Sin(since.Minutes()/13)) },
}

var loads = map[string]func(time.Duration, *rand.Rand) int{
	"no jobs":    func(time.Duration, *rand.Rand) int { return 0 },
	"every 5m":   func(since time.Duration, _ *rand.Rand) int { return b2i(since%(5*time.Minute) == 0) },
	"3 a minute": func(_ time.Duration, random *rand.Rand) int { return b2i(random.IntN(20) == 0) },
	"bursts":     func(since time.Duration, _ *rand.Rand) int { return 12 * b2i(since%(17*time.Minute) == 0) },
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Jobs that don't exist cost one generation of runners, two if the figures move, and then none. Nothing special is
// needed for it: neither a number nor a shape.
func TestJobsThatDoNotExistCostFewRunners(t *testing.T) {
	const hours = 6
	for shape, phantoms := range shapes {
		for _, minRunners := range []int{0, 3} {
			t.Run(fmt.Sprintf("%s, minRunners %d", shape, minRunners), func(t *testing.T) {
				w := newWorld(1, minRunners, 40, hours)
				w.phantoms = phantoms
				w.run(t, hours*time.Hour)
				generation := w.most
				total := 0
				for hour, n := range w.unused[:hours] {
					if total += n; hour >= 2 && n > 3 {
						t.Errorf("%d runners without a job were removed in hour %d", n, hour+1)
					}
					if limit := 6*(minRunners+1) + 20; hour >= 2 && w.questions[hour] > limit {
						t.Errorf("%d questions in hour %d, want at most %d", w.questions[hour], hour+1, limit)
					}
				}
				if total > 2*(generation+hours) {
					t.Errorf("%d runners without a job were removed, there were at most %d at a time", total, generation)
				}
				if idle := w.idleNow(); idle > minRunners+2 {
					t.Errorf("%d runners are idle after %d hours", idle, hours)
				}
				if t.Failed() {
					t.Log(w)
				}
			})
		}
	}
}

// Jobs that exist start about as soon among jobs that don't exist as without these.
func TestRealJobsStartAmongThoseThatDoNotExist(t *testing.T) {
	const hours = 2
	for load, arrivals := range loads {
		for _, minRunners := range []int{0, 3} {
			for _, newestWins := range []bool{minRunners > 0} {
				usual := newWorld(1, minRunners, 60, hours)
				usual.arrivals = arrivals
				usual.run(t, hours*time.Hour)
				for shape, phantoms := range shapes {
					name := fmt.Sprintf("%s, %s, minRunners %d, newest first %t", shape, load, minRunners, newestWins)
					t.Run(name, func(t *testing.T) {
						w := newWorld(1, minRunners, 60, hours)
						w.phantoms, w.arrivals, w.newestWins = phantoms, arrivals, newestWins
						w.run(t, hours*time.Hour)
						if later := w.percentile(95) - usual.percentile(95); later > time.Minute {
							t.Errorf("95 %% of the jobs start within %s, without phantoms within %s", w.percentile(95),
								usual.percentile(95))
						}
						if later := w.percentile(50) - usual.percentile(50); later > 5*time.Second {
							t.Errorf("half of the jobs start within %s, without phantoms within %s", w.percentile(50),
								usual.percentile(50))
						}
						if w.percentile(100) > 3*time.Minute {
							t.Errorf("a job waited for %s", w.percentile(100))
						}
						if t.Failed() {
							t.Log(w)
						}
					})
				}
			}
		}
	}
}

// Idle runners whose registration is gone are replaced within a quarter of an hour, whether jobs come, which wait too
// shortly to be a hint, or not; and after a restart, too.
func TestRunnersWithoutARegistrationAreReplaced(t *testing.T) {
	const minRunners = 2
	for load, arrivals := range loads {
		for _, startup := range []time.Duration{5 * time.Second, 20 * time.Second, 29 * time.Second} {
			for _, gone := range []time.Duration{time.Minute, 11 * time.Minute, 25*time.Minute + 7*time.Second} {
				w := newWorld(1, minRunners, 40, 2)
				w.arrivals, w.startup, w.ghosts = arrivals, startup, map[types.UID]bool{}
				w.run(t, gone)
				for _, r := range w.runners {
					w.ghosts[r.UID] = !r.HadJob
				}
				w.run(t, gone+4*time.Minute)
				w.History = scaling.New(&creations.Memory{})
				w.run(t, gone+15*time.Minute)
				for _, r := range w.runners {
					if w.ghosts[r.UID] {
						t.Errorf("%s, startup %s: %s is left 15 min after its registration was gone at %s", load,
							startup, r.Name, gone)
					}
				}
			}
		}
	}
}

// Without jobs that don't exist nothing is ever doubted, however the load.
func TestRealJobsAreNotDoubted(t *testing.T) {
	const hours = 2
	for load, arrivals := range loads {
		for _, minRunners := range []int{0, 3, 30} {
			for seed := range uint64(3) {
				w := newWorld(seed, minRunners, 40, hours)
				w.arrivals = arrivals
				w.run(t, hours*time.Hour)
				if slices.Max(w.doubtedHours) > 0 || slices.Max(w.unused) > 0 {
					t.Errorf("%s, minRunners %d: %s", load, minRunners, w)
				}
			}
		}
	}
}

// When the figures come right, the set is right within half a minute: no runner too many, and one for each real job.
func TestTheSetIsRightAsSoonAsTheFiguresAre(t *testing.T) {
	for _, minRunners := range []int{0, 2} {
		for _, jobs := range []int{0, 7, 15} {
			w := newWorld(1, minRunners, 40, 4)
			w.phantoms = constant(15)
			w.run(t, 3*time.Hour)
			w.phantoms = constant(0)
			w.arrivals = func(since time.Duration, _ *rand.Rand) int { return jobs * b2i(since == 3*time.Hour+time.Second) }
			w.run(t, 3*time.Hour+30*time.Second)
			if len(w.runners) != jobs+minRunners || w.jobsInDoubt != 0 {
				t.Errorf("minRunners %d: %d runners for %d jobs, %d doubted", minRunners, len(w.runners), jobs, w.jobsInDoubt)
			}
		}
	}
}

// A manager that has just started believes the figures anew. That costs one generation of runners more.
func TestRestartCostsOneMoreGeneration(t *testing.T) {
	w := newWorld(1, 2, 40, 8)
	w.phantoms = constant(15)
	w.run(t, 3*time.Hour)
	w.History = scaling.New(&creations.Memory{})
	w.run(t, 8*time.Hour)
	total := 0
	for _, n := range w.unused {
		total += n
	}
	if total > 2*18 {
		t.Errorf("%d runners were removed: %s", total, w)
	}
}

// If the runners are to blame, because they hang, jobs run on others.
func TestJobsRunAlthoughRunnersHang(t *testing.T) {
	w := newWorld(1, 0, 40, 2)
	w.hung = true
	w.arrivals = func(since time.Duration, _ *rand.Rand) int { return 5 * b2i(since == time.Second) }
	w.run(t, 20*time.Minute)
	if len(w.waits) != 5 {
		t.Errorf("%d of 5 jobs have started: %s", len(w.waits), w)
	}
}

func (w *world) percentile(percent int) time.Duration {
	slices.Sort(w.waits)
	if len(w.waits) == 0 {
		return 0
	}
	return w.waits[min(len(w.waits)*percent/100, len(w.waits)-1)]
}
