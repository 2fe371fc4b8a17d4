package rules

import (
	"testing"
	"time"

	"github.com/harrier-ci/harrier/internal/podstatus"
)

// finalizingOf returns the observation of a runner whose deletion began at noon.
func finalizingOf(state podstatus.Phase, change ...func(*Leaving)) *Leaving {
	o := &Leaving{Pod: Outcome{State: podstatus.State{Phase: state}}, Bound: state != podstatus.Missing,
		Registered: true,
		Deletion:   Deletion{deletingAt: noon}, Now: noon}
	if state == podstatus.Missing {
		o.podGoneAt = noon
	}
	for _, c := range change {
		c(o)
	}
	return o
}

func lateBy(d time.Duration) func(*Leaving) { return func(o *Leaving) { o.Now = noon.Add(d) } }

func refused(kind Kind, due time.Duration) func(*Leaving) {
	return func(o *Leaving) {
		o.Removal = Progress{Known: true, Failure: &Failure{Kind: kind, Message: "no"}, RetryAt: noon.Add(due)}
	}
}

type finalizationCase struct {
	observed *Leaving
	want     Finalization
}

func runFinalizationCases(t *testing.T, cases map[string]finalizationCase) {
	for title, test := range cases {
		t.Run(title, func(t *testing.T) {
			if got := PlanFinalization(test.observed); got != test.want {
				t.Errorf("got  %+v\nwant %+v", got, test.want)
			}
		})
	}
}

var (
	removedOnGitHub = func(o *Leaving) { o.Removal = Progress{Known: true} }
	beingRemoved    = func(o *Leaving) { o.Removal = Progress{Known: true, Running: true} }
	jobEnded        = func(o *Leaving) { o.MayHaveJob, o.Completed = true, true }
)

func in(d time.Duration) time.Time { return noon.Add(d) }

func TestPlanFinalizationWithoutAPod(t *testing.T) {
	unknown := func(o *Leaving) { o.Registered = false }
	forced := func(o *Leaving) { o.Forced = true }
	underWay := func(o *Leaving) { o.Provisioning = true }
	unseen := func(o *Leaving) { o.Unseen = true }
	runFinalizationCases(t, map[string]finalizationCase{
		"being registered": {finalizingOf(podstatus.Missing, underWay), Finalization{}},
		"pod on its way to the cache": {
			finalizingOf(podstatus.Missing, removedOnGitHub, unseen),
			Finalization{DeleteChildren: true, RequeueAt: in(time.Second)},
		},
		"never registered": {finalizingOf(podstatus.Missing, unknown), Finalization{DeleteChildren: true, RemoveFinalizers: true}},
		"no pod": {
			finalizingOf(podstatus.Missing),
			Finalization{DeleteChildren: true, Deregister: true, RequeueAt: in(AnswerTimeout)},
		},
		"no pod, asked":         {finalizingOf(podstatus.Missing, beingRemoved), Finalization{DeleteChildren: true, RequeueAt: in(AnswerTimeout)}},
		"no pod, removed":       {finalizingOf(podstatus.Missing, removedOnGitHub), Finalization{DeleteChildren: true, RemoveFinalizers: true}},
		"no pod, job completed": {finalizingOf(podstatus.Missing, jobEnded), Finalization{DeleteChildren: true, RemoveFinalizers: true}},
		"no pod, GitHub away": {
			finalizingOf(podstatus.Missing, refused(Temporary, time.Second)),
			Finalization{DeleteChildren: true, RequeueAt: in(time.Second)},
		},
		"no pod, GitHub away for 5 min": {
			finalizingOf(podstatus.Missing, refused(Temporary, 6*time.Minute), lateBy(5*time.Minute)),
			Finalization{DeleteChildren: true, RemoveFinalizers: true, LeftBehind: "no",
				RequeueAt: in(6 * time.Minute)},
		},
		"no pod, killed without an answer": {
			finalizingOf(podstatus.Missing, refused(Temporary, time.Second), forced),
			Finalization{DeleteChildren: true, RemoveFinalizers: true, LeftBehind: "no", RequeueAt: in(time.Second)},
		},
	})
}

