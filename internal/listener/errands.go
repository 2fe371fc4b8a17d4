package listener

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

const (
	// reportsAtOnce bounds the patches in flight. The status of a runner is what costs an API server most to patch, and in a
	// burst these patches compete with the creation and the deletion of pods, for which jobs and machines wait. At 10 ms
	// each they are 600 a second, more than messages bring.
	reportsAtOnce = 6
	// startsAtOnce of them may be about jobs that have started: where the job's end comes soon they are written together with
	// it. Where it does not the job's pod waits to be protected from node autoscalers, so those who have waited for startPatience
	// when another is written have oldStartsAtOnce. The rest is for ends.
	startsAtOnce    = 2
	oldStartsAtOnce = 4
	startPatience   = 5 * time.Second
	// Beyond manyMessages whose reports are not all written both bounds grow, up to mostReportsAtOnce at tooManyMessages: no poll
	// goes out when there are messagesUnderWay. With 32 a burst of jobs of 2 s took a tenth longer.
	manyMessages      = messagesUnderWay / 4
	tooManyMessages   = messagesUnderWay / 2
	mostReportsAtOnce = 16
)

// errand is what one runner is to be told next, and who waits until it is. What comes before its turn becomes part of it.
type errand struct {
	jobReport
	waiting []*sync.WaitGroup
	stage   stage
	// since is when it began to wait for its first turn.
	since time.Time
	// asStart says that it is being written as one about a job that has started.
	asStart bool
	// begun is when it was first tried, zero before, and forbidden when the first 403 in a row came. Both move on by the time
	// that it waits for its turn again.
	begun, forbidden time.Time
	// queued is when it was to be tried again.
	queued time.Time
	pauses backoff
	// behind came while it was being written.
	behind *errand
}

// stage is where an errand is.
type stage int

const (
	stageQueued stage = iota
	stageWriting
	stagePausing // after an attempt that failed
)

// ended says that a report is about a job's end.
func (r *jobReport) ended() bool { return r.status.JobResult != "" }

func newErrand(report jobReport, now time.Time) *errand {
	return &errand{jobReport: report, since: now, pauses: backoff{first: 200 * time.Millisecond, most: 5 * time.Second}}
}

// turn notes that it is tried now. The time since it was to be tried again doesn't count: others were tried.
func (e *errand) turn(now time.Time) {
	if e.begun.IsZero() {
		e.begun = now
		return
	}
	waited := now.Sub(e.queued)
	e.begun = e.begun.Add(waited)
	if !e.forbidden.IsZero() {
		e.forbidden = e.forbidden.Add(waited)
	}
}

// extend makes a newer report part of it.
func (e *errand) extend(newer jobReport) {
	e.status = both(e.status, newer.status)
	e.begun, e.forbidden = time.Time{}, time.Time{}
}

// both says what two reports do, written in order: what the newer one leaves out stays.
func both(older, newer v1alpha1.EphemeralRunnerStatus) v1alpha1.EphemeralRunnerStatus {
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

// errands says which report is written next. Jobs' ends come first: the manager decides by them what becomes of runners.
// Reports about one runner are written one at a time and in order. It is not safe for concurrent use.
type errands struct {
	byRunner map[string]*errand
	// ends and starts wait for their turn, oldest first.
	ends, starts []*errand
	// deliveries are under way: messages of which not all is written.
	deliveries int
	// hurried: the process is about to end, and what is not written then is delivered again.
	hurried bool
	// writing are under way, startsWriting of them as starts.
	writing, startsWriting int
}

// add takes a report; waits is told when it is done with.
func (q *errands) add(report jobReport, waits *sync.WaitGroup, now time.Time) {
	e := q.byRunner[report.runner]
	switch {
	case e == nil:
		e = newErrand(report, now)
		q.byRunner[report.runner] = e
		q.queue(e)
	case e.stage == stageWriting && e.behind == nil:
		e.behind = newErrand(report, now)
		e = e.behind
	case e.stage == stageWriting:
		e = e.behind
		e.extend(report)
	default:
		wasStart := !e.ended()
		e.extend(report)
		if wasStart && e.ended() && e.stage == stageQueued {
			q.starts = slices.DeleteFunc(q.starts, func(start *errand) bool { return start == e })
			q.queue(e)
		}
	}
	e.waiting = append(e.waiting, waits)
}

func (q *errands) queue(e *errand) {
	e.stage = stageQueued
	if e.ended() {
		q.ends = append(q.ends, e)
		return
	}
	q.starts = append(q.starts, e)
}

// next takes the one to be written next, nil if there is none or as many as may be are under way.
func (q *errands) next(now time.Time) *errand {
	if q.writing >= q.places(reportsAtOnce) {
		return nil
	}
	if e := pop(&q.ends); e != nil {
		return q.begin(e)
	}
	if len(q.starts) == 0 || q.startsWriting >= q.places(startPlaces(q.starts[0], now)) {
		return nil
	}
	e := pop(&q.starts)
	e.asStart = true
	q.startsWriting++
	return q.begin(e)
}

// startPlaces are those of starts while this one is the next.
func startPlaces(next *errand, now time.Time) int {
	if now.Sub(next.since) >= startPatience {
		return oldStartsAtOnce
	}
	return startsAtOnce
}

// places are those few, and more where many messages wait.
func (q *errands) places(few int) int {
	if q.hurried {
		return mostReportsAtOnce
	}
	more := (q.deliveries - manyMessages) * mostReportsAtOnce / (tooManyMessages - manyMessages)
	return min(max(few, more), mostReportsAtOnce)
}

func (q *errands) begin(e *errand) *errand {
	q.writing++
	e.stage = stageWriting
	return e
}

func pop(list *[]*errand) *errand {
	if len(*list) == 0 {
		return nil
	}
	first := (*list)[0]
	(*list)[0] = nil
	*list = (*list)[1:]
	return first
}

// suspend takes an errand back that was tried in vain, until resume.
func (q *errands) suspend(e *errand) {
	q.release(e)
	e.stage = stagePausing
	if newer := e.behind; newer != nil {
		e.extend(newer.jobReport)
		e.waiting = append(e.waiting, newer.waiting...)
		e.behind = nil
	}
}

// resume lets it wait for its turn again, from now on.
func (q *errands) resume(e *errand, now time.Time) {
	e.queued = now
	q.queue(e)
}

// done tells who waits for an errand that it is written or given up, and lets what came meanwhile follow.
func (q *errands) done(e *errand) {
	q.release(e)
	delete(q.byRunner, e.runner)
	if e.behind != nil {
		q.byRunner[e.runner] = e.behind
		q.queue(e.behind)
	}
	for _, waits := range e.waiting {
		waits.Done()
	}
}

func (q *errands) release(e *errand) {
	q.writing--
	if e.asStart {
		e.asStart = false
		q.startsWriting--
	}
}
