// Package waiting knows which jobs wait for a runner, from GitHub's messages. It calls nobody.
package waiting

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
)

const (
	// mostKnown bounds the memory: of more jobs the newest are not known.
	mostKnown = 1000
	// mostListed is the limit of status.listener.waiting, and listedAfter the wait after which a job is in it: most have a
	// runner by then.
	mostListed  = 50
	listedAfter = 5 * time.Second
	// A job waits for less than longest: GitHub cancels it after a day. Of one that seems to wait longer the end was
	// missed.
	longest = 25 * time.Hour
	// mostEnded is the limit of status.listener.gaveUp, and endedFor how long a job stays in it: a ledger that is restarted
	// finds it there.
	mostEnded = 256
	endedFor  = 5 * time.Minute
	// Limits of texts in status.listener.waiting.
	maxText, maxEvent = 256, 64
)

// Jobs are those that wait. Make them with New.
type Jobs struct {
	byID map[string]v1alpha1.WaitingJob
	// gaveUp ended before a runner had them, in the order in which that became known.
	gaveUp []v1alpha1.UnstartedJob
}

// New returns the jobs that the listener before this one has listed. Others that it knew are not known any more.
func New(listed []v1alpha1.WaitingJob, gaveUp []v1alpha1.UnstartedJob) *Jobs {
	jobs := &Jobs{byID: map[string]v1alpha1.WaitingJob{}, gaveUp: slices.Clone(gaveUp[:min(len(gaveUp), mostEnded)])}
	for _, job := range listed[:min(len(listed), mostListed)] {
		jobs.byID[job.JobID] = job
	}
	return jobs
}

// Update follows a message: assigned jobs wait, until they start or end. If GitHub counts none that waits, none does,
// whatever was missed.
func (j *Jobs) Update(message *actions.Message, now time.Time) {
	for _, job := range message.JobsAssigned {
		if id := idOf(&job.JobMessageBase); id != "" && len(j.byID) < mostKnown {
			j.byID[id] = waitingJob(id, &job.JobMessageBase, now)
			j.goesOn(id)
		}
	}
	for _, job := range message.JobsStarted {
		delete(j.byID, idOf(&job.JobMessageBase))
		j.goesOn(idOf(&job.JobMessageBase))
	}
	for _, job := range message.JobsCompleted {
		j.end(&job, now)
	}
	if s := message.Statistics; s != nil && s.TotalAssignedJobs <= s.TotalRunningJobs {
		clear(j.byID)
	}
}

// end notes the end of a job. One that no runner had has given up.
func (j *Jobs) end(job *actions.JobCompleted, now time.Time) {
	id := idOf(&job.JobMessageBase)
	known, waited := j.byID[id]
	delete(j.byID, id)
	j.goesOn(id) // in a message that comes again
	if job.Result != canceled || job.RunnerID != 0 || job.RunnerName != "" || id == "" {
		return
	}
	ended := v1alpha1.UnstartedJob{WaitingJob: waitingJob(id, &job.JobMessageBase, now),
		FinishedAt: metav1.NewTime(now).Rfc3339Copy()}
	if isTime(job.FinishTime, now) {
		ended.FinishedAt = metav1.NewTime(job.FinishTime.UTC()).Rfc3339Copy()
	}
	if waited && job.ScaleSetAssignTime.IsZero() {
		ended.AssignedAt = known.AssignedAt
	}
	if ended.FinishedAt.Before(&ended.AssignedAt) {
		ended.AssignedAt = ended.FinishedAt // nobody knows when it was assigned
	}
	j.gaveUp = append(j.gaveUp, ended)
	j.gaveUp = j.gaveUp[max(0, len(j.gaveUp)-mostEnded):]
}

// canceled is the result of a job that a user or GitHub has canceled.
const canceled = "canceled"

// goesOn takes a job out of those that gave up: GitHub assigns one that no runner took in time again.
func (j *Jobs) goesOn(id string) {
	j.gaveUp = slices.DeleteFunc(j.gaveUp, func(job v1alpha1.UnstartedJob) bool { return job.JobID == id })
}

// GaveUp returns the jobs that have given up in the last minutes, and when the next of them is left out, zero if none is.
func (j *Jobs) GaveUp(now time.Time) (jobs []v1alpha1.UnstartedJob, next time.Time) {
	j.gaveUp = slices.DeleteFunc(j.gaveUp, func(job v1alpha1.UnstartedJob) bool {
		return !now.Before(job.FinishedAt.Add(endedFor))
	})
	for i := range j.gaveUp {
		if until := j.gaveUp[i].FinishedAt.Add(endedFor); next.IsZero() || until.Before(next) {
			next = until
		}
	}
	return slices.Clone(j.gaveUp), next
}

// idOf returns the id that tells a job from others, which in old services is the number of its request.
func idOf(job *actions.JobMessageBase) string {
	if job.JobID == "" && job.RunnerRequestID != 0 {
		return strconv.FormatInt(job.RunnerRequestID, 10)
	}
	return cut(job.JobID, maxText)
}

func waitingJob(id string, job *actions.JobMessageBase, now time.Time) v1alpha1.WaitingJob {
	waiting := v1alpha1.WaitingJob{
		Repository:  cut(job.OwnerName+"/"+job.RepositoryName, maxText),
		RunID:       job.WorkflowRunID,
		JobID:       id,
		Name:        cut(job.JobDisplayName, maxText),
		WorkflowRef: cut(job.JobWorkflowRef, maxText),
		Event:       cut(job.EventName, maxEvent),
		AssignedAt:  metav1.NewTime(now).Rfc3339Copy(),
	}
	if isTime(job.ScaleSetAssignTime, now) {
		waiting.AssignedAt = metav1.NewTime(job.ScaleSetAssignTime.UTC()).Rfc3339Copy()
	}
	if isTime(job.QueueTime, now) {
		waiting.QueuedAt = new(metav1.NewTime(job.QueueTime.UTC()).Rfc3339Copy())
	}
	return waiting
}

// isTime reports whether GitHub's time is one since which a job may wait.
func isTime(at, now time.Time) bool {
	return at.After(now.Add(-longest)) && at.Before(now.Add(time.Hour))
}

// cut makes a text printable, and shortens it to so many bytes, between two characters.
func cut(text string, most int) string {
	text = actions.Printable(text)
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// Listed returns the jobs that have waited for five seconds or more, oldest first and at most 50 of them, and when the next
// one will have, zero if none will.
func (j *Jobs) Listed(now time.Time) (jobs []v1alpha1.WaitingJob, next time.Time) {
	for id, job := range j.byID {
		due := job.Since().Add(listedAfter)
		switch {
		case !now.Before(job.Since().Add(longest)):
			delete(j.byID, id)
		case !now.Before(due):
			jobs = append(jobs, job)
		case next.IsZero() || due.Before(next):
			next = due
		}
	}
	slices.SortFunc(jobs, func(a, b v1alpha1.WaitingJob) int {
		return cmp.Or(a.Since().Compare(b.Since()), cmp.Compare(a.JobID, b.JobID))
	})
	return jobs[:min(len(jobs), mostListed)], next
}
