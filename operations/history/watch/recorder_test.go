package watch_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	clocktesting "k8s.io/utils/clock/testing"

	databases "github.com/harrier-ci/harrier/operations/history/database"
	"github.com/harrier-ci/harrier/operations/history/databasetest"
	"github.com/harrier-ci/harrier/operations/history/ledger"
	"github.com/harrier-ci/harrier/operations/history/watch"
)

func TestMain(m *testing.M) { databasetest.Main(m) }

// room is the number of jobs that a recorder remembers in these tests.
const room = 1200

// cluster has what a recorder sees besides reports.
type cluster struct {
	samples []ledger.Sample
	// asked are the minutes that samples were asked of.
	asked   []time.Time
	gaveUp  []ledger.Job
	runners map[string]bool
}

func (c *cluster) GaveUp() []ledger.Job { return c.gaveUp }

func (c *cluster) Samples(now time.Time) []ledger.Sample {
	c.asked = append(c.asked, now)
	samples := append([]ledger.Sample(nil), c.samples...)
	for i := range samples {
		samples[i].At = now.Truncate(time.Minute)
	}
	return samples
}

func (c *cluster) Runners() map[string]bool { return c.runners }

func (c *cluster) NodeLabels(_ context.Context, node string) (kind, labels string) {
	return "type of " + node, "labels=of-" + node
}

type recording struct {
	*watch.Recorder
	t       *testing.T
	clock   *clocktesting.FakeClock
	cluster *cluster
}

// record returns a recorder at noon that writes into a database, as one does that has just started.
func record(t *testing.T, at string) *recording {
	t.Helper()
	l, err := ledger.Open(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	r := &recording{t: t, clock: clocktesting.NewFakeClock(noon), cluster: &cluster{runners: map[string]bool{}}}
	r.Recorder = &watch.Recorder{
		Ledger: l, Name: "c", Cluster: r.cluster, Clock: r.clock, Log: logr.Discard(),
		Metrics: watch.NewMetrics(prometheus.NewRegistry()), Retention: 90 * 24 * time.Hour, MaxPending: room,
	}
	return r
}

// running reports the start of a job on a runner that exists from then on.
func (r *recording) running(number int) ledger.Job {
	job := ledger.Job{
		RunnerUID: fmt.Sprintf("uid-%d", number), Cluster: "c", Namespace: "n", Set: "s", Runner: fmt.Sprint(number),
		At: noon, Started: noon,
		Node: "node",
	}
	r.cluster.runners[job.RunnerUID] = true
	r.Report(job)
	return job
}

func (r *recording) after(passed time.Duration) {
	r.clock.Step(passed)
	r.Step(r.t.Context())
}

func (r *recording) jobs() []ledger.Job {
	r.t.Helper()
	page, err := r.Ledger.Jobs(r.t.Context(), ledger.Filter{})
	if err != nil {
		r.t.Fatal(err)
	}
	return page.Jobs
}

func TestAJobIsWrittenWithinASecond(t *testing.T) {
	r := record(t, databasetest.SQLite(t))
	want := r.running(1)
	r.after(time.Second)
	want.NodeType, want.NodeLabels = "type of node", "labels=of-node"
	if diff := cmp.Diff([]ledger.Job{want}, r.jobs()); diff != "" {
		t.Errorf("jobs (-want +got):\n%s", diff)
	}
}

func TestTwoLedgersAndARestartMakeNoRowTwice(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, at string) {
		first, second := record(t, at), record(t, at)
		job := first.running(1)
		second.running(1)
		first.after(time.Second)
		second.after(time.Second)
		job.Finished, job.Result = noon.Add(time.Minute), "succeeded"
		second.Report(job)
		second.after(time.Second)
		first.after(time.Second) // it has seen no end yet, and takes nothing back
		third := record(t, at)
		third.running(1)
		third.after(time.Second)
		if jobs := third.jobs(); len(jobs) != 1 || jobs[0].Result != "succeeded" {
			t.Errorf("jobs are %+v", jobs)
		}
	})
}

