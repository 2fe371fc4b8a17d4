package reports

import (
	"cmp"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
)

// Report is written into the status of a runner, about its job.
type Report struct {
	Runner string
	Status v1alpha1.EphemeralRunnerStatus
}

// Of returns the reports that follow from a message. A job that started and completed within one message is reported a
// single time. An entry without a runner is about a job that was withdrawn before a runner had it, and is not reported.
func Of(message *actions.Message, patchID int, now time.Time) (reports []Report) {
	completed := map[string]bool{}
	for _, job := range message.JobsCompleted {
		completed[job.RunnerName] = true
	}
	for _, job := range message.JobsStarted {
		if job.RunnerName != "" && !completed[job.RunnerName] {
			reports = append(reports, Report{job.RunnerName, jobStatus(&job.JobMessageBase, patchID)})
		}
	}
	for _, job := range message.JobsCompleted {
		if job.RunnerName == "" {
			continue
		}
		report := Report{job.RunnerName, jobStatus(&job.JobMessageBase, patchID)}
		report.Status.JobResult = cut(job.Result)
		if report.Status.JobResult == "" {
			report.Status.JobResult = "unknown" // an empty result would read as "not completed"
		}
		finished := metav1.NewTime(now)
		report.Status.FinishedAt = &finished
		reports = append(reports, report)
	}
	return reports
}

func jobStatus(job *actions.JobMessageBase, patchID int) v1alpha1.EphemeralRunnerStatus {
	return v1alpha1.EphemeralRunnerStatus{
		JobRequestID:      job.RunnerRequestID,
		JobID:             cut(job.JobID),
		JobRepositoryName: cut(job.OwnerName + "/" + job.RepositoryName),
		JobWorkflowRef:    cut(job.JobWorkflowRef),
		WorkflowRunID:     job.WorkflowRunID,
		JobDisplayName:    cut(job.JobDisplayName),
		Event:             cut(job.EventName),
		JobPatchID:        patchID,
		Phases:            phasesOf(job),
	}
}

// phasesOf returns the times at which, as GitHub says, a job reached the phases of its wait and ended, nil if it says
// nothing.
func phasesOf(job *actions.JobMessageBase) *v1alpha1.RunnerPhases {
	p := v1alpha1.RunnerPhases{
		Queued:   reached(job.QueueTime),
		Assigned: reached(job.ScaleSetAssignTime),
		Started:  reached(job.RunnerAssignTime),
		Finished: reached(job.FinishTime),
	}
	if p == (v1alpha1.RunnerPhases{}) {
		return nil
	}
	return &p
}

// reached returns the time at which a job reached a phase of its wait, nil if GitHub gives none that the API server
// would take: nobody's report must be refused because of it.
func reached(at time.Time) *metav1.Time {
	if at = at.UTC(); at.Year() < 2000 || at.Year() > 9000 {
		return nil
	}
	return new(metav1.NewTime(at).Rfc3339Copy())
}

// At most maxFieldBytes of each text about a job are passed on. Users choose a job's name, and a matrix can make it
// arbitrarily long. The texts end up in annotations of the runner's pod, which are limited to 256 KiB together.
const maxFieldBytes = 1024

// cut makes a text printable, and shortens it to maxFieldBytes without splitting a character.
func cut(text string) string {
	text = actions.Printable(text)
	if len(text) <= maxFieldBytes {
		return text
	}
	const mark = "…"
	return strings.ToValidUTF8(text[:maxFieldBytes-len(mark)], "") + mark
}

// ended reports whether r is about a job's end.
func (r *Report) ended() bool { return r.Status.JobResult != "" }

// mergeStatus returns the sum of two reports that are written in order: fields that the newer one leaves out stay.
func mergeStatus(older, newer v1alpha1.EphemeralRunnerStatus) v1alpha1.EphemeralRunnerStatus {
	return v1alpha1.EphemeralRunnerStatus{
		JobRequestID:      cmp.Or(newer.JobRequestID, older.JobRequestID),
		JobID:             cmp.Or(newer.JobID, older.JobID),
		JobRepositoryName: cmp.Or(newer.JobRepositoryName, older.JobRepositoryName),
		JobWorkflowRef:    cmp.Or(newer.JobWorkflowRef, older.JobWorkflowRef),
		WorkflowRunID:     cmp.Or(newer.WorkflowRunID, older.WorkflowRunID),
		JobDisplayName:    cmp.Or(newer.JobDisplayName, older.JobDisplayName),
		Event:             cmp.Or(newer.Event, older.Event),
		JobPatchID:        cmp.Or(newer.JobPatchID, older.JobPatchID),
		JobResult:         cmp.Or(newer.JobResult, older.JobResult),
		FinishedAt:        cmp.Or(newer.FinishedAt, older.FinishedAt),
		Phases:            mergePhases(older.Phases, newer.Phases),
	}
}

func mergePhases(older, newer *v1alpha1.RunnerPhases) *v1alpha1.RunnerPhases {
	if older == nil || newer == nil {
		return cmp.Or(newer, older)
	}
	return &v1alpha1.RunnerPhases{
		Queued:   cmp.Or(newer.Queued, older.Queued),
		Assigned: cmp.Or(newer.Assigned, older.Assigned),
		Started:  cmp.Or(newer.Started, older.Started),
		Finished: cmp.Or(newer.Finished, older.Finished),
	}
}
