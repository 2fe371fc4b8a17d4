package waiting_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/waiting"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func job(id string, queued time.Time) actions.JobMessageBase {
	return actions.JobMessageBase{
		JobID:          id,
		OwnerName:      "acme",
		RepositoryName: "app",
		WorkflowRunID:  7,
		EventName:      "push",
		QueueTime:      queued,
	}
}

func assigned(jobs ...actions.JobMessageBase) *actions.Message {
	m := &actions.Message{Statistics: &actions.Statistics{TotalAssignedJobs: 5, TotalRunningJobs: 1}}
	for _, j := range jobs {
		m.JobsAssigned = append(m.JobsAssigned, actions.JobAssigned{JobMessageBase: j})
	}
	return m
}

func ids(j *waiting.Jobs, now time.Time) string {
	jobs, _ := j.Listed(now)
	var named []string
	for _, one := range jobs {
		named = append(named, one.JobID)
	}
	return strings.Join(named, " ")
}

func TestJobsThatWaitAreListedUntilTheyStartOrEnd(t *testing.T) {
	j := waiting.New(nil, nil)
	j.Update(
		assigned(job("b", noon.Add(time.Second)), job("a", noon), job("c", noon.Add(-time.Second))), noon,
	)
	if got, next := j.Listed(noon.Add(3 * time.Second)); len(got) != 0 || !next.Equal(noon.Add(4*time.Second)) {
		t.Errorf("at first %v, next %s, want none, and c after five seconds", got, next)
	}
	later := noon.Add(6 * time.Second)
	if got := ids(j, later); got != "c a b" {
		t.Errorf("%q wait, want the oldest first", got)
	}
	started := &actions.Message{JobsStarted: []actions.JobStarted{{JobMessageBase: job("a", noon), RunnerName: "r"}},
		JobsCompleted: []actions.JobCompleted{{JobMessageBase: job("c", noon)}}}
	j.Update(started, later)
	if got := ids(j, later); got != "b" {
		t.Errorf("%q wait, want the one that neither started nor was withdrawn", got)
	}
	listed, _ := j.Listed(later)
	if got := ids(waiting.New(listed, nil), later); got != "b" {
		t.Errorf("the next listener knows %q, want b", got)
	}
	j.Update(&actions.Message{Statistics: &actions.Statistics{TotalAssignedJobs: 2, TotalRunningJobs: 2}}, later)
	if got := ids(j, later); got != "" {
		t.Errorf("%q wait although GitHub counts none", got)
	}
}

// end ends the jobs that wait, as many at a time as are listed, until none is listed, and returns
// their number.
func end(j *waiting.Jobs, now time.Time) (ended int) {
	for {
		jobs, _ := j.Listed(now)
		if len(jobs) == 0 {
			return ended
		}
		over := new(actions.Message)
		for i := range jobs {
			over.JobsCompleted = append(over.JobsCompleted, actions.JobCompleted{JobMessageBase: job(jobs[i].JobID, noon)})
		}
		j.Update(over, now)
		ended += len(jobs)
	}
}

// Names and times come from GitHub and from users: nothing of them is refused by the schema, which allows 50 jobs, or
// kept for ever.
func TestOddJobsAreBounded(t *testing.T) {
	j := manyOddJobs()
	jobs, _ := j.Listed(noon.Add(time.Hour))
	if len(jobs) != 50 {
		t.Errorf("%d are listed, want 50", len(jobs))
	}
	if one := jobs[0]; !strings.HasPrefix(one.Name, " [2Jä") || len(one.Name) > 256 || len(one.Event) > 64 ||
		len(one.Repository) > 256 || one.QueuedAt != nil || one.AssignedAt.IsZero() {
		t.Errorf("%+v", one)
	}
	if known := end(j, noon.Add(time.Hour)); known != 1000 {
		t.Errorf("%d are known, want 1000", known)
	}
}

// GitHub cancels a job after a day: the end of one that seems to wait longer was missed.
func TestJobsAreForgottenAfterADay(t *testing.T) {
	j := manyOddJobs()
	if jobs, next := j.Listed(noon.Add(26 * time.Hour)); len(jobs) != 0 || !next.IsZero() {
		t.Errorf("a day later %d are listed, the next one at %s", len(jobs), next)
	}
	if known := end(j, noon.Add(time.Hour)); known != 0 {
		t.Errorf("a day later %d are still known", known)
	}
}

// manyOddJobs returns what is known after 3000 jobs whose texts are long and not printable, and one without an ID.
func manyOddJobs() *waiting.Jobs {
	j := waiting.New(nil, nil)
	j.Update(assigned(actions.JobMessageBase{}), noon)
	for i := range 3000 {
		odd := job(fmt.Sprint(i), time.Time{})
		odd.JobDisplayName, odd.EventName, odd.RepositoryName = "\x1b[2J"+strings.Repeat("ä", 5000),
			strings.Repeat("x", 999), strings.Repeat("y", 999)
		j.Update(assigned(odd), noon)
	}
	return j
}
