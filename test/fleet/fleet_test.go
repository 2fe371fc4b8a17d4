package fleet

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

var (
	sets    = flag.Int("fleet.sets", 3, "scale sets")
	runners = flag.Int("fleet.runners", 30, "runners of all of them together, rounded up to as many for each")
	rest    = flag.Duration("fleet.rest", 20*time.Second, "how long figures at rest are taken")
)

const (
	// patience bounds every step. Its progress is read every look and logged every tell.
	patience, look, tell = 30 * time.Minute, 200 * time.Millisecond, 5 * time.Second
	// For settle after a set has begun to listen it still has something to do: the first statistics, a status, an
	// Event.
	settle = 15 * time.Second
	// A release has perRelease sets: the chart allows 50 variants beside the first set.
	perRelease = 51
)

func TestMain(m *testing.M) {
	flag.Parse()
	options := rig.ClusterOptions()
	options.AsShipped = true
	os.Exit(testkube.Main(m, options))
}

// fleet is the measured installation.
type fleet struct {
	t   *testing.T
	rig *rig.Rig
	// sets is the number of sets, each the maxRunners of one.
	sets, each int
}

// TestFleet goes through all steps in turn.
func TestFleet(t *testing.T) {
	f := &fleet{t: t, sets: *sets, each: (*runners + *sets - 1) / *sets}
	f.install()
	f.atRest("idle", restBudget{reads: 4, total: 8})

	before := f.figures()
	jobs := f.fill()
	filled := f.figures()
	t.Logf("filled: %s", between(before, filled).perRunner(f.all()))
	// If all runners of a set are busy, its statistics are read more often.
	f.atRest("busy", restBudget{reads: 16, total: 20})
	f.killManager()
	f.upgrade()

	emptying := f.figures()
	f.empty(jobs)
	emptied := between(emptying, f.figures())
	t.Logf("emptied: %s", emptied.perRunner(len(jobs)))
	f.checkCosts(between(before, filled), emptied, len(jobs))
	f.checkPriority()
}

func (f *fleet) all() int { return f.sets * f.each }

// install installs the controller, and the sets as variants of a few releases. Each set's maxRunners exceeds the
// controller's limit by five.
func (f *fleet) install() {
	f.t.Helper()
	f.rig = rig.Start(f.t, testkube.Shared(f.t), rig.Options{
		GitHub:     fakegithub.Options{JITLatency: 300 * time.Millisecond, Latency: 100 * time.Millisecond},
		MaxRunners: f.each + 5, AsShipped: true,
		ControllerValues: rig.Values{
			"flags":               rig.Values{"healthProbeBindAddress": ":8081", "maxRunnersPerSet": f.each},
			"priorityAndFairness": rig.Values{"enabled": true},
		},
	})
	began := time.Now()
	for installed := 1; installed < f.sets; { // the rig has one
		here := min(perRelease, f.sets-installed)
		var variants []rig.Values
		for i := 1; i < here; i++ {
			variants = append(variants, rig.Values{"name": fmt.Sprintf("v%02d", i)})
		}
		f.rig.InstallSet(fmt.Sprintf("fleet-%03d", installed), rig.Values{"variants": variants})
		installed += here
		f.t.Logf("installed %d of %d sets after %s", installed, f.sets, since(began))
	}
	f.await("sets listen", f.sets, func() int { return len(f.listening()) })
	f.t.Logf("all sets listen %s after the first was installed", since(began))
}

// listening returns the sessions that poll.
func (f *fleet) listening() (polling []string) {
	for _, session := range f.rig.GitHub.Snapshot().Sessions {
		if session.Polling {
			polling = append(polling, session.ID)
		}
	}
	return polling
}

// sessions returns all sessions, also those that are about to poll again.
func (f *fleet) sessions() (all []string) {
	for _, session := range f.rig.GitHub.Snapshot().Sessions {
		all = append(all, session.ID)
	}
	return all
}

// restBudget bounds the requests about a set to the API server per minute: reads, and all.
type restBudget struct{ reads, total float64 }

// Figures at rest are taken at most attempts times: on a busy machine sets have more to do for a while.
const attempts = 10

