package listener

import (
	"cmp"
	"errors"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/apiaccess"
)

// pendingReport is the next report to be written about a runner. Further reports about the runner that arrive before an attempt
// begins are merged into it.
//
// While the stage is stageWriting, a report belongs to the goroutine that writes it, except for stage and next. In every other
// stage it belongs to the holder of the reporter's lock. Only the writing goroutine uses pauses.
type pendingReport struct {
	jobReport
	// waiting are the deliveries that wait until the report is written or given up.
	waiting []*sync.WaitGroup
	stage   stage
	// queuedAt is when the report was added to the queue.
	queuedAt time.Time
	// asStart is set while the report is being written and counts among the queue's startsWriting.
	asStart bool
	// firstTriedAt is when the first attempt began, zero before that. firstForbiddenAt is when the first 403 in a row came. Time
	// in the queue before a further attempt does not count: startAttempt moves both forward by it. While the API server accepts
	// nothing, noteFailure sets firstTriedAt to the present.
	firstTriedAt, firstForbiddenAt time.Time
	// requeuedAt is when the report was queued for another attempt, lastWait how long the last attempt then waited to begin.
	requeuedAt time.Time
	lastWait   time.Duration
	pauses     backoff
	// next merges the reports that arrived while this one was being written.
	next *pendingReport
}

// stage is where a pendingReport is.
type stage int

const (
	stageQueued stage = iota
	stageWriting
	stagePausing // after an attempt that failed
)

// ended reports whether r is about a job's end.
func (r *jobReport) ended() bool { return r.status.JobResult != "" }

func newPendingReport(report jobReport, now time.Time) *pendingReport {
	return &pendingReport{jobReport: report, queuedAt: now, pauses: backoff{initial: 200 * time.Millisecond, max: 5 * time.Second}}
}

// startAttempt notes that an attempt begins now. The time since requeuedAt does not count, because others were being written.
func (p *pendingReport) startAttempt(now time.Time) {
	if p.firstTriedAt.IsZero() {
		p.firstTriedAt, p.lastWait = now, 0
		return
	}
	p.lastWait = now.Sub(p.requeuedAt)
	p.firstTriedAt = p.firstTriedAt.Add(p.lastWait)
	if !p.firstForbiddenAt.IsZero() {
		p.firstForbiddenAt = p.firstForbiddenAt.Add(p.lastWait)
	}
}

// noteFailure notes that an attempt has just failed with err. acceptedAt is when the API server last accepted a write. While it
// accepts none, reportTimeout does not begin: what runners do in the meantime must not be lost.
func (p *pendingReport) noteFailure(err error, acceptedAt, now time.Time) {
	if apierrors.IsForbidden(err) {
		p.firstForbiddenAt = cmp.Or(p.firstForbiddenAt, now)
		return
	}
	p.firstForbiddenAt = time.Time{}
	if !acceptedAt.After(p.firstTriedAt.Add(-p.lastWait)) { // a write accepted while p waited counts as well
		p.firstTriedAt = now
	}
}

// refusal returns why the API server will never accept the report, or an empty text while it may. It will not if it said so, or if
// it has accepted others for as long as this one was retried. err is the error of the last attempt, already noted.
func (p *pendingReport) refusal(err error, now time.Time) string {
	switch {
	case rejects(err), apierrors.IsForbidden(err) && !apiaccess.MayPass(err, p.firstForbiddenAt, now):
		return string(apierrors.ReasonForError(err))
	case !apierrors.IsForbidden(err) && now.Sub(p.firstTriedAt) >= reportTimeout:
		return v1alpha1.ReasonTimeout
	}
	return ""
}

// rejects reports whether the API server has judged the request itself. A 404 that names no object comes from something on the
// way, or means that the whole kind is not served.
func rejects(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch status.Status().Code {
	case http.StatusNotFound:
		return !apierrors.IsUnexpectedServerError(err)
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// extend merges a newer report into p, which then has its full time again.
func (p *pendingReport) extend(newer jobReport) {
	p.status = mergeStatus(p.status, newer.status)
	p.firstTriedAt, p.firstForbiddenAt = time.Time{}, time.Time{}
}

// mergeStatus returns what two reports amount to when written in order: fields that the newer one leaves out stay.
func mergeStatus(older, newer v1alpha1.EphemeralRunnerStatus) v1alpha1.EphemeralRunnerStatus {
	return v1alpha1.EphemeralRunnerStatus{
		JobRequestID:      cmp.Or(newer.JobRequestID, older.JobRequestID),
		JobID:             cmp.Or(newer.JobID, older.JobID),
		JobRepositoryName: cmp.Or(newer.JobRepositoryName, older.JobRepositoryName),
		JobWorkflowRef:    cmp.Or(newer.JobWorkflowRef, older.JobWorkflowRef),
		WorkflowRunID:     cmp.Or(newer.WorkflowRunID, older.WorkflowRunID),
		JobDisplayName:    cmp.Or(newer.JobDisplayName, older.JobDisplayName),
		JobPatchID:        cmp.Or(newer.JobPatchID, older.JobPatchID),
		JobResult:         cmp.Or(newer.JobResult, older.JobResult),
		FinishedAt:        cmp.Or(newer.FinishedAt, older.FinishedAt),
	}
}
