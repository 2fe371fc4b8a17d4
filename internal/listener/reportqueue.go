package listener

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

const (
	// maxReportWrites bounds the patches in flight. A runner's status is what costs an API server most to patch, and in a burst
	// these patches compete with the creation and deletion of pods, for which jobs and machines wait. At 10 ms each they are
	// 600 a second, more than messages bring.
	maxReportWrites = 6
	// maxStartWrites bounds those of them that are about a job's start, and leaves the rest to ends: if the job ends soon, one
	// patch reports both. If it does not, its pod waits to be protected from node autoscalers, so the bound is
	// maxOldStartWrites while the oldest start in the queue has waited for oldStartAfter.
	maxStartWrites    = 2
	maxOldStartWrites = 4
	oldStartAfter     = 5 * time.Second
	// Beyond manyMessages whose reports are not all written, both bounds grow with the number of messages, up to
	// maxReportWritesUnderLoad at tooManyMessages, since no poll goes out once there are maxUnackedMessages. With 32 instead
	// of 16 a burst of jobs of 2 s took a tenth longer.
	manyMessages             = maxUnackedMessages / 4
	tooManyMessages          = maxUnackedMessages / 2
	maxReportWritesUnderLoad = 16
)

// pendingReport is what is to be written next about one runner. Further reports about it that arrive before an attempt begins
// are merged into it.
//
// A report belongs to the goroutine that writes it while its stage is stageWriting, except for stage and next; in every other
// stage to whoever holds the reporter's lock. pauses is the writing goroutine's alone.
type pendingReport struct {
	jobReport
	// waiting are the deliveries that wait until it is written or given up.
	waiting []*sync.WaitGroup
	stage   stage
	// queuedAt is when it was added to the queue.
	queuedAt time.Time
	// asStart is set while it is being written and counts among the queue's startsWriting.
	asStart bool
	// firstTriedAt is when the first attempt began, zero before, and firstForbiddenAt when the first 403 in a row came. Time
	// spent in the queue before a further attempt does not count: startAttempt moves both on by it. While the API server
	// accepts nothing, hopeless sets firstTriedAt to the present.
	firstTriedAt, firstForbiddenAt time.Time
	// requeuedAt is when it was queued for another attempt, and lastWait how long the last one then waited to begin.
	requeuedAt time.Time
	lastWait   time.Duration
	pauses     backoff
	// next merges what arrived while it was being written.
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

// startAttempt notes that an attempt begins now. The time since requeuedAt does not count: others were written meanwhile.
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

// reportQueue decides which report is written next. Jobs' ends come first: by them the manager decides what becomes of
// runners. Reports about one runner are written one at a time and in order. It is not safe for concurrent use.
type reportQueue struct {
	byRunner map[string]*pendingReport
	// ends and starts are queued, oldest first.
	ends, starts []*pendingReport
	// deliveries counts the messages whose reports are not all written or given up.
	deliveries int
	// holding is set while the desired count can't be published: ends wait for it. The manager deletes a runner whose job has
	// ended, and would make another one if it still counted the job.
	holding bool
	// draining is set when the process is about to end: messages whose reports are not written by then are redelivered.
	draining bool
	// writing counts the reports being written, startsWriting those of them that were taken from starts.
	writing, startsWriting int
}

// add adds a report; waits.Done is called when it is written or given up.
func (q *reportQueue) add(report jobReport, waits *sync.WaitGroup, now time.Time) {
	p := q.byRunner[report.runner]
	switch {
	case p == nil:
		p = newPendingReport(report, now)
		q.byRunner[report.runner] = p
		q.enqueue(p)
	case p.stage == stageWriting && p.next == nil:
		p.next = newPendingReport(report, now)
		p = p.next
	case p.stage == stageWriting:
		p = p.next
		p.extend(report)
	default:
		wasStart := !p.ended()
		p.extend(report)
		if wasStart && p.ended() && p.stage == stageQueued {
			q.starts = slices.DeleteFunc(q.starts, func(start *pendingReport) bool { return start == p })
			q.enqueue(p)
		}
	}
	p.waiting = append(p.waiting, waits)
}

func (q *reportQueue) enqueue(p *pendingReport) {
	p.stage = stageQueued
	if p.ended() {
		q.ends = append(q.ends, p)
		return
	}
	q.starts = append(q.starts, p)
}

// next removes and returns the report to be written next; nil if there is none, or if the limit is reached.
func (q *reportQueue) next(now time.Time) *pendingReport {
	if q.writing >= q.limit(maxReportWrites) {
		return nil
	}
	if !q.holding && len(q.ends) > 0 {
		return q.begin(pop(&q.ends))
	}
	if len(q.starts) == 0 || q.startsWriting >= q.limit(startLimit(q.starts[0], now)) {
		return nil
	}
	p := pop(&q.starts)
	p.asStart = true
	q.startsWriting++
	return q.begin(p)
}

// startLimit returns how many starts may be written at once while next is the oldest in the queue.
func startLimit(next *pendingReport, now time.Time) int {
	if now.Sub(next.queuedAt) >= oldStartAfter {
		return maxOldStartWrites
	}
	return maxStartWrites
}

// limit returns how many reports may be written at once: minimum, or more if many messages wait.
func (q *reportQueue) limit(minimum int) int {
	if q.draining {
		return maxReportWritesUnderLoad
	}
	more := (q.deliveries - manyMessages) * maxReportWritesUnderLoad / (tooManyMessages - manyMessages)
	return min(max(minimum, more), maxReportWritesUnderLoad)
}

func (q *reportQueue) begin(p *pendingReport) *pendingReport {
	q.writing++
	p.stage = stageWriting
	return p
}

// pop removes and returns the first of a list, which has one.
func pop(list *[]*pendingReport) *pendingReport {
	first := (*list)[0]
	(*list)[0] = nil
	*list = (*list)[1:]
	return first
}

// suspend takes back a report whose attempt failed, until resume.
func (q *reportQueue) suspend(p *pendingReport) {
	q.release(p)
	p.stage = stagePausing
	if newer := p.next; newer != nil {
		p.extend(newer.jobReport)
		p.waiting = append(p.waiting, newer.waiting...)
		p.next = nil
	}
}

// resume queues it for another attempt.
func (q *reportQueue) resume(p *pendingReport, now time.Time) {
	p.requeuedAt = now
	q.enqueue(p)
}

// done ends a report that is written or given up, and queues what arrived meanwhile about the same runner.
func (q *reportQueue) done(p *pendingReport) {
	q.release(p)
	delete(q.byRunner, p.runner)
	if p.next != nil {
		q.byRunner[p.runner] = p.next
		q.enqueue(p.next)
	}
	for _, waits := range p.waiting {
		waits.Done()
	}
}

func (q *reportQueue) release(p *pendingReport) {
	q.writing--
	if p.asStart {
		p.asStart = false
		q.startsWriting--
	}
}