// atRest measures for a while without jobs. A set at rest keeps its budget.
func (f *fleet) atRest(name string, budget restBudget) {
	f.t.Helper()
	for attempt := 1; ; attempt++ {
		f.t.Logf("%s: at rest for %s, after %s to settle", name, *rest, settle)
		rig.Wait(f.t.Context(), settle)
		before := f.figures()
		rig.Wait(f.t.Context(), *rest)
		during := between(before, f.figures())
		f.t.Logf("%s: %s", name, during.perMinute())
		setMinutes := float64(f.sets) * max(1, during.minutes) // an event per minute may happen in less than a minute
		reads, total := float64(during.reads())/setMinutes, float64(during.requests.Total())/setMinutes
		if reads <= budget.reads && total <= budget.total {
			return
		}
		const over = "%s: %.1f requests per set and minute, %.1f of them reads; at most %.1f and %.1f are allowed:\n%s"
		if attempt == attempts {
			f.t.Errorf(over, name, total, reads, budget.total, budget.reads, during.requests)
			return
		}
		f.t.Logf(over, name, total, reads, budget.total, budget.reads, during.requests)
	}
}

// fill queues one job more for each set than it may have runners, and returns when every runner has a job.
func (f *fleet) fill() (jobs []int64) {
	f.t.Helper()
	for _, set := range f.rig.GitHub.Snapshot().ScaleSets {
		jobs = append(jobs, f.rig.QueueJobsFor(set.Name, f.each+1, rig.Held)...)
	}
	took := f.await("jobs run", f.all(), f.running)
	f.t.Logf("%d runners are busy after %s", f.all(), took)
	if created := f.rig.Requests().Created["ephemeralrunners"]; created != f.all() {
		f.t.Errorf("%d runners were created, maxRunnersPerSet allows %d", created, f.all())
	}
	return jobs
}

func (f *fleet) running() int { return f.rig.GitHub.Snapshot().JobsByState["running"] }

// killManager kills the manager while a job of each set ends, so that its last job needs a new runner. Listeners go on.
func (f *fleet) killManager() {
	f.t.Helper()
	sessions, ended := f.sessions(), map[string]bool{}
	f.rig.KillManager()
	for _, job := range f.rig.GitHub.Jobs("running") {
		if set := job.ScaleSet; !ended[set] {
			ended[set] = true
			if err := f.rig.GitHub.CancelJob(job.RequestID); err != nil {
				f.t.Fatal(err)
			}
		}
	}
	took := f.await("jobs run or were cancelled since the manager was killed", f.all()+f.sets, func() int {
		return f.running() + f.completed()
	})
	f.t.Logf("every set has a new runner %s after the manager was killed", took)
	for _, session := range f.sessions() {
		if !slices.Contains(sessions, session) {
			f.t.Errorf("session %s is new: a listener has not outlived the manager", session)
		}
	}
}

func (f *fleet) completed() int { return f.rig.GitHub.Snapshot().JobsByState["completed"] }

// upgrade gives the controller, and with it all listeners, another image.
func (f *fleet) upgrade() {
	f.t.Helper()
	before, fewest := f.sessions(), f.sets
	image := rig.Values{"repository": "rig.invalid/manager", "tag": "next"}
	if err := f.rig.UpgradeController(context.Background(), rig.Values{"image": image}); err != nil {
		f.t.Fatal(err)
	}
	took := f.await("listeners are new", f.sets, func() (replaced int) {
		now := f.listening()
		fewest = min(fewest, len(now))
		for _, session := range now {
			if !slices.Contains(before, session) {
				replaced++
			}
		}
		return replaced
	})
	f.t.Logf("all listeners were replaced %s after the upgrade; at the least %d of %d listened", took, fewest, f.sets)
}

// empty ends all jobs and waits until nothing is left of their runners.
func (f *fleet) empty(jobs []int64) {
	f.t.Helper()
	began := time.Now()
	f.await("jobs are completed", len(jobs), func() int {
		f.rig.GitHub.EndJobs()
		return f.completed()
	})
	f.await("kinds of things are left", 0, func() int {
		left, err := f.rig.Leftovers(context.Background())
		if err != nil {
			return -1 // an API server with too much to do answers no list; the next one may be answered
		}
		return len(left)
	})
	f.t.Logf("nothing is left of %d jobs after %s", len(jobs), since(began))
}

// await waits until a count is reached, and logs its progress. It returns the duration.
func (f *fleet) await(what string, want int, count func() int) time.Duration {
	f.t.Helper()
	began := time.Now()
	told := began
	gomega.NewWithT(f.t).Eventually(func() int {
		now := count()
		if time.Since(told) >= tell {
			told = time.Now()
			f.t.Logf("%d of %d %s, %s", now, want, what, since(began))
		}
		return now
	}, patience, look).Should(gomega.Equal(want), what)
	return since(began)
}

func since(began time.Time) time.Duration { return time.Since(began).Round(100 * time.Millisecond) }
