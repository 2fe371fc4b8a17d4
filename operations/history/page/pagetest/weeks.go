package pagetest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/harrier-ci/harrier/operations/history/ledger"
)

// weeks are jobs of the four weeks before the day, of one scale set: a test that took half as long again in the last
// week, beside one that didn't.
func weeks(now time.Time) (jobs []ledger.Job) {
	random := rand.New(rand.NewPCG(3, 5)) //nolint:gosec // the same weeks each time
	midnight := now.UTC().Truncate(24 * time.Hour)
	for day := range 28 {
		for _, hour := range []int{9, 11, 14, 16} {
			for number := range 6 {
				start := midnight.AddDate(0, 0, -day-1).Add(time.Duration(hour)*time.Hour + time.Duration(7*number)*time.Minute)
				if start.After(now.Add(-25 * time.Hour)) {
					continue // the day has jobs of its own
				}
				job := sets[0].job(20_000+len(jobs), start, now, random)
				job.RunnerUID = fmt.Sprintf("00000000-0000-4000-9000-%012d", len(jobs))
				of := sets[0].workflows[number%2]
				job.Repository, job.Workflow = of.repository, of.repository+"/.github/workflows/"+of.file
				job.Name = of.job
				if number >= 4 {
					job.Event, job.Ref = "pull_request", fmt.Sprintf("refs/pull/%d/merge", len(jobs))
				}
				took := (360 + 100*float64(number%2)) * (0.9 + 0.2*random.Float64()) * (0.97 + 0.01*float64(day%7))
				if number%2 == 0 && day < 7 {
					took *= 1.6
				}
				job.Finished = start.Add(time.Duration(took) * time.Second)
				jobs = append(jobs, job)
			}
		}
	}
	return jobs
}
