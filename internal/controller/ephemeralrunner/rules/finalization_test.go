package rules_test

import (
	"testing"
	"time"

	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

// finalizingOf returns the observation of a runner whose deletion began at noon, when its container was last seen to run.
func finalizingOf(state podstatus.Phase, change ...func(*rules.Leaving)) *rules.Leaving {
	o := &rules.Leaving{Pod: rules.Outcome{State: podstatus.State{Phase: state}}, Bound: state != podstatus.Missing,
		Registered: true, Now: noon}
	o.See(true, state == podstatus.Missing, noon)
	for _, c := range change {
		c(o)
	}
	return o
}

func lateBy(d time.Duration) func(*rules.Leaving) {
	return func(o *rules.Leaving) { o.Now = noon.Add(d) }
}

func refused(kind rules.Kind, due time.Duration) func(*rules.Leaving) {
	return func(o *rules.Leaving) {
		o.Removal = rules.Progress{Known: true, Failure: &rules.Failure{Kind: kind, Message: "no"}, RetryAt: noon.Add(due)}
	}
}

type finalizationCase struct {
	observed *rules.Leaving
	want     rules.Finalization
}

func runFinalizationCases(t *testing.T, cases map[string]finalizationCase) {
	for title, test := range cases {
		t.Run(title, func(t *testing.T) {
			if got := rules.PlanFinalization(test.observed); got != test.want {
				t.Errorf("got  %+v\nwant %+v", got, test.want)
			}
		})
	}
}

var (
	removedOnGitHub = func(o *rules.Leaving) { o.Removal = rules.Progress{Known: true} }
	beingRemoved    = func(o *rules.Leaving) { o.Removal = rules.Progress{Known: true, Running: true} }
	jobEnded        = func(o *rules.Leaving) { o.MayHaveJob, o.Completed = true, true }
	neverRegistered = func(o *rules.Leaving) { o.Registered = false }
	beingRegistered = func(o *rules.Leaving) { o.Provisioning = true }
	podUnseen       = func(o *rules.Leaving) { o.Unseen = true }
)

func in(d time.Duration) time.Time { return noon.Add(d) }

func TestPlanFinalizationWithoutAPod(t *testing.T) {
	forced := func(o *rules.Leaving) { o.Forced = true }
	runFinalizationCases(t, map[string]finalizationCase{
		"being registered": {finalizingOf(podstatus.Missing, beingRegistered), rules.Finalization{}},
		"pod on its way to the cache": {
			finalizingOf(podstatus.Missing, removedOnGitHub, podUnseen),
			rules.Finalization{DeleteChildren: true, RequeueAt: in(time.Second)},
		},
		"never registered": {finalizingOf(podstatus.Missing, neverRegistered), rules.Finalization{DeleteChildren: true, RemoveFinalizers: true}},
		"no pod": {
			finalizingOf(podstatus.Missing),
			rules.Finalization{DeleteChildren: true, Deregister: true, RequeueAt: in(rules.AnswerTimeout)},
		},
		"no pod, asked":         {finalizingOf(podstatus.Missing, beingRemoved), rules.Finalization{DeleteChildren: true, RequeueAt: in(rules.AnswerTimeout)}},
		"no pod, removed":       {finalizingOf(podstatus.Missing, removedOnGitHub), rules.Finalization{DeleteChildren: true, RemoveFinalizers: true}},
		"no pod, job completed": {finalizingOf(podstatus.Missing, jobEnded), rules.Finalization{DeleteChildren: true, RemoveFinalizers: true}},
		"no pod, GitHub away": {
			finalizingOf(podstatus.Missing, refused(rules.Temporary, time.Second)),
			rules.Finalization{DeleteChildren: true, RequeueAt: in(time.Second)},
		},
		"no pod, GitHub away for 5 min": {
			finalizingOf(podstatus.Missing, refused(rules.Temporary, 6*time.Minute), lateBy(5*time.Minute)),
			rules.Finalization{DeleteChildren: true, RemoveFinalizers: true, LeftBehind: "no",
				RequeueAt: in(6 * time.Minute)},
		},
		"no pod, killed without an answer": {
			finalizingOf(podstatus.Missing, refused(rules.Temporary, time.Second), forced),
			rules.Finalization{DeleteChildren: true, RemoveFinalizers: true, LeftBehind: "no", RequeueAt: in(time.Second)},
		},
	})
}

func TestPlanFinalization(t *testing.T) {
	job := func(o *rules.Leaving) { o.MayHaveJob = true }
	withoutNode := func(o *rules.Leaving) { o.Bound = false }
	stoppedAfterAnswer := func(o *rules.Leaving) {
		o.Removal.FinishedAt = noon.Add(-2 * time.Second)
		o.See(false, false, noon.Add(-time.Second))
	}
	busyBefore := func(o *rules.Leaving) { o.Removal.FinishedAt = noon.Add(-time.Second) }
	terminating := func(o *rules.Leaving) { o.PodDueAt = in(rules.DefaultPendingTimeout) }
	late := lateBy(rules.DefaultPendingTimeout)
	reported, away := func(o *rules.Leaving) { o.KeptReported = true }, refused(rules.Temporary, time.Second)
	runFinalizationCases(t, map[string]finalizationCase{
		"job reported before the pod is seen up": {finalizingOf(podstatus.Pending, job), rules.Finalization{ReportDraining: true, Deregister: true}},
		"job reported before the pod has a node": {finalizingOf(podstatus.Pending, job, withoutNode), rules.Finalization{ReportDraining: true, Deregister: true}},
		"without a node": {
			finalizingOf(podstatus.Pending, withoutNode),
			rules.Finalization{DeleteChildren: true, OnlyUnbound: true, Deregister: true},
		},
		"without a node, removed":          {finalizingOf(podstatus.Pending, withoutNode, removedOnGitHub), rules.Finalization{DeleteChildren: true}},
		"not started on its node":          {finalizingOf(podstatus.Pending), rules.Finalization{Deregister: true, RequeueAt: in(rules.AnswerTimeout)}},
		"not started on its node, removed": {finalizingOf(podstatus.Pending, removedOnGitHub), rules.Finalization{DeleteChildren: true}},
		"not started, GitHub away for 5 min": {
			finalizingOf(podstatus.Pending, refused(rules.Temporary, time.Second), lateBy(5*time.Minute)),
			rules.Finalization{Deregister: true, DeleteChildren: true, Forced: true},
		},
		"image can't be pulled":   {finalizingOf(podstatus.Blocked), rules.Finalization{Deregister: true, RequeueAt: in(rules.AnswerTimeout)}},
		"ended before it started": {finalizingOf(podstatus.NeverStarted), rules.Finalization{DeleteChildren: true, Deregister: true}},
		"ended, busy before": {
			finalizingOf(podstatus.Succeeded, job, refused(rules.Busy, rules.BusyRetryBackoff), stoppedAfterAnswer),
			rules.Finalization{DeleteChildren: true, Deregister: true},
		},
		"ended, still busy": {
			finalizingOf(podstatus.Succeeded, job, refused(rules.Busy, rules.BusyRetryBackoff)),
			rules.Finalization{DeleteChildren: true, RequeueAt: in(rules.BusyRetryBackoff)},
		},
		"ended":               {finalizingOf(podstatus.Succeeded), rules.Finalization{DeleteChildren: true, Deregister: true}},
		"failed with a job":   {finalizingOf(podstatus.Failed, job), rules.Finalization{DeleteChildren: true, Deregister: true}},
		"runs":                {finalizingOf(podstatus.Running), rules.Finalization{Deregister: true, RequeueAt: in(rules.SilenceTimeout)}},
		"runs, asked":         {finalizingOf(podstatus.Running, beingRemoved), rules.Finalization{RequeueAt: in(rules.SilenceTimeout)}},
		"runs, removed":       {finalizingOf(podstatus.Running, removedOnGitHub), rules.Finalization{DeleteChildren: true}},
		"runs, job completed": {finalizingOf(podstatus.Running, jobEnded), rules.Finalization{DeleteChildren: true}},
		"ended, pod stays for now": {
			finalizingOf(podstatus.Succeeded, jobEnded, terminating),
			rules.Finalization{DeleteChildren: true, RequeueAt: in(rules.DefaultPendingTimeout)},
		},
		"ended, pod stays": {
			finalizingOf(podstatus.Failed, jobEnded, terminating, late),
			rules.Finalization{DeleteChildren: true, ReportKept: true},
		},
		"ended, pod stays, said":         {finalizingOf(podstatus.Failed, jobEnded, terminating, late, reported), rules.Finalization{DeleteChildren: true}},
		"runs on, its pod being deleted": {finalizingOf(podstatus.Running, jobEnded, terminating, late), rules.Finalization{DeleteChildren: true}},
		"runs, busy": {
			finalizingOf(podstatus.Running, refused(rules.Busy, rules.BusyRetryBackoff)),
			rules.Finalization{ReportDraining: true, RequeueAt: in(rules.BusyRetryBackoff)},
		},
		"runs, busy since before its deletion": {
			finalizingOf(podstatus.Running, refused(rules.Busy, rules.BusyRetryBackoff), busyBefore),
			rules.Finalization{ReportDraining: true, RequeueAt: in(rules.BusyRetryBackoff)},
		},
		"runs, busy, half a minute later": {
			finalizingOf(podstatus.Running, refused(rules.Busy, rules.BusyRetryBackoff), lateBy(rules.BusyRetryBackoff)),
			rules.Finalization{ReportDraining: true, Deregister: true},
		},
		"runs, busy for an hour": {
			finalizingOf(podstatus.Running, refused(rules.Busy, time.Hour), lateBy(time.Hour)),
			rules.Finalization{ReportDraining: true, Deregister: true},
		},
		"runs, GitHub away": {
			finalizingOf(podstatus.Running, refused(rules.Temporary, time.Second)),
			rules.Finalization{RequeueAt: in(time.Second)},
		},
		"runs, GitHub away for 5 min": {finalizingOf(podstatus.Running, away, lateBy(5*time.Minute)), rules.Finalization{Deregister: true, RequeueAt: in(rules.SilenceTimeout)}},
		"runs, GitHub away for 6 h":   {finalizingOf(podstatus.Running, away, lateBy(6*time.Hour)), rules.Finalization{Deregister: true, DeleteChildren: true, Forced: true}},
		"runs a job, GitHub away for an hour": {
			finalizingOf(podstatus.Running, job, refused(rules.Temporary, time.Hour), lateBy(time.Hour)),
			rules.Finalization{ReportDraining: true, Deregister: true},
		},
	})
}

// A runner has nothing left if it has no pod, gets none, and can't have a job: then its object goes at once.
func TestNothingLeft(t *testing.T) {
	for title, test := range map[string]struct {
		observed *rules.Leaving
		want     bool
	}{
		"removed on GitHub":                    {finalizingOf(podstatus.Missing, removedOnGitHub), true},
		"never registered":                     {finalizingOf(podstatus.Missing, neverRegistered), true},
		"its job is over":                      {finalizingOf(podstatus.Missing, jobEnded), true},
		"GitHub was not asked":                 {finalizingOf(podstatus.Missing), false},
		"GitHub is being asked":                {finalizingOf(podstatus.Missing, beingRemoved), false},
		"GitHub refused":                       {finalizingOf(podstatus.Missing, refused(rules.Temporary, 0)), false},
		"being registered":                     {finalizingOf(podstatus.Missing, removedOnGitHub, beingRegistered), false},
		"its pod is on its way":                {finalizingOf(podstatus.Missing, removedOnGitHub, podUnseen), false},
		"its pod runs":                         {finalizingOf(podstatus.Running, removedOnGitHub), false},
		"its pod has ended":                    {finalizingOf(podstatus.Succeeded, jobEnded), false},
		"its pod starts, GitHub was not asked": {finalizingOf(podstatus.Pending), false},
	} {
		t.Run(title, func(t *testing.T) {
			if got := test.observed.NothingLeft(); got != test.want {
				t.Errorf("nothing left: %t, want %t", got, test.want)
			}
		})
	}
}
