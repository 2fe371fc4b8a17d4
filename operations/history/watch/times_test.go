package watch_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/operations/history/databasetest"
	"github.com/harrier-ci/harrier/operations/history/ledger"
)

// TestForgedTimesAreNone: whoever writes the status of a runner chooses its times, and none of them may keep a row for
// ever, put it on top of a page, or make it cost what nobody used.
func TestForgedTimesAreNone(t *testing.T) {
	never, ages, early := time.Date(3058, 1, 1, 0, 0, 0, 0, time.UTC), noon.AddDate(-20, 0, 0), noon.Add(-time.Hour)
	whole := ledger.Job{
		RunnerUID: "uid", Cluster: "c", Namespace: "n", Set: "s", Runner: "r", At: noon.Add(20 * time.Second),
		Queued: noon.Add(-time.Hour), Assigned: noon.Add(-time.Minute), Created: noon, Registered: noon.Add(time.Second),
		Placed: noon.Add(2 * time.Second), ImagePulled: noon.Add(9 * time.Second), ContainerUp: noon.Add(9 * time.Second),
		Started: noon.Add(20 * time.Second), Finished: noon.Add(time.Minute), Result: "succeeded",
	}
	gaveUp := ledger.Job{RunnerUID: "gave-up", Cluster: "c", Namespace: "n", Set: "s", JobID: "j", At: noon.Add(-time.Hour),
		Queued: noon.Add(-time.Hour), Assigned: noon.Add(-time.Minute), Finished: noon, Result: "canceled", Ending: ledger.EndingGaveUp}
	none := time.Time{}
	for title, test := range map[string]struct {
		// clock is the ledger's, after noon.
		clock         time.Duration
		forge, expect func(*ledger.Job)
	}{
		"as it should be": {time.Minute, func(*ledger.Job) {}, func(*ledger.Job) {}},
		"a start that never comes": {time.Minute, func(j *ledger.Job) { j.At, j.Started = never, never },
			func(j *ledger.Job) { j.At, j.Started = noon, none }},
		"a start before the runner was created": {time.Minute, func(j *ledger.Job) { j.At, j.Started = early, early },
			func(j *ledger.Job) { j.At, j.Started = noon, none }},
		"GitHub's clock is behind": {time.Minute,
			func(j *ledger.Job) { j.At, j.Started = noon.Add(-time.Minute), noon.Add(-time.Minute) },
			func(j *ledger.Job) { j.At, j.Started = noon.Add(-time.Minute), noon.Add(-time.Minute) }},
		"queued and assigned ages ago": {time.Minute, func(j *ledger.Job) { j.Queued, j.Assigned = ages, ages },
			func(j *ledger.Job) { j.Queued, j.Assigned = none, none }},
		"queued and assigned never": {time.Minute, func(j *ledger.Job) { j.Queued, j.Assigned = never, never },
			func(j *ledger.Job) { j.Queued, j.Assigned = none, none }},
		"an end that never comes": {time.Minute, func(j *ledger.Job) { j.Finished = never },
			func(j *ledger.Job) { j.Finished = none }},
		"an end before the runner was created": {time.Minute, func(j *ledger.Job) { j.Finished = early },
			func(j *ledger.Job) { j.Finished = none }},
		"phases of a pod": {time.Minute,
			func(j *ledger.Job) { j.Registered, j.Placed, j.ImagePulled, j.ContainerUp = ages, never, early, never },
			func(j *ledger.Job) { j.Registered, j.Placed, j.ImagePulled, j.ContainerUp = none, none, none, none }},
		"a job that gave up, queued ages ago": {time.Minute,
			func(j *ledger.Job) { *j = gaveUp; j.At, j.Queued, j.Assigned = ages, ages, ages },
			func(j *ledger.Job) { *j = gaveUp; j.At, j.Queued, j.Assigned = j.Finished, none, none }},
		"a job that gave up":                  {time.Minute, func(j *ledger.Job) { *j = gaveUp }, func(j *ledger.Job) { *j = gaveUp }},
		"the ledger's clock is a year behind": {-365 * 24 * time.Hour, func(*ledger.Job) {}, func(*ledger.Job) {}},
	} {
		t.Run(title, func(t *testing.T) {
			r := record(t, databasetest.SQLite(t))
			r.clock.SetTime(noon.Add(test.clock))
			job, want := whole, whole
			test.forge(&job)
			test.expect(&want)
			r.Report(job)
			if err := r.Write(t.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]ledger.Job{want}, r.jobs()); diff != "" {
				t.Errorf("jobs (-want +got):\n%s", diff)
			}
		})
	}
}
