package ephemeralrunner

import (
	"testing"
	"time"
)

// finalizingOf returns the observation of a runner whose deletion began at noon.
func finalizingOf(state podState, change ...func(*finalizing)) *finalizing {
	o := &finalizing{pod: outcome{state: state}, bound: state != podMissing, registered: true, deletion: deletion{deletingAt: noon}, now: noon}
	if state == podMissing {
		o.podGoneAt = noon
	}
	for _, c := range change {
		c(o)
	}
	return o
}

func lateBy(d time.Duration) func(*finalizing) { return func(o *finalizing) { o.now = noon.Add(d) } }

func refused(kind failureKind, due time.Duration) func(*finalizing) {
	return func(o *finalizing) {
		o.removal = progress{known: true, failure: &failure{kind: kind, message: "no"}, retryAt: noon.Add(due)}
	}
}

type finalizationCase struct {
	observed *finalizing
	want     finalization
}

func runFinalizationCases(t *testing.T, cases map[string]finalizationCase) {
	for title, test := range cases {
		t.Run(title, func(t *testing.T) {
			if got := planFinalization(test.observed); got != test.want {
				t.Errorf("got  %+v\nwant %+v", got, test.want)
			}
		})
	}
}

var (
	removedOnGitHub = func(o *finalizing) { o.removal = progress{known: true} }
	beingRemoved    = func(o *finalizing) { o.removal = progress{known: true, running: true} }
	jobEnded        = func(o *finalizing) { o.mayHaveJob, o.completed = true, true }
)

func in(d time.Duration) time.Time { return noon.Add(d) }

func TestPlanFinalizationWithoutAPod(t *testing.T) {
	unknown := func(o *finalizing) { o.registered = false }
	forced := func(o *finalizing) { o.forced = true }
	underWay := func(o *finalizing) { o.provisioning = true }
	unseen := func(o *finalizing) { o.unseen = true }
	runFinalizationCases(t, map[string]finalizationCase{
		"being registered": {finalizingOf(podMissing, underWay), finalization{}},
		"pod on its way to the cache": {
			finalizingOf(podMissing, removedOnGitHub, unseen),
			finalization{deleteChildren: true, requeueAt: in(time.Second)},
		},
		"never registered": {finalizingOf(podMissing, unknown), finalization{deleteChildren: true, removeFinalizers: true}},
		"no pod": {
			finalizingOf(podMissing),
			finalization{deleteChildren: true, deregister: true, requeueAt: in(answerTimeout)},
		},
		"no pod, asked":         {finalizingOf(podMissing, beingRemoved), finalization{deleteChildren: true, requeueAt: in(answerTimeout)}},
		"no pod, removed":       {finalizingOf(podMissing, removedOnGitHub), finalization{deleteChildren: true, removeFinalizers: true}},
		"no pod, job completed": {finalizingOf(podMissing, jobEnded), finalization{deleteChildren: true, removeFinalizers: true}},
		"no pod, GitHub away": {
			finalizingOf(podMissing, refused(failureTemporary, time.Second)),
			finalization{deleteChildren: true, requeueAt: in(time.Second)},
		},
		"no pod, GitHub away for 5 min": {
			finalizingOf(podMissing, refused(failureTemporary, 6*time.Minute), lateBy(5*time.Minute)),
			finalization{deleteChildren: true, removeFinalizers: true, leftBehind: "no", requeueAt: in(6 * time.Minute)},
		},
		"no pod, killed without an answer": {
			finalizingOf(podMissing, refused(failureTemporary, time.Second), forced),
			finalization{deleteChildren: true, removeFinalizers: true, leftBehind: "no", requeueAt: in(time.Second)},
		},
	})
}

