package ephemeralrunner

import (
	"testing"
	"time"
)

// endingOf returns a farewell that began at noon.
func endingOf(state podState, change ...func(*ending)) *ending {
	e := &ending{pod: outcome{state: state}, bound: state != podMissing, registered: true, deleting: noon, now: noon}
	if state == podMissing {
		e.podGone = noon
	}
	for _, c := range change {
		c(e)
	}
	return e
}

func lateBy(d time.Duration) func(*ending) { return func(e *ending) { e.now = noon.Add(d) } }

func refused(kind failureKind, due time.Duration) func(*ending) {
	return func(e *ending) {
		e.removal = progress{known: true, failure: &failure{kind: kind, message: "no"}, due: noon.Add(due)}
	}
}

func TestPlanFarewell(t *testing.T) {
	job := func(e *ending) { e.hasJob = true }
	reported := func(e *ending) { e.hasJob, e.completed = true, true }
	leave := func(e *ending) { e.removal = progress{known: true} }
	asked := func(e *ending) { e.removal = progress{known: true, running: true} }
	unknown := func(e *ending) { e.registered = false }
	forced := func(e *ending) { e.forced = true }
	underWay := func(e *ending) { e.provisioning = true }
	unseen := func(e *ending) { e.unseen = true }
	withoutNode := func(e *ending) { e.bound = false }
	stoppedAfterAnswer := func(e *ending) { e.removal.finished, e.stopped = noon.Add(-2*time.Second), noon.Add(-time.Second) }
	in := func(d time.Duration) time.Time { return noon.Add(d) }

	for title, test := range map[string]struct {
		ending *ending
		want   farewell
	}{
		"being registered":                       {endingOf(podMissing, underWay), farewell{}},
		"pod on its way to the cache":            {endingOf(podMissing, leave, unseen), farewell{stop: true, again: in(time.Second)}},
		"never registered":                       {endingOf(podMissing, unknown), farewell{stop: true, release: true}},
		"no pod":                                 {endingOf(podMissing), farewell{stop: true, deregister: true, again: in(unansweredAtMost)}},
		"no pod, asked":                          {endingOf(podMissing, asked), farewell{stop: true, again: in(unansweredAtMost)}},
		"no pod, removed":                        {endingOf(podMissing, leave), farewell{stop: true, release: true}},
		"no pod, job completed":                  {endingOf(podMissing, reported), farewell{stop: true, release: true}},
		"no pod, GitHub away":                    {endingOf(podMissing, refused(failureTemporary, time.Second)), farewell{stop: true, again: in(time.Second)}},
		"no pod, GitHub away for 5 min":          {endingOf(podMissing, refused(failureTemporary, 6*time.Minute), lateBy(5*time.Minute)), farewell{stop: true, release: true, leftBehind: "no", again: in(6 * time.Minute)}},
		"no pod, killed without an answer":       {endingOf(podMissing, refused(failureTemporary, time.Second), forced), farewell{stop: true, release: true, leftBehind: "no", again: in(time.Second)}},
		"job reported before the pod is seen up": {endingOf(podPending, job), farewell{drain: true, deregister: true}},
		"job reported before the pod has a node": {endingOf(podPending, job, withoutNode), farewell{drain: true, deregister: true}},
		"without a node":                         {endingOf(podPending, withoutNode), farewell{stop: true, unbound: true, deregister: true}},
		"without a node, removed":                {endingOf(podPending, withoutNode, leave), farewell{stop: true}},
		"not started on its node":                {endingOf(podPending), farewell{deregister: true, again: in(unansweredAtMost)}},
		"not started on its node, removed":       {endingOf(podPending, leave), farewell{stop: true}},
		"not started, GitHub away for 5 min":     {endingOf(podPending, refused(failureTemporary, time.Second), lateBy(5*time.Minute)), farewell{deregister: true, stop: true, forced: true}},
		"image can't be pulled":                  {endingOf(podBlocked), farewell{deregister: true, again: in(unansweredAtMost)}},
		"ended before it started":                {endingOf(podNeverStarted), farewell{stop: true, deregister: true}},
		"ended, busy before":                     {endingOf(podSucceeded, job, refused(failureBusy, busyRetry), stoppedAfterAnswer), farewell{stop: true, deregister: true}},
		"ended, still busy":                      {endingOf(podSucceeded, job, refused(failureBusy, busyRetry)), farewell{stop: true, again: in(busyRetry)}},
		"ended":                                  {endingOf(podSucceeded), farewell{stop: true, deregister: true}},
		"failed with a job":                      {endingOf(podFailed, job), farewell{stop: true, deregister: true}},
		"runs":                                   {endingOf(podRunning), farewell{deregister: true, again: in(unansweredAtMost)}},
		"runs, asked":                            {endingOf(podRunning, asked), farewell{again: in(unansweredAtMost)}},
		"runs, removed":                          {endingOf(podRunning, leave), farewell{stop: true}},
		"runs, job completed":                    {endingOf(podRunning, reported), farewell{stop: true}},
		"runs, busy":                             {endingOf(podRunning, refused(failureBusy, busyRetry)), farewell{drain: true, again: in(busyRetry)}},
		"runs, busy, half a minute later":        {endingOf(podRunning, refused(failureBusy, busyRetry), lateBy(busyRetry)), farewell{drain: true, deregister: true}},
		"runs, busy for an hour":                 {endingOf(podRunning, refused(failureBusy, time.Hour), lateBy(time.Hour)), farewell{drain: true, deregister: true}},
		"runs, GitHub away":                      {endingOf(podRunning, refused(failureTemporary, time.Second)), farewell{again: in(time.Second)}},
		"runs, GitHub away for 5 min":            {endingOf(podRunning, refused(failureTemporary, time.Second), lateBy(5*time.Minute)), farewell{deregister: true, stop: true, forced: true}},
		"runs a job, GitHub away for an hour":    {endingOf(podRunning, job, refused(failureTemporary, time.Hour), lateBy(time.Hour)), farewell{drain: true, deregister: true}},
	} {
		t.Run(title, func(t *testing.T) {
			if got := planFarewell(test.ending); got != test.want {
				t.Errorf("got  %+v\nwant %+v", got, test.want)
			}
		})
	}
}
