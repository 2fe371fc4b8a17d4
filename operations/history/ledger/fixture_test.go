package ledger_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/operations/history/databasetest"
	"github.com/harrier-ci/harrier/operations/history/ledger"
)

func TestMain(m *testing.M) { databasetest.Main(m) }

// noon is on a Wednesday in March, far from the ends of its day.
var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// each runs a test with an empty ledger in each database.
func each(t *testing.T, test func(*testing.T, *ledger.Ledger)) {
	databasetest.Each(t, func(t *testing.T, at string) { test(t, open(t, at)) })
}

func open(t testing.TB, at string) *ledger.Ledger {
	t.Helper()
	l, err := ledger.Open(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// finished returns a job that started some minutes after noon and took ten.
func finished(number, minutes int) ledger.Job {
	start := noon.Add(time.Duration(minutes) * time.Minute)
	return ledger.Job{
		RunnerUID: fmt.Sprintf("uid-%04d", number), Cluster: "c", Namespace: "team-a", Set: "linux",
		Runner: fmt.Sprintf("linux-%d", number), At: start,
		Repository: "acme/app", Workflow: "acme/app/.github/workflows/ci.yaml", Ref: "refs/heads/main", Name: "test",
		RunID: new(int64(7000 + number/2)),
		JobID: fmt.Sprintf("job-%d", number), Event: "push",
		Queued: start.Add(-50 * time.Second), Assigned: start.Add(-49 * time.Second), Created: start.Add(-45 * time.Second),
		Registered: start.Add(-44 * time.Second), Placed: start.Add(-40 * time.Second),
		ImagePulled: start.Add(-10 * time.Second),
		ContainerUp: start.Add(-9 * time.Second), Started: start, Finished: start.Add(10 * time.Minute), Result: "succeeded",
		Node: "node-1", NodeType: "large", CPURequestMillis: new(int64(2000)), MemoryRequestBytes: new(int64(4 << 30)),
		PeakMemoryBytes: new(int64(1 << 30)), CPUMicroseconds: new(int64(600_000_000)), CPUPeriods: new(int64(6000)),
		ThrottledPeriods: new(int64(60)),
	}
}

func put(t testing.TB, l *ledger.Ledger, jobs ...ledger.Job) {
	t.Helper()
	for some := range slices.Chunk(jobs, 500) { // as many as the recorder writes together
		if err := l.Put(t.Context(), some); err != nil {
			t.Fatal(err)
		}
	}
}

func jobs(t testing.TB, l *ledger.Ledger, filter ledger.Filter) []ledger.Job {
	t.Helper()
	page, err := l.Jobs(t.Context(), filter)
	if err != nil {
		t.Fatal(err)
	}
	return page.Jobs
}

// rowsOfPage returns the rows of a page.
func rowsOfPage[T any](page ledger.Part[T], err error) ([]T, error) { return page.Rows, err }
