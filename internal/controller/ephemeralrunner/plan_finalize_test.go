package ephemeralrunner

import (
	"testing"
	"time"

	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/calls"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

// finalizingOf returns the observation of a runner whose deletion began at noon.
func finalizingOf(state podstatus.Phase, change ...func(*finalizing)) *finalizing {
	o := &finalizing{pod: outcome{State: podstatus.State{Phase: state}}, bound: state != podstatus.Missing, registered: true, deletion: deletion{deletingAt: noon}, now: noon}
	if state == podstatus.Missing {
		o.podGoneAt = noon
	}
	for _, c := range change {
		c(o)
	}
	return o
}

func lateBy(d time.Duration) func(*finalizing) { return func(o *finalizing) { o.now = noon.Add(d) } }

func refused(kind calls.Kind, due time.Duration) func(*finalizing) {
	return func(o *finalizing) {
		o.removal = calls.Progress{Known: true, Failure: &calls.Failure{Kind: kind, Message: "no"}, RetryAt: noon.Add(due)}
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
	removedOnGitHub = func(o *finalizing) { o.removal = calls.Progress{Known: true} }
	beingRemoved    = func(o *finalizing) { o.removal = calls.Progress{Known: true, Running: true} }
	jobEnded        = func(o *finalizing) { o.mayHaveJob, o.completed = true, true }
)

func in(d time.Duration) time.Time { return noon.Add(d) }

func TestPlanFinalizationWithoutAPod(t *testing.T) {
	unknown := func(o *finalizing) { o.registered = false }
	forced := func(o *finalizing) { o.forced = true }
	underWay := func(o *finalizing) { o.provisioning = true }
	unseen := func(o *finalizing) { o.unseen = true }
	runFinalizationCases(t, map[string]finalizationCase{
		"being registered": {finalizingOf(podstatus.Missing, underWay), finalization{}},
		"pod on its way to the cache": {
			finalizingOf(podstatus.Missing, removedOnGitHub, unseen),
			finalization{deleteChildren: true, requeueAt: in(time.Second)},
		},
		"never registered": {finalizingOf(podstatus.Missing, unknown), finalization{deleteChildren: true, removeFinalizers: true}},
		"no pod": {
			finalizingOf(podstatus.Missing),
			finalization{deleteChildren: true, deregister: true, requeueAt: in(answerTimeout)},
		},
		"no pod, asked":         {finalizingOf(podstatus.Missing, beingRemoved), finalization{deleteChildren: true, requeueAt: in(answerTimeout)}},
		"no pod, removed":       {finalizingOf(podstatus.Missing, removedOnGitHub), finalization{deleteChildren: true, removeFinalizers: true}},
		"no pod, job completed": {finalizingOf(podstatus.Missing, jobEnded), finalization{deleteChildren: true, removeFinalizers: true}},
		"no pod, GitHub away": {
			finalizingOf(podstatus.Missing, refused(calls.Temporary, time.Second)),
			finalization{deleteChildren: true, requeueAt: in(time.Second)},
		},
		"no pod, GitHub away for 5 min": {
			finalizingOf(podstatus.Missing, refused(calls.Temporary, 6*time.Minute), lateBy(5*time.Minute)),
			finalization{deleteChildren: true, removeFinalizers: true, leftBehind: "no", requeueAt: in(6 * time.Minute)},
		},
		"no pod, killed without an answer": {
			finalizingOf(podstatus.Missing, refused(calls.Temporary, time.Second), forced),
			finalization{deleteChildren: true, removeFinalizers: true, leftBehind: "no", requeueAt: in(time.Second)},
		},
	})
}

func TestPlanFinalization(t *testing.T) {
	job := func(o *finalizing) { o.mayHaveJob = true }
	withoutNode := func(o *finalizing) { o.bound = false }
	stoppedAfterAnswer := func(o *finalizing) {
		o.removal.FinishedAt, o.stoppedAt = noon.Add(-2*time.Second), noon.Add(-time.Second)
	}
	terminating := func(o *finalizing) { o.podDueAt = in(defaultPendingTimeout) }
	late := lateBy(defaultPendingTimeout)
	reported := func(o *finalizing) { o.keptReported = true }
	runFinalizationCases(t, map[string]finalizationCase{
		"job reported before the pod is seen up": {finalizingOf(podstatus.Pending, job), finalization{reportDraining: true, deregister: true}},
		"job reported before the pod has a node": {finalizingOf(podstatus.Pending, job, withoutNode), finalization{reportDraining: true, deregister: true}},
		"without a node": {
			finalizingOf(podstatus.Pending, withoutNode),
			finalization{deleteChildren: true, onlyUnbound: true, deregister: true},
		},
		"without a node, removed":          {finalizingOf(podstatus.Pending, withoutNode, removedOnGitHub), finalization{deleteChildren: true}},
		"not started on its node":          {finalizingOf(podstatus.Pending), finalization{deregister: true, requeueAt: in(answerTimeout)}},
		"not started on its node, removed": {finalizingOf(podstatus.Pending, removedOnGitHub), finalization{deleteChildren: true}},
		"not started, GitHub away for 5 min": {
			finalizingOf(podstatus.Pending, refused(calls.Temporary, time.Second), lateBy(5*time.Minute)),
			finalization{deregister: true, deleteChildren: true, forced: true},
		},
		"image can't be pulled":   {finalizingOf(podstatus.Blocked), finalization{deregister: true, requeueAt: in(answerTimeout)}},
		"ended before it started": {finalizingOf(podstatus.NeverStarted), finalization{deleteChildren: true, deregister: true}},
		"ended, busy before": {
			finalizingOf(podstatus.Succeeded, job, refused(calls.Busy, calls.BusyRetryAfter), stoppedAfterAnswer),
			finalization{deleteChildren: true, deregister: true},
		},
		"ended, still busy": {
			finalizingOf(podstatus.Succeeded, job, refused(calls.Busy, calls.BusyRetryAfter)),
			finalization{deleteChildren: true, requeueAt: in(calls.BusyRetryAfter)},
		},
		"ended":               {finalizingOf(podstatus.Succeeded), finalization{deleteChildren: true, deregister: true}},
		"failed with a job":   {finalizingOf(podstatus.Failed, job), finalization{deleteChildren: true, deregister: true}},
		"runs":                {finalizingOf(podstatus.Running), finalization{deregister: true, requeueAt: in(answerTimeout)}},
		"runs, asked":         {finalizingOf(podstatus.Running, beingRemoved), finalization{requeueAt: in(answerTimeout)}},
		"runs, removed":       {finalizingOf(podstatus.Running, removedOnGitHub), finalization{deleteChildren: true}},
		"runs, job completed": {finalizingOf(podstatus.Running, jobEnded), finalization{deleteChildren: true}},
		"ended, pod stays for now": {
			finalizingOf(podstatus.Succeeded, jobEnded, terminating),
			finalization{deleteChildren: true, requeueAt: in(defaultPendingTimeout)},
		},
		"ended, pod stays": {
			finalizingOf(podstatus.Failed, jobEnded, terminating, late),
			finalization{deleteChildren: true, reportKept: true},
		},
		"ended, pod stays, said":         {finalizingOf(podstatus.Failed, jobEnded, terminating, late, reported), finalization{deleteChildren: true}},
		"runs on, its pod being deleted": {finalizingOf(podstatus.Running, jobEnded, terminating, late), finalization{deleteChildren: true}},
		"runs, busy": {
			finalizingOf(podstatus.Running, refused(calls.Busy, calls.BusyRetryAfter)),
			finalization{reportDraining: true, requeueAt: in(calls.BusyRetryAfter)},
		},
		"runs, busy, half a minute later": {
			finalizingOf(podstatus.Running, refused(calls.Busy, calls.BusyRetryAfter), lateBy(calls.BusyRetryAfter)),
			finalization{reportDraining: true, deregister: true},
		},
		"runs, busy for an hour": {
			finalizingOf(podstatus.Running, refused(calls.Busy, time.Hour), lateBy(time.Hour)),
			finalization{reportDraining: true, deregister: true},
		},
		"runs, GitHub away": {
			finalizingOf(podstatus.Running, refused(calls.Temporary, time.Second)),
			finalization{requeueAt: in(time.Second)},
		},
		"runs, GitHub away for 5 min": {
			finalizingOf(podstatus.Running, refused(calls.Temporary, time.Second), lateBy(5*time.Minute)),
			finalization{deregister: true, deleteChildren: true, forced: true},
		},
		"runs a job, GitHub away for an hour": {
			finalizingOf(podstatus.Running, job, refused(calls.Temporary, time.Hour), lateBy(time.Hour)),
			finalization{reportDraining: true, deregister: true},
		},
	})
}
