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
	// mostListed is the limit of status.listener.waiting.
	mostListed = 50
	// A job waits for less than longest: GitHub cancels it after a day. Of one that seems to wait longer the end was
	// missed.
	longest = 25 * time.Hour
	// Limits of texts in status.listener.waiting.
	maxText, maxEvent = 256, 64
)

// Jobs are those that wait. Make them with New.
type Jobs struct {
	byID map[string]v1alpha1.WaitingJob
}

// New returns the jobs that the listener before this one has listed. Others that it knew are not known any more.
func New(listed []v1alpha1.WaitingJob) *Jobs {
	jobs := &Jobs{byID: map[string]v1alpha1.WaitingJob{}}
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
		}
	}
	for _, job := range message.JobsStarted {
		delete(j.byID, idOf(&job.JobMessageBase))
	}
	for _, job := range message.JobsCompleted {
		delete(j.byID, idOf(&job.JobMessageBase))
	}
	if s := message.Statistics; s != nil && s.TotalAssignedJobs <= s.TotalRunningJobs {
		clear(j.byID)
	}
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
		Repository: cut(job.OwnerName+"/"+job.RepositoryName, maxText),
		RunID:      job.WorkflowRunID,
		JobID:      id,
		Name:       cut(job.JobDisplayName, maxText),
		Event:      cut(job.EventName, maxEvent),
		AssignedAt: metav1.NewTime(now).Rfc3339Copy(),
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

// Long returns the jobs that have waited for at least so long, oldest first and at most 50 of them, and when the next
// one will have, zero if none will. It returns nil for 0.
func (j *Jobs) Long(after time.Duration, now time.Time) (jobs []v1alpha1.WaitingJob, next time.Time) {
	if after <= 0 {
		return nil, time.Time{}
	}
	for id, job := range j.byID {
		due := Since(&job).Add(after)
		switch {
		case !now.Before(Since(&job).Add(longest)):
			delete(j.byID, id)
		case !now.Before(due):
			jobs = append(jobs, job)
		case next.IsZero() || due.Before(next):
			next = due
		}
	}
	slices.SortFunc(jobs, func(a, b v1alpha1.WaitingJob) int {
		return cmp.Or(Since(&a).Compare(Since(&b)), cmp.Compare(a.JobID, b.JobID))
	})
	return jobs[:min(len(jobs), mostListed)], next
}

// Since returns since when a job waits.
func Since(job *v1alpha1.WaitingJob) time.Time {
	if job.QueuedAt != nil {
		return job.QueuedAt.Time
	}
	return job.AssignedAt.Time
}
