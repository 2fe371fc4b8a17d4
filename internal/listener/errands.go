package listener

import (
	"sync"
	"time"
)

const (
	// reportsAtOnce bounds the patches in flight: at 10 ms each that is 1,600 a second, more than the messages bring. With 32
	// a burst of jobs of 2 s took a tenth longer, and pods that had ended went a quarter of a second later.
	reportsAtOnce = 16
	// startsAtOnce of them may be about jobs that have started. Nobody waits for these, and in a burst they come while
	// runners are created, for which jobs do wait, by an API server that has no time left.
	startsAtOnce = 6
	// startsForOneMore allows one more for so many that wait: messages stay under way until their reports are written, and
	// from messagesUnderWay on no poll goes out. At half of the entries that these have, all places are allowed.
	startsForOneMore = messagesUnderWay * entriesPerMessage / 2 / (reportsAtOnce - startsAtOnce)
)

// errand is what one runner is to be told next, and who waits until it is. What comes before its turn becomes part of it.
type errand struct {
	jobReport
	waiting []*sync.WaitGroup
	stage   stage
	// asStart says that it is being written as one about a job that has started.
	asStart bool
	// begun is when it was first tried, zero before.
	begun  time.Time
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

func newErrand(report jobReport) *errand {
	return &errand{jobReport: report, pauses: backoff{first: 200 * time.Millisecond, most: 5 * time.Second}}
}

// extend makes a newer report part of it: together they say what both would, written in order.
func (e *errand) extend(newer jobReport) {
	if !newer.ended() {
		newer.status.JobResult, newer.status.FinishedAt = e.status.JobResult, e.status.FinishedAt
	}
	e.jobReport, e.begun = newer, time.Time{}
}

// errands says which report is written next. Jobs' ends come first: the manager decides by them what becomes of runners.
// Reports about one runner are written one at a time and in order. It is not safe for concurrent use.
type errands struct {
	byRunner map[string]*errand
	// ends and starts wait for their turn, oldest first. A start that was extended by the job's end is in both.
	ends, starts []*errand
	// writing are under way, startsWriting of them as starts.
	writing, startsWriting int
}

// add takes a report; waits is told when it is done with.
func (q *errands) add(report jobReport, waits *sync.WaitGroup) {
	e := q.byRunner[report.runner]
	switch {
	case e == nil:
		e = newErrand(report)
		q.byRunner[report.runner] = e
		q.queue(e)
	case e.stage == stageWriting && e.behind == nil:
		e.behind = newErrand(report)
		e = e.behind
	case e.stage == stageWriting:
		e = e.behind
		e.extend(report)
	default:
		wasStart := !e.ended()
		e.extend(report)
		if wasStart && e.ended() && e.stage == stageQueued {
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
func (q *errands) next() *errand {
	if q.writing >= reportsAtOnce {
		return nil
	}
	if e := pop(&q.ends); e != nil {
		return q.begin(e)
	}
	for q.startsWriting < startsAtOnce+len(q.starts)/startsForOneMore {
		e := pop(&q.starts)
		if e == nil {
			return nil
		}
		if !e.ended() { // else it was, or is, among the ends
			e.asStart = true
			q.startsWriting++
			return q.begin(e)
		}
	}
	return nil
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

func (q *errands) resume(e *errand) { q.queue(e) }

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
