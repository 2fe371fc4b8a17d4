package feedback_test

import (
	"errors"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/github/rest"
	"github.com/harrier-ci/harrier/internal/feedback"
)

// A list that was read a single time names jobs that have a runner, and those of its own names that were queued by then.
func TestWhichJobOfAListIsARunners(t *testing.T) {
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	run := newRun(now, job{Name: "build", Status: "in_progress", RunnerName: "R1"}, job{Name: "test", Status: "queued"},
		job{Name: "shard", Status: "queued"}, job{Name: "shard", Status: "queued"},
		job{Name: "lint", Status: "completed", Conclusion: "cancelled"}, job{Name: "docs", Status: "in_progress", RunnerName: "another"})
	listed, err := feedback.ListJobs(t.Context(), rest.New(run), &feedback.Budget{}, feedback.Run{Repository: "acme/app", ID: 42})
	if err != nil {
		t.Fatal(err)
	}
	before, later := now.Add(-time.Second), now.Add(time.Second)
	for _, test := range []struct {
		about, runner, name string
		queued              time.Time
		want                int64
	}{
		{"on the runner, whatever it is called", "r1", "renamed", later, 1},
		{"queued, and the only one of its name", "r2", "test", before, 2},
		{"of a later attempt", "r2", "test", later, 0},
		{"queued nobody knows when", "r2", "test", time.Time{}, 0},
		{"one of two", "r2", "shard", before, 0},
		{"one that has ended", "r2", "lint", before, 0},
		{"one that another runner has", "r2", "docs", before, 0},
		{"not listed yet", "r2", "deploy", before, 0},
		{"without a name", "r2", "", before, 0},
	} {
		got := int64(0)
		if found := listed.JobOf(test.runner, test.name, test.queued); found != nil {
			got = found.ID
		}
		if got != test.want {
			t.Errorf("%s: %d, want %d", test.about, got, test.want)
		}
	}
}

// Links leave half of what may be read to lost jobs.
func TestLinksLeaveReadsToOthers(t *testing.T) {
	budget, account, now := &feedback.Budget{}, actions.Account{Name: "App 1", Key: "1", Proven: true}, time.Now()
	for range 500 {
		if err := budget.SpendLink(account, now); err != nil {
			t.Fatal(err)
		}
	}
	err := budget.SpendLink(account, now)
	if spent, is := errors.AsType[*feedback.SpentError](err); !is || !spent.Until.Equal(now.Add(time.Hour)) {
		t.Errorf("the 501st: %v", err)
	}
	if err := budget.SpendRead(account, now); err != nil {
		t.Errorf("a look at a lost job's run: %v", err)
	}
}