// TestNothingIsLostWhileTheDatabaseIsAway has jobs end, and pods and runners go, for ten minutes in which PostgreSQL
// does not run.
func TestNothingIsLostWhileTheDatabaseIsAway(t *testing.T) {
	r := record(t, databasetest.PostgreSQL(t))
	r.running(1)
	r.after(time.Second)
	if err := databasetest.Stop(); err != nil {
		t.Fatal(err)
	}
	for number := range 100 {
		job := r.running(number)
		job.PeakMemoryBytes = new(int64(5)) // of the pod
		r.Report(job)
		job.PeakMemoryBytes, job.Node = nil, ""
		job.Finished, job.Result = noon.Add(time.Minute), "succeeded"
		r.Report(job)
		delete(r.cluster.runners, job.RunnerUID)
		if number%20 == 0 {
			r.after(2 * time.Minute)
		}
	}
	if err := databasetest.Start(); err != nil {
		t.Fatal(err)
	}
	r.after(time.Minute)
	jobs := r.jobs()
	for _, job := range jobs {
		if job.Result != "succeeded" || job.PeakMemoryBytes == nil || job.Node == "" {
			t.Fatalf("a job is %+v", job)
		}
	}
	if gaps, err := r.Ledger.Gaps(t.Context(), ledger.Filter{}); len(jobs) != 100 || err != nil || len(gaps.Rows) > 0 {
		t.Errorf("%d of 100 jobs are written, gaps are %v, %v", len(jobs), gaps, err)
	}
}

// TestADatabaseThatRefusesIsWaitedFor has SQLite refuse to write, as with a full disk, until too many jobs wait.
func TestADatabaseThatRefusesIsWaitedFor(t *testing.T) {
	at := databasetest.SQLite(t)
	other, err := databases.Connect(at)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	r := record(t, at)
	r.after(time.Second)
	locked, err := other.BeginTx(t.Context(), nil) // nobody else may write
	if err != nil {
		t.Fatal(err)
	}
	for number := range room + 10 {
		r.running(number)
	}
	limited, cancel := context.WithTimeout(t.Context(), time.Second)
	r.Step(limited)
	cancel()
	if jobs := r.jobs(); len(jobs) > 0 {
		t.Fatalf("%d jobs are written", len(jobs))
	}
	if err := locked.Rollback(); err != nil {
		t.Fatal(err)
	}
	r.clock.Step(time.Hour)
	if err := r.Write(t.Context()); err != nil {
		t.Fatal(err)
	}
	running, err := r.Ledger.Running(t.Context(), "c", "")
	if err != nil || len(running) != room {
		t.Errorf("%d jobs are written, %v", len(running), err)
	}
	gaps, err := r.Ledger.Gaps(t.Context(), ledger.Filter{})
	want := []ledger.Gap{{Cluster: "c", From: noon.Add(time.Second), To: noon.Add(time.Hour + time.Second),
		Reason: ledger.GapOverflow}}
	if diff := cmp.Diff(want, gaps.Rows); diff != "" || err != nil {
		t.Errorf("gaps (-want +got):\n%s%v", diff, err)
	}
}

func TestARunnerThatVanishedHasAnUnknownEnd(t *testing.T) {
	at := databasetest.SQLite(t)
	before := record(t, at)
	before.running(1)
	before.running(2)
	before.after(time.Second)
	after := record(t, at)
	after.running(2)
	after.after(time.Hour)
	got := map[string]string{}
	for _, job := range after.jobs() {
		got[job.RunnerUID] = job.Result
	}
	if diff := cmp.Diff(map[string]string{"uid-1": ledger.ResultUnknown, "uid-2": ""}, got); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}

// TestAnotherLedgerTakesOverWhatItSees: the one that wrote the rows has vanished, one sees the runners, and one nothing.
func TestAnotherLedgerTakesOverWhatItSees(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, at string) {
		vanished, sees, blind := record(t, at), record(t, at), record(t, at)
		vanished.running(1)
		vanished.after(time.Second)
		for _, r := range []*recording{sees, blind} {
			r.after(time.Second)
		}
		sees.running(1)
		for range 60 {
			blind.after(time.Minute)
			sees.after(time.Minute)
		}
		if job := sees.jobs()[0]; !job.Finished.IsZero() {
			t.Errorf("a job that one sees has ended: %+v", job)
		}
		delete(sees.cluster.runners, "uid-1")
		for range 11 {
			sees.after(time.Minute)
		}
		if job := sees.jobs()[0]; job.Ending != ledger.EndingUnseen || job.RunTime() != 0 {
			t.Errorf("when its runner has vanished it is %+v", job)
		}
	})
}

func TestOnlyWhatChangesIsSampled(t *testing.T) {
	r := record(t, databasetest.SQLite(t))
	r.cluster.samples = []ledger.Sample{{Cluster: "c", Namespace: "n", Set: "s", Running: 1}}
	for range 3 * 60 {
		r.after(time.Minute)
	}
	r.cluster.samples[0].Running = 2
	r.after(time.Minute)
	page, err := r.Ledger.Samples(t.Context(), ledger.Filter{})
	samples := page.Rows
	if err != nil || len(samples) < 4 || len(samples) > 6 || samples[len(samples)-1].Running != 2 {
		t.Errorf("samples are %+v, %v", samples, err)
	}
	for i := 1; i < len(samples); i++ {
		if passed := samples[i].At.Sub(samples[i-1].At); passed > ledger.SampleInterval {
			t.Errorf("there is no sample for %s", passed)
		}
	}
}