func TestPlanFinalization(t *testing.T) {
	job := func(o *finalizing) { o.mayHaveJob = true }
	withoutNode := func(o *finalizing) { o.bound = false }
	stoppedAfterAnswer := func(o *finalizing) {
		o.removal.finishedAt, o.stoppedAt = noon.Add(-2*time.Second), noon.Add(-time.Second)
	}
	terminating := func(o *finalizing) { o.podDueAt = in(defaultPendingTimeout) }
	late := lateBy(defaultPendingTimeout)
	reported := func(o *finalizing) { o.keptReported = true }
	runFinalizationCases(t, map[string]finalizationCase{
		"job reported before the pod is seen up": {finalizingOf(podPending, job), finalization{reportDraining: true, deregister: true}},
		"job reported before the pod has a node": {finalizingOf(podPending, job, withoutNode), finalization{reportDraining: true, deregister: true}},
		"without a node": {
			finalizingOf(podPending, withoutNode),
			finalization{deleteChildren: true, onlyUnbound: true, deregister: true},
		},
		"without a node, removed":          {finalizingOf(podPending, withoutNode, removedOnGitHub), finalization{deleteChildren: true}},
		"not started on its node":          {finalizingOf(podPending), finalization{deregister: true, requeueAt: in(answerTimeout)}},
		"not started on its node, removed": {finalizingOf(podPending, removedOnGitHub), finalization{deleteChildren: true}},
		"not started, GitHub away for 5 min": {
			finalizingOf(podPending, refused(failureTemporary, time.Second), lateBy(5*time.Minute)),
			finalization{deregister: true, deleteChildren: true, forced: true},
		},
		"image can't be pulled":   {finalizingOf(podBlocked), finalization{deregister: true, requeueAt: in(answerTimeout)}},
		"ended before it started": {finalizingOf(podNeverStarted), finalization{deleteChildren: true, deregister: true}},
		"ended, busy before": {
			finalizingOf(podSucceeded, job, refused(failureBusy, busyRetryAfter), stoppedAfterAnswer),
			finalization{deleteChildren: true, deregister: true},
		},
		"ended, still busy": {
			finalizingOf(podSucceeded, job, refused(failureBusy, busyRetryAfter)),
			finalization{deleteChildren: true, requeueAt: in(busyRetryAfter)},
		},
		"ended":               {finalizingOf(podSucceeded), finalization{deleteChildren: true, deregister: true}},
		"failed with a job":   {finalizingOf(podFailed, job), finalization{deleteChildren: true, deregister: true}},
		"runs":                {finalizingOf(podRunning), finalization{deregister: true, requeueAt: in(answerTimeout)}},
		"runs, asked":         {finalizingOf(podRunning, beingRemoved), finalization{requeueAt: in(answerTimeout)}},
		"runs, removed":       {finalizingOf(podRunning, removedOnGitHub), finalization{deleteChildren: true}},
		"runs, job completed": {finalizingOf(podRunning, jobEnded), finalization{deleteChildren: true}},
		"ended, pod stays for now": {
			finalizingOf(podSucceeded, jobEnded, terminating),
			finalization{deleteChildren: true, requeueAt: in(defaultPendingTimeout)},
		},
		"ended, pod stays": {
			finalizingOf(podFailed, jobEnded, terminating, late),
			finalization{deleteChildren: true, reportKept: true},
		},
		"ended, pod stays, said":         {finalizingOf(podFailed, jobEnded, terminating, late, reported), finalization{deleteChildren: true}},
		"runs on, its pod being deleted": {finalizingOf(podRunning, jobEnded, terminating, late), finalization{deleteChildren: true}},
		"runs, busy": {
			finalizingOf(podRunning, refused(failureBusy, busyRetryAfter)),
			finalization{reportDraining: true, requeueAt: in(busyRetryAfter)},
		},
		"runs, busy, half a minute later": {
			finalizingOf(podRunning, refused(failureBusy, busyRetryAfter), lateBy(busyRetryAfter)),
			finalization{reportDraining: true, deregister: true},
		},
		"runs, busy for an hour": {
			finalizingOf(podRunning, refused(failureBusy, time.Hour), lateBy(time.Hour)),
			finalization{reportDraining: true, deregister: true},
		},
		"runs, GitHub away": {
			finalizingOf(podRunning, refused(failureTemporary, time.Second)),
			finalization{requeueAt: in(time.Second)},
		},
		"runs, GitHub away for 5 min": {
			finalizingOf(podRunning, refused(failureTemporary, time.Second), lateBy(5*time.Minute)),
			finalization{deregister: true, deleteChildren: true, forced: true},
		},
		"runs a job, GitHub away for an hour": {
			finalizingOf(podRunning, job, refused(failureTemporary, time.Hour), lateBy(time.Hour)),
			finalization{reportDraining: true, deregister: true},
		},
	})
}
