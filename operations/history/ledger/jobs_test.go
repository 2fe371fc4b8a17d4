package ledger_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/operations/history/ledger"
)

func TestAJobComesBackAsItWasWritten(t *testing.T) {
	each(t, func(t *testing.T, l *ledger.Ledger) {
		whole, bare := finished(1, 0), ledger.Job{RunnerUID: "bare", Cluster: "c", Namespace: "n", Set: "s", Runner: "r",
			At: noon.Add(-time.Hour)}
		put(t, l, whole, bare)
		if diff := cmp.Diff([]ledger.Job{whole, bare}, jobs(t, l, ledger.Filter{})); diff != "" {
			t.Errorf("jobs (-want +got):\n%s", diff)
		}
		_, err := l.Job(t.Context(), "nobody")
		if !errors.Is(err, ledger.ErrNoJob) {
			t.Errorf("a job that is not there gives %v", err)
		}
	})
}

// reports are what a ledger sees of one job, one after the other: it is created, its first pod is lost before the job
// starts, it runs, is lost, and run again.
func reports() (seen []ledger.Job) {
	job := ledger.Job{RunnerUID: "uid", Cluster: "c", Namespace: "n", Set: "s", Runner: "r", At: noon, Created: noon,
		Registered: noon.Add(1 * time.Second)}
	step := func(change func()) { change(); seen = append(seen, job) }
	step(func() { job.Placed, job.Node, job.NodeType = noon.Add(2*time.Second), "node-1", "small" })
	step(func() { job.ImagePulled, job.ContainerUp = noon.Add(9*time.Second), noon.Add(10*time.Second) })
	step(func() {
		job.Registered, job.Placed, job.Node, job.NodeType = noon.Add(30*time.Second), noon.Add(40*time.Second), "node-2",
			"large"
		job.ImagePulled, job.ContainerUp = noon.Add(41*time.Second), noon.Add(42*time.Second)
	})
	step(func() {
		job.JobID, job.Repository, job.RunID, job.Event = "id", "acme/app", new(int64(7)), "push"
		job.Queued, job.Assigned, job.Started, job.At = noon.Add(20*time.Second), noon.Add(21*time.Second),
			noon.Add(50*time.Second), noon.Add(50*time.Second)
	})
	step(func() { job.LostCause = "Evicted"; job.Rerun, job.Attempt = "Wanted", new(int64(1)) })
	step(func() {
		job.Finished, job.Result, job.Ending = noon.Add(80*time.Second), ledger.ResultUnknown, ledger.EndingUnseen
	})
	step(func() { job.Finished, job.Ending = noon.Add(95*time.Second), ledger.EndingRunnerGone })
	step(func() { job.Finished, job.Result, job.Ending = noon.Add(90*time.Second), "canceled", "" })
	step(func() { job.PeakMemoryBytes, job.OOMKills = new(int64(5)), new(int64(0)) })
	step(func() { job.Rerun = "Asked" })
	step(func() { job.Rerun, job.RerunAttempt = "Done", new(int64(2)) })
	return seen
}

// TestOrderAndRepetitionMakeNoDifference: two ledgers by mistake, a restart, a buffer that is written late.
func TestOrderAndRepetitionMakeNoDifference(t *testing.T) {
	each(t, func(t *testing.T, l *ledger.Ledger) {
		all := reports()
		want := all[len(all)-1]
		random := rand.New(rand.NewPCG(3, 4))
		for round := range 12 {
			uid := strings.Repeat("x", round+1)
			order := append(random.Perm(len(all)), random.IntN(len(all)), random.IntN(len(all)))
			for _, i := range order {
				report := all[i]
				report.RunnerUID = uid
				put(t, l, report)
			}
			got, err := l.Job(t.Context(), uid)
			if err != nil {
				t.Fatal(err)
			}
			want.RunnerUID = uid
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("reports in the order %v (-want +got):\n%s", order, diff)
			}
		}
	})
}

