package watch_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	databases "github.com/harrier-ci/harrier/operations/history/database"
	"github.com/harrier-ci/harrier/operations/history/databasetest"
	"github.com/harrier-ci/harrier/operations/history/ledger"
)

// TestAFloodOfReportsCostsNoOtherNamespaceARow: more jobs than there is room for, of one namespace, before and after
// those of another one, while nothing is written.
func TestAFloodOfReportsCostsNoOtherNamespaceARow(t *testing.T) {
	r := record(t, databasetest.SQLite(t))
	report := func(namespace string, number int) {
		r.Report(ledger.Job{RunnerUID: fmt.Sprint(namespace, number), Cluster: "c", Namespace: namespace, Set: "s",
			Runner: fmt.Sprint(number), At: noon, Started: noon})
	}
	for number := range 3 * room {
		if number%(room/2) == 0 {
			report("good", number)
		}
		report("evil", number)
	}
	if err := r.Write(t.Context()); err != nil {
		t.Fatal(err)
	}
	written := map[string]int{}
	for _, namespace := range []string{"good", "evil"} {
		uids, err := r.Ledger.Running(t.Context(), "c", namespace)
		if err != nil {
			t.Fatal(err)
		}
		written[namespace] = len(uids)
	}
	if written["good"] != 6 || written["evil"] != room-6 {
		t.Errorf("%v are written", written)
	}
}

// TestReportsAreCut: whoever writes the status of a runner chooses how long its texts are, and when it happened.
func TestReportsAreCut(t *testing.T) {
	r := record(t, databasetest.SQLite(t))
	r.MaxPending = 1 << 20
	for number := range 20_000 {
		r.Report(ledger.Job{RunnerUID: fmt.Sprint(number), Cluster: "c", Namespace: "n", Set: "s", At: noon, Started: noon,
			Name: strings.Repeat("n", 3000), Repository: strings.Repeat("r", 3000), Workflow: strings.Repeat("w", 3000),
			Ref: strings.Repeat("r", 3000), JobID: strings.Repeat("i", 3000), Event: strings.Repeat("e", 3000),
			Result: strings.Repeat("r", 3000), Finished: noon.AddDate(500, 0, number)})
	}
	kept, size := r.Waiting()
	if size > 64<<20 || kept < 10_000 {
		t.Errorf("%d jobs wait, with %d bytes", kept, size)
	}
	r.Report(ledger.Job{RunnerUID: "late", Cluster: "c", Namespace: "m", Set: "s", At: noon, Started: noon,
		Finished: noon.AddDate(500, 0, 0)})
	if err := r.Write(t.Context()); err != nil {
		t.Fatal(err)
	}
	page, err := r.Ledger.Jobs(t.Context(), ledger.Filter{Namespace: "m", Set: "s"})
	if err != nil || len(page.Jobs) != 1 || !page.Jobs[0].Finished.IsZero() {
		t.Errorf("jobs are %+v, %v", page.Jobs, err)
	}
}

// TestHealthFollowsTheDatabase has PostgreSQL hang, neither answering nor ending a connection, and answer again.
func TestHealthFollowsTheDatabase(t *testing.T) {
	through, hang, resume := databasetest.Hanging(t, databasetest.PostgreSQL(t))
	r := record(t, through)
	r.after(time.Second)
	minutes := func(number int) {
		for range number {
			r.running(1)
			r.clock.Step(time.Minute)
			limited, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			r.Step(limited)
			cancel()
		}
	}
	minutes(1)
	if err := r.Health(); err != nil {
		t.Fatalf("at first: %v", err)
	}
	hang()
	minutes(10)
	if err := r.Health(); err != nil {
		t.Errorf("after ten minutes: %v", err)
	}
	minutes(10)
	if err := r.Health(); err == nil || !strings.Contains(err.Error(), "write") {
		t.Errorf("after twenty minutes: %v", err)
	}
	resume()
	r.after(time.Minute)
	if err := r.Health(); err != nil {
		t.Errorf("when it answers again: %v", err)
	}
	if jobs := r.jobs(); len(jobs) != 1 {
		t.Errorf("jobs are %+v", jobs)
	}
}

// TestATaskThatFailsStopsNoOther breaks the tables of single tasks, one at a time.
func TestATaskThatFailsStopsNoOther(t *testing.T) {
	for _, table := range []string{"samples", "unfolded_periods", "gaps"} {
		t.Run(table, func(t *testing.T) {
			at := databasetest.SQLite(t)
			r := record(t, at)
			other, err := databases.Connect(at)
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			if _, err := other.Exec("DROP TABLE " + table); err != nil {
				t.Fatal(err)
			}
			r.cluster.samples = []ledger.Sample{{Cluster: "c", Namespace: "n", Set: "s", Running: 1}}
			r.running(1)
			for range 5 {
				r.after(time.Hour)
			}
			if jobs := r.jobs(); len(jobs) != 1 {
				t.Errorf("jobs are %+v", jobs)
			}
			if table != "samples" {
				if samples, err := r.Ledger.Samples(t.Context(), ledger.Filter{}); err != nil || len(samples.Rows) == 0 {
					t.Errorf("samples are %v, %v", samples, err)
				}
			}
			if err := r.Health(); err != nil {
				t.Errorf("a restart would mend nothing, and the health is %v", err)
			}
		})
	}
}