// TestAClockThatIsAYearAheadDeletesNothing at the start or later, until it has been so for an hour, and then nothing of
// another cluster whose ledger lives.
func TestAClockThatIsAYearAheadDeletesNothing(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, at string) {
		before, other := record(t, at), record(t, at)
		other.Name = "other"
		other.Report(ledger.Job{RunnerUID: "other", Cluster: "other", Namespace: "n", Set: "s", At: noon, Started: noon})
		before.running(1)
		goOn := func(r *recording, minutes int) {
			for range minutes {
				r.after(time.Minute)
			}
		}
		goOn(other, 1)
		goOn(before, 61)
		before.clock.SetTime(noon.AddDate(1, 0, 0))
		goOn(before, 1)
		if jobs := before.jobs(); len(jobs) != 2 {
			t.Fatalf("when the clock jumps %d jobs are left", len(jobs))
		}
		before.clock.SetTime(noon.Add(2 * time.Hour))
		goOn(before, 61)
		after := record(t, at)
		after.clock.SetTime(noon.AddDate(1, 0, 0))
		after.running(2) // at noon: its rows aren't left out either
		for range 58 {
			goOn(after, 1)
			goOn(other, 1)
		}
		if jobs := after.jobs(); len(jobs) != 3 {
			t.Fatalf("within an hour %d jobs are left", len(jobs))
		}
		for range 70 {
			goOn(after, 1)
			goOn(other, 1)
		}
		if jobs := after.jobs(); len(jobs) != 1 || jobs[0].Cluster != "other" {
			t.Fatalf("jobs are left: %+v", jobs)
		}
		goOn(after, 130) // while the other is silent
		if jobs := after.jobs(); len(jobs) != 0 {
			t.Errorf("of a ledger that has ended are left: %+v", jobs)
		}
	})
}

func TestAClockThatIsSetBackStopsNothing(t *testing.T) {
	r := record(t, databasetest.SQLite(t))
	r.after(time.Second)
	r.clock.SetTime(noon.Add(-5 * time.Hour))
	r.running(1)
	r.cluster.samples = []ledger.Sample{{Cluster: "c", Namespace: "n", Set: "s", Running: 1}}
	r.after(time.Second)
	samples, err := r.Ledger.Samples(t.Context(), ledger.Filter{})
	if len(r.jobs()) != 1 || err != nil || len(samples.Rows) != 1 {
		t.Errorf("jobs are %v, samples %v, %v", r.jobs(), samples, err)
	}
}

// Listeners tell for minutes of jobs that ended without a runner: each has one row, after GitHub had time to assign it
// again, and its wait counts.
func TestJobsThatGaveUpAreWrittenOnce(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, at string) {
		r := record(t, at)
		r.after(time.Second)
		r.cluster.gaveUp = []ledger.Job{{RunnerUID: "gave-up", Cluster: "c", Namespace: "n", Set: "s", At: noon.Add(-time.Hour),
			Queued: noon.Add(-time.Hour), Assigned: noon.Add(-50 * time.Minute), Finished: noon, Result: "canceled",
			Ending: ledger.EndingGaveUp}}
		r.after(30 * time.Second)
		if jobs := r.jobs(); len(jobs) != 0 {
			t.Errorf("after half a minute there is %+v", jobs)
		}
		for range 5 {
			r.after(time.Minute)
			r.after(time.Second)
		}
		if jobs := r.jobs(); len(jobs) != 1 || jobs[0].Ending != ledger.EndingGaveUp || !jobs[0].Finished.Equal(noon) {
			t.Fatalf("the rows are %+v", jobs)
		}
		if err := r.Ledger.AddUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		waits, err := r.Ledger.WaitsBy(t.Context(), ledger.ByAll, ledger.Filter{})
		if last := waits.Rows[len(waits.Rows)-1]; err != nil || last.Phase != ledger.WholeWait || last.Jobs != 1 || last.MeanSeconds != 3600 {
			t.Errorf("waits are %+v, %v", waits, err)
		}
		usage, err := r.Ledger.UsageBy(t.Context(), ledger.BySet, ledger.Filter{}, ledger.Prices{})
		if err != nil || len(usage) != 1 || usage[0].Canceled != 1 || usage[0].RunHours != 0 {
			t.Errorf("usage is %+v, %v", usage, err)
		}
	})
}