func TestPlanFinalization(t *testing.T) {
	job := func(o *Leaving) { o.MayHaveJob = true }
	withoutNode := func(o *Leaving) { o.Bound = false }
	stoppedAfterAnswer := func(o *Leaving) {
		o.Removal.FinishedAt, o.stoppedAt = noon.Add(-2*time.Second), noon.Add(-time.Second)
	}
	terminating := func(o *Leaving) { o.PodDueAt = in(DefaultPendingTimeout) }
	late := lateBy(DefaultPendingTimeout)
	reported := func(o *Leaving) { o.KeptReported = true }
	runFinalizationCases(t, map[string]finalizationCase{
		"job reported before the pod is seen up": {finalizingOf(podstatus.Pending, job), Finalization{ReportDraining: true, Deregister: true}},
		"job reported before the pod has a node": {finalizingOf(podstatus.Pending, job, withoutNode), Finalization{ReportDraining: true, Deregister: true}},
		"without a node": {
			finalizingOf(podstatus.Pending, withoutNode),
			Finalization{DeleteChildren: true, OnlyUnbound: true, Deregister: true},
		},
		"without a node, removed":          {finalizingOf(podstatus.Pending, withoutNode, removedOnGitHub), Finalization{DeleteChildren: true}},
		"not started on its node":          {finalizingOf(podstatus.Pending), Finalization{Deregister: true, RequeueAt: in(AnswerTimeout)}},
		"not started on its node, removed": {finalizingOf(podstatus.Pending, removedOnGitHub), Finalization{DeleteChildren: true}},
		"not started, GitHub away for 5 min": {
			finalizingOf(podstatus.Pending, refused(Temporary, time.Second), lateBy(5*time.Minute)),
			Finalization{Deregister: true, DeleteChildren: true, Forced: true},
		},
		"image can't be pulled":   {finalizingOf(podstatus.Blocked), Finalization{Deregister: true, RequeueAt: in(AnswerTimeout)}},
		"ended before it started": {finalizingOf(podstatus.NeverStarted), Finalization{DeleteChildren: true, Deregister: true}},
		"ended, busy before": {
			finalizingOf(podstatus.Succeeded, job, refused(Busy, BusyRetryBackoff), stoppedAfterAnswer),
			Finalization{DeleteChildren: true, Deregister: true},
		},
		"ended, still busy": {
			finalizingOf(podstatus.Succeeded, job, refused(Busy, BusyRetryBackoff)),
			Finalization{DeleteChildren: true, RequeueAt: in(BusyRetryBackoff)},
		},
		"ended":               {finalizingOf(podstatus.Succeeded), Finalization{DeleteChildren: true, Deregister: true}},
		"failed with a job":   {finalizingOf(podstatus.Failed, job), Finalization{DeleteChildren: true, Deregister: true}},
		"runs":                {finalizingOf(podstatus.Running), Finalization{Deregister: true, RequeueAt: in(AnswerTimeout)}},
		"runs, asked":         {finalizingOf(podstatus.Running, beingRemoved), Finalization{RequeueAt: in(AnswerTimeout)}},
		"runs, removed":       {finalizingOf(podstatus.Running, removedOnGitHub), Finalization{DeleteChildren: true}},
		"runs, job completed": {finalizingOf(podstatus.Running, jobEnded), Finalization{DeleteChildren: true}},
		"ended, pod stays for now": {
			finalizingOf(podstatus.Succeeded, jobEnded, terminating),
			Finalization{DeleteChildren: true, RequeueAt: in(DefaultPendingTimeout)},
		},
		"ended, pod stays": {
			finalizingOf(podstatus.Failed, jobEnded, terminating, late),
			Finalization{DeleteChildren: true, ReportKept: true},
		},
		"ended, pod stays, said":         {finalizingOf(podstatus.Failed, jobEnded, terminating, late, reported), Finalization{DeleteChildren: true}},
		"runs on, its pod being deleted": {finalizingOf(podstatus.Running, jobEnded, terminating, late), Finalization{DeleteChildren: true}},
		"runs, busy": {
			finalizingOf(podstatus.Running, refused(Busy, BusyRetryBackoff)),
			Finalization{ReportDraining: true, RequeueAt: in(BusyRetryBackoff)},
		},
		"runs, busy, half a minute later": {
			finalizingOf(podstatus.Running, refused(Busy, BusyRetryBackoff), lateBy(BusyRetryBackoff)),
			Finalization{ReportDraining: true, Deregister: true},
		},
		"runs, busy for an hour": {
			finalizingOf(podstatus.Running, refused(Busy, time.Hour), lateBy(time.Hour)),
			Finalization{ReportDraining: true, Deregister: true},
		},
		"runs, GitHub away": {
			finalizingOf(podstatus.Running, refused(Temporary, time.Second)),
			Finalization{RequeueAt: in(time.Second)},
		},
		"runs, GitHub away for 5 min": {
			finalizingOf(podstatus.Running, refused(Temporary, time.Second), lateBy(5*time.Minute)),
			Finalization{Deregister: true, DeleteChildren: true, Forced: true},
		},
		"runs a job, GitHub away for an hour": {
			finalizingOf(podstatus.Running, job, refused(Temporary, time.Hour), lateBy(time.Hour)),
			Finalization{ReportDraining: true, Deregister: true},
		},
	})
}
