package reports

import (
	"slices"
	"sync"
	"time"

	"github.com/harrier-ci/harrier/internal/listener/queue"
)

const (
	// maxWrites bounds the patches in flight. Patches of a runner's status are expensive for an API server, and in a
	// burst they compete with the creation and deletion of pods, for which jobs and machines wait. At 10 ms each, six
	// in flight make 600 a second, more than messages bring.
	maxWrites = 6
	// maxStartWrites of them are about a job's start, or as many as it takes to write all starts that are queued within
	// startsWithin after their message, up to maxWritesUnderLoad, beside those for ends: a runner that has been idle for
	// long may be evicted with its job until the manager has seen the start. More than that isn't hurried: if the job
	// ends soon, one patch reports both.
	maxStartWrites = 2
	startsWithin   = time.Second
	// Beyond manyMessages whose reports are not all written, both bounds grow with the number of messages, up to
	// maxWritesUnderLoad at tooManyMessages, because no poll goes out when there are queue.MaxUnacked. With 32 in place
	// of 16, a burst of 2 s jobs took a tenth longer.
	manyMessages       = queue.MaxUnacked / 4
	tooManyMessages    = queue.MaxUnacked / 2
	maxWritesUnderLoad = 16
)

// reportQueue decides which report is written next. Ends of jobs come first, because the manager decides by them what
// becomes of runners. Reports about one runner are written one at a time and in order. It is not safe for concurrent
// use.
type reportQueue struct {
	byRunner map[string]*pendingReport
	// ends and starts are the queued reports, oldest first.
	ends, starts []*pendingReport
	// deliveries counts the messages whose reports are not all written or given up.
	deliveries int
	// holding is set while the desired count can't be published. Ends wait for that: the manager deletes a runner whose
	// job has ended, and would create another one if it still counted the job.
	holding bool
	// draining is set if the process is about to end. Messages whose reports are not written by then are redelivered.
	draining bool
	// writing counts the reports being written, startsWriting those of them that were taken from starts.
	writing, startsWriting int
	// took is the time that the last attempt took.
	took time.Duration
}

// add adds a report. waits.Done is called when it is written or given up.
func (q *reportQueue) add(report Report, waits *sync.WaitGroup, now time.Time) {
	p := q.byRunner[report.Runner]
	switch {
	case p == nil:
		p = newPendingReport(report, now)
		q.byRunner[report.Runner] = p
		q.enqueue(p, now)
	case p.UnderWay && p.next == nil:
		p.next = newPendingReport(report, now)
		p = p.next
	case p.UnderWay:
		p = p.next
		p.extend(report)
	default:
		wasStart := !p.ended()
		p.extend(report)
		if wasStart && p.ended() && !p.pausing {
			q.starts = slices.DeleteFunc(q.starts, func(start *pendingReport) bool { return start == p })
			q.ends = append(q.ends, p)
		}
	}
	p.waiting = append(p.waiting, waits)
}

// enqueue queues a report for its first attempt, or after its pause for another one.
func (q *reportQueue) enqueue(p *pendingReport, now time.Time) {
	p.enqueuedAt, p.pausing = now, false
	if p.ended() {
		q.ends = append(q.ends, p)
		return
	}
	q.starts = append(q.starts, p)
}

// next removes the report to be written next and begins its attempt. It returns nil if there is none or the limit is
// reached.
func (q *reportQueue) next(now time.Time) (p *pendingReport) {
	most, due := q.limit(maxWrites), q.startsDue(now)
	switch {
	case q.writing >= most+due:
		return nil
	case !q.holding && len(q.ends) > 0 && q.writing-q.startsWriting < most:
		p = pop(&q.ends)
	case len(q.starts) == 0 || q.startsWriting >= max(q.limit(maxStartWrites), due):
		return nil
	default:
		p = pop(&q.starts)
		p.asStart = true
		q.startsWriting++
	}
	q.writing++
	p.begin(now)
	return p
}

// startsDue returns the number of starts that must be in flight together to write all that are queued in time, 0 if
// maxStartWrites are enough. Each takes as long as the last report did.
func (q *reportQueue) startsDue(now time.Time) int {
	if len(q.starts) == 0 {
		return 0
	}
	left := q.starts[0].addedAt.Add(startsWithin).Sub(now)
	if left <= 0 {
		return maxWritesUnderLoad
	}
	if due := int(time.Duration(len(q.starts)) * q.took / left); due >= maxStartWrites {
		return min(due+1, maxWritesUnderLoad)
	}
	return 0
}

// limit returns the number of reports that may be in flight together: minimum, or more if many messages wait.
func (q *reportQueue) limit(minimum int) int {
	if q.draining {
		return maxWritesUnderLoad
	}
	more := (q.deliveries - manyMessages) * maxWritesUnderLoad / (tooManyMessages - manyMessages)
	return min(max(minimum, more), maxWritesUnderLoad)
}

// pop removes and returns the first of a list, which has one.
func pop(list *[]*pendingReport) *pendingReport {
	first := (*list)[0]
	(*list)[0] = nil
	*list = (*list)[1:]
	return first
}

// failed takes a report whose attempt failed with err out of writing. It returns the reason why the report can never be
// written, for done, or else the pause until enqueue. What came in the meantime goes with the next attempt. The API
// server last accepted a write at acceptedAt.
func (q *reportQueue) failed(
	p *pendingReport, err error, acceptedAt, now time.Time,
) (pause time.Duration, refused string) {
	if refused = p.refusal(err, acceptedAt, now); refused != "" {
		return 0, refused
	}
	q.release(p, now)
	p.pausing = true
	p.Pause(now)
	if newer := p.next; newer != nil {
		p.extend(newer.Report)
		p.waiting = append(p.waiting, newer.waiting...)
		p.next = nil
	}
	return p.NotBefore.Sub(now), ""
}

// done removes a report that is written or given up, and queues what arrived in the meantime about the same runner.
func (q *reportQueue) done(p *pendingReport, now time.Time) {
	q.release(p, now)
	delete(q.byRunner, p.Runner)
	if p.next != nil {
		q.byRunner[p.Runner] = p.next
		q.enqueue(p.next, now)
	}
	for _, waits := range p.waiting {
		waits.Done()
	}
}

func (q *reportQueue) release(p *pendingReport, now time.Time) {
	p.End()
	q.took = now.Sub(p.begunAt)
	q.writing--
	if p.asStart {
		p.asStart = false
		q.startsWriting--
	}
}
