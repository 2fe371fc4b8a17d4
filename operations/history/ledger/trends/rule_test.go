package trends_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/harrier-ci/harrier/operations/history/ledger/trends"
	"github.com/harrier-ci/harrier/operations/history/rows"
)

// noise says how the days of a job differ although nothing changes.
type noise struct {
	name string
	// jobs are those of a day from Monday to Friday, and at weekends.
	jobs, weekend int
	// Run times are spread by each job and by each day, as logarithms; of a share of the days, and of a share of the jobs,
	// they are three times as long, such as without a cache.
	ofJob, ofDay, slowDays, slowJobs float64
	// failing is the share of jobs that fail; on a share of the days, bad ones, half of the jobs do.
	failing, badDays float64
	// grow is by how much there are more jobs in the last week.
	grow float64
}

var noises = []noise{
	{name: "jobs differ little", jobs: 10, ofJob: 0.05, failing: 0.05},
	{name: "jobs differ much", jobs: 10, ofJob: 0.6, failing: 0.1},
	{name: "days differ", jobs: 10, weekend: 3, ofJob: 0.2, ofDay: 0.3, failing: 0.05, badDays: 0.1},
	{name: "days differ much", jobs: 8, ofJob: 0.3, ofDay: 0.8, failing: 0.2, badDays: 0.3},
	{name: "a cache is cold on some days", jobs: 10, ofJob: 0.1, slowDays: 0.3, failing: 0.05},
	{name: "a cache is cold on half of the days", jobs: 10, weekend: 10, ofJob: 0.1, slowDays: 0.5, failing: 0.3},
	{name: "a cache is cold for half of the jobs", jobs: 20, ofJob: 0.1, slowJobs: 0.5, failing: 0.02, badDays: 0.05},
	{name: "few jobs", jobs: 5, ofJob: 0.4, ofDay: 0.2, failing: 0.2},
	{name: "many jobs", jobs: 40, weekend: 20, ofJob: 0.4, ofDay: 0.2, failing: 0.05, badDays: 0.1},
	{name: "twice the jobs", jobs: 30, weekend: 10, ofJob: 0.5, ofDay: 0.1, failing: 0.05, grow: 2},
}

// days draws four weeks. In the last one run times and waits are so many times as long, and so many more jobs fail.
func (n *noise) days(random *rand.Rand, longer, fail float64) (days []*trends.Sums) {
	for day := range 28 {
		jobs, times, failing := n.jobs, 1.0, n.failing
		if day%7 >= 5 {
			jobs = n.weekend
		}
		if day >= 21 {
			times, failing = longer, failing+fail
			jobs = int(float64(jobs) * max(1, n.grow))
		}
		times *= 300 * math.Exp(n.ofDay*random.NormFloat64())
		if random.Float64() < n.slowDays {
			times *= 3
		}
		if random.Float64() < n.badDays {
			failing = max(failing, 0.5)
		}
		var of *trends.Sums
		for range jobs {
			if of == nil {
				of = &trends.Sums{}
			}
			took := times * math.Exp(n.ofJob*random.NormFloat64())
			if random.Float64() < n.slowJobs {
				took *= 3
			}
			of.Waits.Add(int64(took))
			if of.Jobs++; random.Float64() < failing {
				of.Failed++
			} else {
				of.Succeeded++
				of.Runs.Add(int64(took))
			}
		}
		days = append(days, of)
	}
	return days
}

func found(days []*trends.Sums) map[string]bool {
	what := map[string]bool{}
	for _, change := range append(trends.ChangesOfJob(days), trends.ChangesOfSet(days)...) {
		what[change.What] = true
	}
	return what
}

// TestNoiseIsNoChange draws histories in which nothing changes. Of 1,000 kinds of jobs, less than one is told to have
// changed in a week: of 10,000 less than ten, whatever their noise is.
func TestNoiseIsNoChange(t *testing.T) {
	const histories, most = 10_000, 10
	for i := range noises {
		n := &noises[i]
		t.Run(n.name, func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(1, uint64(i)))
			alarms := map[string]int{}
			for range histories {
				for what := range found(n.days(random, 1, 0)) {
					alarms[what]++
				}
			}
			t.Logf("false alarms of %d: %v", histories, alarms)
			for what, number := range alarms {
				if number >= most {
					t.Errorf("%d of %d are %s", number, histories, what)
				}
			}
		})
	}
}

// TestAJobThatTakesHalfAsLongAgainIsFound: as are waits that do, and a job of which 30 of 100 more fail.
func TestAJobThatTakesHalfAsLongAgainIsFound(t *testing.T) {
	for _, n := range []struct {
		noise
		slower, fails, waits int
	}{
		{noise{name: "steady", jobs: 10, ofJob: 0.2, failing: 0.01}, 990, 800, 0},
		{noise{name: "every day", jobs: 10, weekend: 10, ofJob: 0.3, ofDay: 0.1, failing: 0.05}, 850, 750, 0},
		{noise{name: "from Monday to Friday", jobs: 25, ofJob: 0.3, ofDay: 0.05, failing: 0.05}, 950, 950, 800},
		{noise{name: "many", jobs: 60, weekend: 25, ofJob: 0.4, ofDay: 0.1, failing: 0.1}, 950, 990, 900},
	} {
		t.Run(n.name, func(t *testing.T) {
			const histories = 1000
			random := rand.New(rand.NewPCG(2, 2))
			times := map[string]int{}
			for range histories {
				for what := range found(n.days(random, 1.5, 0.3)) {
					times[what]++
				}
			}
			t.Logf("of %d: %v", histories, times)
			if times[rows.Slower] < n.slower || times[rows.FailsMore] < n.fails || times[rows.WaitsLonger] < n.waits {
				t.Errorf("of %d histories with a change there are %v", histories, times)
			}
		})
	}
}

// TestFewDaysAndSmallChangesProveNothing: what is slower beyond doubt is told if days and jobs suffice.
func TestFewDaysAndSmallChangesProveNothing(t *testing.T) {
	steady := noise{jobs: 10, weekend: 10, failing: 0}
	random := rand.New(rand.NewPCG(3, 3))
	for name, test := range map[string]struct {
		jobs   int
		longer float64
		keep   func(day int) bool
		want   bool
	}{
		"all days":          {10, 2, func(int) bool { return true }, true},
		"three of the last": {10, 2, func(day int) bool { return day < 24 }, true},
		"two of the last":   {20, 2, func(day int) bool { return day < 23 }, false},
		"nothing before":    {10, 2, func(day int) bool { return day >= 21 }, false},
		"too few jobs":      {2, 2, func(int) bool { return true }, false},
		"a little":          {10, 1.1, func(int) bool { return true }, false},
	} {
		n := steady
		n.jobs, n.weekend = test.jobs, test.jobs
		days := n.days(random, test.longer, 0)
		for day := range days {
			if !test.keep(day) {
				days[day] = nil
			}
		}
		if got := found(days)[rows.Slower]; got != test.want {
			t.Errorf("%s: slower is %t", name, got)
		}
	}
	if got := trends.ChangesOfJob(nil); len(got) > 0 {
		t.Errorf("no days have %+v", got)
	}
}
