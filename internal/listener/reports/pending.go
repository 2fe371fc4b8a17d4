package reports

import (
	"cmp"
	"errors"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/apiaccess"
	"github.com/harrier-ci/harrier/internal/listener/errand"
)

// A report is given up after timeout while the API server accepts others.
const timeout = time.Minute

// pendingReport is the next report to be written about a runner. Further reports about the runner that arrive before an
// attempt begins are merged into it. It belongs to the holder of the reporter's lock; while it is under way, its Report
// doesn't change.
type pendingReport struct {
	Report
	errand.Errand
	// waiting are the deliveries that wait until the report is written or given up.
	waiting []*sync.WaitGroup
	// pausing is set after an attempt that failed, until the report is in the queue again.
	pausing bool
	// The report came at addedAt, and was last put into the queue at enqueuedAt.
	addedAt, enqueuedAt time.Time
	// asStart is set while the report is being written and counts among the queue's startsWriting.
	asStart bool
	// begunAt is the start of the last attempt.
	begunAt time.Time
	// firstTriedAt is the start of the first attempt, zero before that. firstForbiddenAt is the time of the first 403
	// in a row. Time in the queue before a further attempt does not count: begin moves both forward by it. While the
	// API server accepts nothing, refusal sets firstTriedAt to the present.
	firstTriedAt, firstForbiddenAt time.Time
	// The last attempt waited in the queue for lastWait, 0 for the first one.
	lastWait time.Duration
	// next merges the reports that arrived while this one was being written.
	next *pendingReport
}

func newPendingReport(report Report, now time.Time) *pendingReport {
	return &pendingReport{Report: report, addedAt: now, Errand: errand.New(200*time.Millisecond, 5*time.Second)}
}

// begin remembers that an attempt begins now. The time in the queue does not count, because others were being written.
func (p *pendingReport) begin(now time.Time) {
	p.Begin()
	p.begunAt = now
	if p.firstTriedAt.IsZero() {
		p.firstTriedAt, p.lastWait = now, 0
		return
	}
	p.lastWait = now.Sub(p.enqueuedAt)
	p.firstTriedAt = p.firstTriedAt.Add(p.lastWait)
	if !p.firstForbiddenAt.IsZero() {
		p.firstForbiddenAt = p.firstForbiddenAt.Add(p.lastWait)
	}
}

// refusal returns the reason why the API server will never accept the report, whose attempt has just failed with err,
// or an empty text while it may. It will not if it said so, or if it has accepted others for as long as this one was
// retried. It last accepted a write at acceptedAt. While it accepts none, the timeout does not begin: what runners do
// in the meantime must not be lost.
func (p *pendingReport) refusal(err error, acceptedAt, now time.Time) string {
	forbidden := apierrors.IsForbidden(err)
	if forbidden {
		p.firstForbiddenAt = cmp.Or(p.firstForbiddenAt, now)
	} else {
		p.firstForbiddenAt = time.Time{}
		if !acceptedAt.After(p.firstTriedAt.Add(-p.lastWait)) { // a write accepted while p waited counts as well
			p.firstTriedAt = now
		}
	}
	switch {
	case rejects(err), forbidden && !apiaccess.MayPass(err, p.firstForbiddenAt, now):
		return string(apierrors.ReasonForError(err))
	case !forbidden && now.Sub(p.firstTriedAt) >= timeout:
		return v1alpha1.ReasonTimeout
	}
	return ""
}

// rejects reports whether the API server has judged the request itself. A 404 that names no object comes from something
// on the way, or means that the whole kind is not served.
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
func (p *pendingReport) extend(newer Report) {
	p.Status = mergeStatus(p.Status, newer.Status)
	p.firstTriedAt, p.firstForbiddenAt = time.Time{}, time.Time{}
}
