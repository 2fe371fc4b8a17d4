package reports_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/reports"
	"github.com/harrier-ci/harrier/internal/phases"
)

// A report brings GitHub's times of the job's wait, but none that the API server would refuse, and the job's start with
// it.
func TestReportsHaveTheTimesOfTheWait(t *testing.T) {
	queued := time.Date(2026, 5, 4, 3, 2, 1, 987, time.FixedZone("east", 3600))
	for title, test := range map[string]struct {
		queued, assigned, started time.Time
		want                      *v1alpha1.RunnerPhases
	}{
		"as it should be": {queued, queued.Add(time.Second), queued.Add(time.Minute), &v1alpha1.RunnerPhases{
			Queued:   new(metav1.Date(2026, 5, 4, 2, 2, 1, 0, time.UTC)),
			Assigned: new(metav1.Date(2026, 5, 4, 2, 2, 2, 0, time.UTC)),
			Started:  new(metav1.Date(2026, 5, 4, 2, 3, 1, 0, time.UTC)),
		}},
		"not told": {},
		"out of bounds": {
			time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("west", -3600)), time.Unix(0, 0),
			time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), nil,
		},
	} {
		t.Run(title, func(t *testing.T) {
			job := actions.JobStarted{RunnerName: "runner"}
			job.QueueTime, job.ScaleSetAssignTime, job.RunnerAssignTime = test.queued, test.assigned, test.started
			got := reports.Of(&actions.Message{JobsStarted: []actions.JobStarted{job}}, 1, queued)
			if diff := cmp.Diff(test.want, got[0].Status.Phases); diff != "" {
				t.Errorf("phases (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTheEndOfAJobHasGitHubsTimeBesideThatOfTheReceipt: the listener was away for five minutes while the job ended.
// Graces count from the receipt, and the job's time ends where GitHub says.
func TestTheEndOfAJobHasGitHubsTimeBesideThatOfTheReceipt(t *testing.T) {
	ended := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	heard := ended.Add(5 * time.Minute)
	for title, test := range map[string]struct{ told, want time.Time }{
		"told": {ended, ended}, "not told": {time.Time{}, heard}, "out of bounds": {time.Unix(-9, 0), heard},
	} {
		t.Run(title, func(t *testing.T) {
			job := actions.JobCompleted{RunnerName: "runner", Result: "succeeded"}
			job.FinishTime = test.told
			got := reports.Of(&actions.Message{JobsCompleted: []actions.JobCompleted{job}}, 1, heard)[0].Status
			if at := phases.Finished(&got); !got.FinishedAt.Time.Equal(heard) || !at.Time.Equal(test.want) {
				t.Errorf("it was heard at %s and ended at %s, want %s and %s", got.FinishedAt, at, heard, test.want)
			}
		})
	}
}

// Each text has 1 KiB at most, because all of them end up in annotations.
func TestTextsAboutJobsAreCutAndPrintable(t *testing.T) {
	const most = 1024
	long := strings.Repeat("ä", most)
	message := &actions.Message{JobsStarted: []actions.JobStarted{{
		RunnerName: "a", JobMessageBase: actions.JobMessageBase{
			JobDisplayName: long,
			JobID:          "job",
			OwnerName:      "my",
			RepositoryName: "repo",
			JobWorkflowRef: "my/repo/\x1b[2J\u202e\n.yml@main",
		},
	}}}
	got := reports.Of(message, 1, time.Unix(1, 0))[0].Status
	if got.JobID != "job" || got.JobRepositoryName != "my/repo" {
		t.Errorf("short texts became %q and %q", got.JobID, got.JobRepositoryName)
	}
	if got.JobWorkflowRef != "my/repo/ [2J  .yml@main" {
		t.Errorf("what a terminal would take for a command became %q", got.JobWorkflowRef)
	}
	if name := got.JobDisplayName; len(name) > most || len(name) < most-3 || !utf8.ValidString(name) {
		t.Errorf("the name has %d bytes, valid: %t", len(name), utf8.ValidString(name))
	}
}