func TestNobodyHeardIsLessThanGitHubsWord(t *testing.T) {
	each(t, func(t *testing.T, l *ledger.Ledger) {
		job := finished(1, 0)
		running := job
		running.Finished, running.Result = time.Time{}, ""
		put(t, l, running, finished(2, 0))
		uids, err := l.Running(t.Context(), "c", "team-a")
		if err != nil || !cmp.Equal(uids, []string{job.RunnerUID}) {
			t.Fatalf("running are %v, %v", uids, err)
		}
		last := noon.Add(11 * time.Minute)
		beat(t, l, last)
		if err := l.Gone(t.Context(), []string{job.RunnerUID, "uid-0002"}, last.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		got, _ := l.Job(t.Context(), job.RunnerUID)
		if got.Result != ledger.ResultUnknown || !got.Finished.Equal(last) || got.Ending != ledger.EndingUnseen {
			t.Errorf("a runner that is gone has result %q at %s, %q", got.Result, got.Finished, got.Ending)
		}
		if other, _ := l.Job(t.Context(), "uid-0002"); other.Result != "succeeded" {
			t.Errorf("a job that had finished has result %q", other.Result)
		}
		put(t, l, job)
		if got, _ := l.Job(t.Context(), job.RunnerUID); !cmp.Equal(got, job) {
			t.Errorf("after GitHub's word it is %+v", got)
		}
	})
}

func TestFiltersChoose(t *testing.T) {
	each(t, func(t *testing.T, l *ledger.Ledger) {
		change := func(number int, change func(*ledger.Job)) {
			job := finished(number, number)
			change(&job)
			put(t, l, job)
		}
		change(0, func(j *ledger.Job) {
			j.Cluster, j.Namespace, j.Set, j.RunID, j.JobID = "d", "team-b", "gpu",
				new(int64(99)), "the-job"
		})
		change(1, func(j *ledger.Job) {
			j.Repository, j.Workflow, j.Name, j.Event = "acme/lib", "acme/lib/w.yaml", "lint",
				"schedule"
		})
		change(2, func(j *ledger.Job) { j.Result, j.LostCause, j.Node = "failed", "Evicted", "node-9" })
		change(3, func(j *ledger.Job) { j.Finished, j.Result = time.Time{}, "" })
		for title, test := range map[string]struct {
			filter ledger.Filter
			want   string
		}{
			"all":        {ledger.Filter{}, "3210"},
			"from":       {ledger.Filter{From: noon.Add(2 * time.Minute)}, "32"},
			"to":         {ledger.Filter{To: noon.Add(2 * time.Minute)}, "10"},
			"cluster":    {ledger.Filter{Cluster: "d"}, "0"},
			"namespace":  {ledger.Filter{Namespace: "team-b"}, "0"},
			"set":        {ledger.Filter{Set: "gpu"}, "0"},
			"run":        {ledger.Filter{RunID: 99}, "0"},
			"job id":     {ledger.Filter{JobID: "the-job"}, "0"},
			"repository": {ledger.Filter{Repository: "acme/lib"}, "1"},
			"workflow":   {ledger.Filter{Workflow: "acme/lib/w.yaml"}, "1"},
			"name":       {ledger.Filter{Name: "lint"}, "1"},
			"event":      {ledger.Filter{Event: "schedule"}, "1"},
			"result":     {ledger.Filter{Result: "failed"}, "2"},
			"lost":       {ledger.Filter{Lost: true}, "2"},
			"cause":      {ledger.Filter{LostCause: "Evicted"}, "2"},
			"node":       {ledger.Filter{Node: "node-9"}, "2"},
			"running":    {ledger.Filter{Running: true}, "3"},
			"runner":     {ledger.Filter{Runner: "linux-2"}, "2"},
			"UID":        {ledger.Filter{RunnerUID: "uid-0001"}, "1"},
			"text":       {ledger.Filter{Text: "LINT"}, "1"},
			"repo text":  {ledger.Filter{Text: "e/LIB"}, "1"},
			"wildcards":  {ledger.Filter{Text: "_%"}, ""},
			"none":       {ledger.Filter{Repository: "' OR 1=1 --\x00\xff"}, ""},
		} {
			got := ""
			for _, job := range jobs(t, l, test.filter) {
				got += job.RunnerUID[len(job.RunnerUID)-1:]
			}
			if got != test.want {
				t.Errorf("%s: jobs %q, want %q", title, got, test.want)
			}
		}
	})
}

func TestPagesHaveEveryJobASingleTime(t *testing.T) {
	each(t, func(t *testing.T, l *ledger.Ledger) {
		var many []ledger.Job
		for i := range 25 {
			many = append(many, finished(i, i/10)) // ten at a time
		}
		put(t, l, many...)
		seen := map[string]bool{}
		filter := ledger.Filter{Limit: 4}
		for pages := 0; ; pages++ {
			page, err := l.Jobs(t.Context(), filter)
			if err != nil {
				t.Fatal(err)
			}
			for _, job := range page.Jobs {
				if seen[job.RunnerUID] {
					t.Errorf("job %s is on two pages", job.RunnerUID)
				}
				seen[job.RunnerUID] = true
			}
			if filter.After = page.Next; page.Next == "" {
				break
			}
		}
		if len(seen) != 25 {
			t.Errorf("pages have %d of 25 jobs", len(seen))
		}
		var wrong *ledger.FilterError
		if _, err := l.Jobs(t.Context(), ledger.Filter{After: "x"}); !errors.As(err, &wrong) {
			t.Errorf("a page that can't be gives %v", err)
		}
	})
}

// look is a page of jobs.
type look struct {
	Jobs     []string
	More     bool
	LookedTo time.Time
}

func lookAt(t *testing.T, l *ledger.Ledger, filter ledger.Filter) (seen look, next string) {
	t.Helper()
	page, err := l.Jobs(t.Context(), filter)
	if err != nil {
		t.Fatal(err)
	}
	for i := range page.Jobs {
		seen.Jobs = append(seen.Jobs, page.Jobs[i].RunnerUID)
	}
	seen.More, seen.LookedTo = page.Next != "", page.LookedTo
	return seen, page.Next
}

// TestARareJobIsFoundFurtherBack: a page looks at 20,000 jobs at most, and names the time up to which it has looked.
func TestARareJobIsFoundFurtherBack(t *testing.T) {
	each(t, func(t *testing.T, l *ledger.Ledger) {
		const all, lookedAt = 20_100, 20_000
		many := make([]ledger.Job, all)
		for i := range many {
			many[i] = finished(i, i)
		}
		rare := &many[0]
		rare.Name, rare.Result, rare.Namespace = "rare", "Unknown", "seldom"
		put(t, l, many...)
		for name, filter := range map[string]ledger.Filter{
			"text": {Text: "rare"}, "result": {Result: "Unknown"}, "namespace": {Namespace: "seldom"},
			"repository": {Repository: "acme/app", Name: "rare"},
		} {
			first, next := lookAt(t, l, filter)
			if diff := cmp.Diff(look{More: true, LookedTo: many[all-lookedAt].At}, first); diff != "" {
				t.Errorf("%s: the first page (-want +got):\n%s", name, diff)
			}
			filter.After = next
			second, _ := lookAt(t, l, filter)
			if diff := cmp.Diff(look{Jobs: []string{rare.RunnerUID}}, second); diff != "" {
				t.Errorf("%s: the second page (-want +got):\n%s", name, diff)
			}
		}
		runner, _ := lookAt(t, l, ledger.Filter{Runner: rare.Runner})
		if diff := cmp.Diff(look{Jobs: []string{rare.RunnerUID}}, runner); diff != "" {
			t.Errorf("by the runner's name (-want +got):\n%s", diff)
		}
		for name, filter := range map[string]ledger.Filter{"all": {}, "common": {Result: "succeeded"}} {
			if page, _ := lookAt(t, l, filter); len(page.Jobs) != ledger.MaxJobs || !page.More || !page.LookedTo.IsZero() {
				t.Errorf("%s: %d jobs, more %t, looked to %s", name, len(page.Jobs), page.More, page.LookedTo)
			}
		}
	})
}

func TestWhatTheDatabaseWouldRefuseIsWritten(t *testing.T) {
	each(t, func(t *testing.T, l *ledger.Ledger) {
		job := finished(1, 0)
		job.Name = "nul \x00, not UTF-8 \xff" + strings.Repeat("ü", 400)
		job.Queued = time.Unix(-5, 0)
		job.Assigned = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
		job.PeakMemoryBytes = new(int64(-1))
		put(t, l, job)
		got, err := l.Job(t.Context(), job.RunnerUID)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(got.Name, "nul , not UTF-8 \uFFFDüü") || len(got.Name) > 600 ||
			strings.HasSuffix(got.Name, "\uFFFD") {
			t.Errorf("the name is %q", got.Name)
		}
		if !got.Queued.IsZero() || !got.Assigned.IsZero() || got.PeakMemoryBytes != nil {
			t.Errorf("impossible figures are %v, %v, %v", got.Queued, got.Assigned, got.PeakMemoryBytes)
		}
	})
}
