package rules

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

// given returns an observation at noon with the pod in a state.
func given(state podstatus.Phase, change ...func(*World)) *World {
	o := &World{
		Runner: newRunner(), Now: noon, StartableAt: noon, Bound: true, RunnerID: 7, HadPod: state != podstatus.Missing,
		Pod: Outcome{State: podstatus.State{Phase: state, Ready: true, Reason: "Reason", Message: "message"}},
	}
	for _, c := range change {
		c(o)
	}
	return o
}

func failedTimes(n int, last time.Time) func(*World) {
	return func(o *World) {
		o.Runner.Status.Failures = map[string]metav1.Time{}
		for i := range n {
			o.Runner.Status.Failures[fmt.Sprint(i)] = metav1.NewTime(last.Add(time.Duration(i-n+1) * time.Hour))
		}
	}
}

func provisioningFailed(kind Kind, due time.Time) func(*World) {
	return func(o *World) {
		o.Provisioning = Progress{Known: true, Failure: &Failure{Kind: kind, Reason: "Refused", Message: "no"},
			FinishedAt: noon, RetryAt: due}
	}
}

func removalFailed(kind Kind, due time.Time) func(*World) {
	return func(o *World) {
		o.Removal = Progress{Known: true, Failure: &Failure{Kind: kind, Reason: "Refused", Message: "no"}, RetryAt: due}
	}
}

var (
	withJob         = func(o *World) { o.Runner.Status.JobID = "job" }
	completed       = func(o *World) { o.Runner.Status.JobID, o.Runner.Status.JobResult = "job", "succeeded" }
	runningReported = func(o *World) { o.Runner.Status.Phase = v1alpha1.EphemeralRunnerPhaseRunning }
	allReported     = func(o *World) {
		runningReported(o)
		o.Runner.Status.Ready, o.Runner.Status.RunnerID = true,
			7
	}
	agreed               = func(o *World) { o.Removal = Progress{Known: true} }
	asking               = func(o *World) { o.Removal = Progress{Known: true, Running: true} }
	provisioning         = func(o *World) { o.Provisioning = Progress{Known: true, Running: true} }
	provisioned          = func(o *World) { o.Provisioning = Progress{Known: true, FinishedAt: noon} }
	failureIsNoted       = func(o *World) { o.FailureRecorded = true }
	hadPod               = func(o *World) { o.HadPod = true }
	seenUp               = func(o *World) { o.StartedAt = noon.Add(-time.Minute) }
	notReady             = func(o *World) { o.Pod.Ready = false }
	unregistered         = func(o *World) { o.RunnerID = 0 }
	unbound              = func(o *World) { o.Bound = false }
	reported             = func(o *World) { o.Runner.Status.Reason, o.Runner.Status.Message = "Refused", "no" }
	reportedInOtherWords = func(o *World) { o.Runner.Status.Reason, o.Runner.Status.Message = "Refused", "other words" }
	withoutRunner        = func(o *World) { o.Runner.Spec.PodSpec.Containers[0].Name = "main" }
	sidecarDied          = func(o *World) { o.Pod.Sidecar = "dind died" }
)

func after(d time.Duration) func(*World) { return func(o *World) { o.Now = noon.Add(d) } }
func drained(o *World)                   { o.Pod.Outside, o.Pod.Fault = true, podstatus.FaultDisruption }
func outdated(o *World)                  { o.Pod.ExitCode = ExitCodeOutdated }
func overdue(o *World)                   { o.Pod.Outside = true }
func passing(o *World)                   { o.Pod.Passing, o.blockedAt = true, noon }
func endedAt(at time.Time) func(*World)  { return func(o *World) { o.EndedAt = at } }
func exitedAt(at time.Time) func(*World) { return func(o *World) { o.ExitedAt = at } }
func reportedAt(at time.Time) func(*World) {
	return func(o *World) { o.PendingReportedAt = at }
}
func dueAt(at time.Time) func(*World) {
	return func(o *World) { o.PodDueAt = at }
}

type planCase struct {
	observation  *World
	want         Step
	requeueAfter time.Duration // after noon, 0 for never
}

func TestPlanProvision(t *testing.T) {
	runPlanCases(t, map[string]planCase{
		"new":               {given(podstatus.Missing, unregistered), Launch, 0},
		"being provisioned": {given(podstatus.Missing, unregistered, provisioning), Wait, 0},
		// The client repeats a request that got no answer: what is deleted before that comes back, with a used JIT
		// config.
		"pod over before the answer":     {given(podstatus.Succeeded, provisioning), Wait, 0},
		"job over before the answer":     {given(podstatus.Succeeded, provisioning, completed), Wait, 0},
		"pod gone before the answer":     {given(podstatus.Missing, provisioning, completed), Wait, 0},
		"pod failed before the answer":   {given(podstatus.Failed, provisioning, agreed), Wait, 0},
		"pod made, not seen":             {given(podstatus.Missing, provisioned), Wait, UnseenTimeout},
		"pod made, never seen":           {given(podstatus.Missing, provisioned, after(UnseenTimeout)), Deregister, 0},
		"refused, reported":              {given(podstatus.Missing, provisioningFailed(Temporary, noon.Add(time.Second)), reported), Wait, time.Second},
		"refused, new":                   {given(podstatus.Missing, provisioningFailed(Temporary, noon.Add(time.Second))), ReportPending, time.Second},
		"refused in other words":         {given(podstatus.Missing, provisioningFailed(Temporary, noon.Add(time.Second)), reportedInOtherWords, reportedAt(noon)), Wait, time.Second},
		"refused in other words, long":   {given(podstatus.Missing, provisioningFailed(Temporary, noon.Add(time.Second)), reportedInOtherWords, reportedAt(noon.Add(-rewordInterval))), ReportPending, time.Second},
		"refused, pause over":            {given(podstatus.Missing, unregistered, provisioningFailed(Temporary, noon)), Launch, 0},
		"refused after registration":     {given(podstatus.Missing, provisioningFailed(Temporary, noon)), Launch, 0},
		"pod is not valid":               {given(podstatus.Missing, provisioningFailed(Invalid, noon)), Fail, 0},
		"name is somebody else's":        {given(podstatus.Missing, provisioningFailed(NameTaken, noon)), Replace, 0},
		"lost its pod, has a job":        {given(podstatus.Missing, unregistered, provisioningFailed(Busy, noon.Add(time.Minute))), FailBusy, 0},
		"after a restart and a failure":  {given(podstatus.Missing, unregistered, failedTimes(1, noon.Add(-time.Hour))), Launch, 0},
		"namespace is being deleted":     {given(podstatus.Missing, provisioningFailed(Closed, noon)), Wait, 0},
		"after a failure, pause":         {given(podstatus.Missing, failedTimes(2, noon)), Wait, 10 * time.Second},
		"after a failure, pause over":    {given(podstatus.Missing, failedTimes(2, noon), after(10*time.Second)), Launch, 0},
		"failure dated in the future":    {given(podstatus.Missing, failedTimes(2, noon), after(-3*time.Hour)), Launch, 0},
		"after five failures":            {given(podstatus.Missing, failedTimes(5, noon)), Wait, 80 * time.Second},
		"noted pod is to go":             {given(podstatus.NeverStarted, failureIsNoted), DeleteFailedPod, 0},
		"noted pod is on its way out":    {given(podstatus.NeverStarted, failureIsNoted, dueAt(noon.Add(time.Minute))), DeleteFailedPod, time.Minute},
		"noted pod stays":                {given(podstatus.NeverStarted, failureIsNoted, dueAt(noon)), Fail, 0},
		"pod vanished before its start":  {given(podstatus.Missing, hadPod), Deregister, 0},
		"pod vanished after its start":   {given(podstatus.Missing, hadPod, seenUp), Deregister, 0},
		"restart: pod of a running one":  {given(podstatus.Missing, runningReported), Deregister, 0},
		"restart: pod of one with a job": {given(podstatus.Missing, withJob), Fail, 0},
		"job seen before its pod":        {given(podstatus.Missing, provisioned, withJob), Wait, UnseenTimeout},
		"job seen, answer to pod lost":   {given(podstatus.Missing, provisioningFailed(Temporary, noon), withJob), Wait, UnseenTimeout},
		"no container to be the runner":  {given(podstatus.Missing, unregistered, withoutRunner), Fail, 0},
		"job seen, its pod never":        {given(podstatus.Missing, provisioned, withJob, after(UnseenTimeout)), Fail, 0},
	})
}

func TestPlanOutcomes(t *testing.T) {
	runPlanCases(t, map[string]planCase{
		"exit 0":                               {given(podstatus.Succeeded), Exited, ReportGrace},
		"exit 0, waits for the report":         {given(podstatus.Missing, exitedAt(noon)), Wait, ReportGrace},
		"exit 0, reported":                     {given(podstatus.Missing, exitedAt(noon), completed), DeleteRunner, 0},
		"exit 0, GitHub is asked":              {given(podstatus.Missing, exitedAt(noon), asking, after(ReportGrace)), Wait, 0},
		"exit 0, then deregistered":            {given(podstatus.Missing, exitedAt(noon), agreed), Reregister, 0},
		"exit 0, GitHub is away":               {given(podstatus.Missing, exitedAt(noon), removalFailed(Temporary, noon), after(ReportGrace)), Succeed, 0},
		"exit 0, reported before":              {given(podstatus.Succeeded, completed), DeleteRunner, 0},
		"exit 0, no report":                    {given(podstatus.Missing, exitedAt(noon), after(ReportGrace)), Succeed, 0},
		"exit 0, evicted":                      {given(podstatus.Succeeded, drained), Deregister, 0},
		"exit 0, evicted, GitHub agreed":       {given(podstatus.Succeeded, drained, agreed), Reregister, 0},
		"exit 0, evicted, GitHub says busy":    {given(podstatus.Succeeded, drained, removalFailed(Busy, noon.Add(BusyRetryBackoff))), FailBusy, 0},
		"exit 0, evicted, has a job":           {given(podstatus.Succeeded, drained, withJob), Exited, ReportGrace},
		"exit 7":                               {given(podstatus.Failed, outdated), Outdate, 0},
		"blocked":                              {given(podstatus.Blocked), Deregister, 0},
		"blocked, GitHub is asked":             {given(podstatus.Blocked, asking), Wait, 0},
		"blocked, deregistered":                {given(podstatus.Blocked, agreed), Reregister, 0},
		"blocked, busy by GitHub's word":       {given(podstatus.Blocked, removalFailed(Busy, noon.Add(BusyRetryBackoff))), ReportPending, BusyRetryBackoff},
		"blocked by the pod's late status":     {given(podstatus.Blocked, withJob), Wait, 0},
		"not created yet":                      {given(podstatus.Blocked, passing), Wait, CreateContainerTimeout},
		"not created for long":                 {given(podstatus.Blocked, passing, after(CreateContainerTimeout)), Deregister, 0},
		"not created, has a job":               {given(podstatus.Blocked, passing, withJob), Wait, 0},
		"started when it was deregistered":     {given(podstatus.Running, agreed), Reregister, 0},
		"exited because it was deregistered":   {given(podstatus.Succeeded, agreed), Reregister, 0},
		"never started":                        {given(podstatus.NeverStarted), Retry, 0},
		"never started, fifth time":            {given(podstatus.NeverStarted, failedTimes(4, noon)), Retry, 0},
		"never started, sixth time":            {given(podstatus.NeverStarted, failedTimes(5, noon)), Fail, 0},
		"never started, GitHub is asked":       {given(podstatus.NeverStarted, asking), Wait, 0},
		"never started, deregistered":          {given(podstatus.NeverStarted, agreed), Reregister, 0},
		"never started, busy by GitHub's word": {given(podstatus.NeverStarted, removalFailed(Busy, noon.Add(BusyRetryBackoff))), FailBusy, 0},
		"never started, GitHub was away":       {given(podstatus.NeverStarted, removalFailed(Temporary, noon)), Deregister, 0},
		"says never started, was seen up":      {given(podstatus.NeverStarted, seenUp), Deregister, 0},
		"says never started, has a job":        {given(podstatus.NeverStarted, withJob), Fail, 0},
		"says never started, job completed":    {given(podstatus.NeverStarted, completed), DeleteRunner, 0},
		"failed, no job known":                 {given(podstatus.Failed), Deregister, 0},
		"failed, GitHub is being asked":        {given(podstatus.Failed, asking), Wait, 0},
		"failed, GitHub agreed":                {given(podstatus.Failed, agreed), Reregister, 0},
		"failed, GitHub agreed, sixth time":    {given(podstatus.Failed, agreed, failedTimes(5, noon)), Fail, 0},
		"evicted after long, sixth time":       {given(podstatus.Failed, agreed, drained, seenUp, endedAt(noon), failedTimes(5, noon)), Reregister, 0},
		"evicted at once, sixth time":          {given(podstatus.Failed, agreed, drained, seenUp, endedAt(noon.Add(-time.Second)), failedTimes(5, noon)), Reregister, 0},
		"evicted before its start, sixth time": {given(podstatus.NeverStarted, drained, failedTimes(5, noon)), Retry, 0},
		"past its deadline early, sixth time":  {given(podstatus.Failed, agreed, overdue, seenUp, endedAt(noon.Add(-time.Second)), failedTimes(5, noon)), Fail, 0},
		"past its deadline later, sixth time":  {given(podstatus.Failed, agreed, overdue, seenUp, endedAt(noon), failedTimes(5, noon)), Reregister, 0},
		"crashed after long, sixth time":       {given(podstatus.Failed, agreed, seenUp, endedAt(noon), failedTimes(5, noon)), Fail, 0},
		"failed, GitHub says busy":             {given(podstatus.Failed, removalFailed(Busy, noon.Add(BusyRetryBackoff))), FailBusy, 0},
		"failed, GitHub is away":               {given(podstatus.Failed, removalFailed(Temporary, noon.Add(time.Second))), ReportPending, time.Second},
		"failed, GitHub was away":              {given(podstatus.Failed, removalFailed(Temporary, noon)), Deregister, 0},
		"failed with a job":                    {given(podstatus.Failed, withJob), Fail, 0},
		"failed, job completed":                {given(podstatus.Failed, completed), DeleteRunner, 0},
		"runs, not said":                       {given(podstatus.Running), ReportRunning, 0},
		"runs, said":                           {given(podstatus.Running, allReported), Wait, 0},
		"runs, said without id":                {given(podstatus.Running, runningReported), ReportRunning, 0},
		"runs, id unknown":                     {given(podstatus.Running, unregistered, runningReported, func(o *World) { o.Runner.Status.Ready = true }), Wait, 0},
		"runs, about to be ready":              {given(podstatus.Running, notReady, func(o *World) { o.StartedAt = noon }), Wait, readyGrace},
		"runs, not ready for long":             {given(podstatus.Running, notReady, seenUp), ReportRunning, 0},
		"runs, no longer ready":                {given(podstatus.Running, notReady, allReported), ReportRunning, 0},
		"runs, sidecar died":                   {given(podstatus.Running, allReported, sidecarDied), ReportSidecar, 0},
		"runs, sidecar died, reported":         {given(podstatus.Running, allReported, sidecarDied, func(o *World) { o.SidecarReported = true }), Wait, 0},
		"runs on after its job":                {given(podstatus.Running, allReported, completed), Wait, 0},
		"pending":                              {given(podstatus.Pending, because("ContainerCreating")), Wait, DefaultPendingTimeout},
		"init containers run":                  {given(podstatus.Pending, because("PodInitializing"), after(ExplainGrace)), Wait, DefaultPendingTimeout},
		"a sidecar crashes":                    {given(podstatus.Pending, because("CrashLoopBackOff")), Wait, ExplainGrace},
		"a sidecar crashes for half a minute":  {given(podstatus.Pending, because("CrashLoopBackOff"), after(ExplainGrace)), ReportPending, DefaultPendingTimeout},
		"a sidecar crashes, reported":          {given(podstatus.Pending, after(ExplainGrace), because("Refused"), reported, reportedAt(noon)), Wait, DefaultPendingTimeout},
		"pending too long":                     {given(podstatus.Pending, after(DefaultPendingTimeout)), Deregister, 0},
		"pending too long, agreed":             {given(podstatus.Pending, after(DefaultPendingTimeout), agreed), Reregister, 0},
		"pending too long, busy":               {given(podstatus.Pending, after(DefaultPendingTimeout), removalFailed(Busy, noon.Add(time.Hour)), reported), Wait, time.Hour},
		"pending too long, has a job":          {given(podstatus.Pending, after(DefaultPendingTimeout), withJob), Wait, 0},
		"unschedulable too long":               {given(podstatus.Pending, after(DefaultPendingTimeout), unbound), ReportPending, 0},
		"pending, timeout of its own":          {given(podstatus.Pending, because("ContainerCreating"), timeoutOf(time.Minute)), Wait, time.Minute},
		"a sidecar crashes, shorter timeout":   {given(podstatus.Pending, because("CrashLoopBackOff"), timeoutOf(time.Second)), Wait, time.Second},
		"pending too long, timeout of its own": {given(podstatus.Pending, timeoutOf(time.Minute), after(time.Minute)), Deregister, 0},
	})
}

func because(reason string) func(*World) { return func(o *World) { o.Pod.Reason = reason } }

func timeoutOf(d time.Duration) func(*World) {
	return func(o *World) { o.Runner.Spec.PendingTimeout = &metav1.Duration{Duration: d} }
}

func runPlanCases(t *testing.T, cases map[string]planCase) {
	for title, test := range cases {
		t.Run(title, func(t *testing.T) {
			got := Plan(test.observation)
			if got.Step != test.want {
				t.Errorf("step %d (%s: %s), want %d", got.Step, got.Reason, got.Message, test.want)
			}
			var requeueAt time.Time
			if test.requeueAfter != 0 {
				requeueAt = noon.Add(test.requeueAfter)
			}
			if !got.RequeueAt.Equal(requeueAt) {
				t.Errorf("requeue at %s, want %s", got.RequeueAt, requeueAt)
			}
		})
	}
}

func TestOutdatedRunnerNamesItsImage(t *testing.T) {
	for title, ended := range map[string]*corev1.ContainerStateTerminated{
		"exit 7":                         {ExitCode: 7, Reason: "Error", StartedAt: metav1.NewTime(noon)},
		"exit 7 without a time of start": {ExitCode: 7},
	} {
		pod := &corev1.Pod{Spec: newRunner().Spec.PodSpec,
			Status: corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{
				{Name: v1alpha1.RunnerContainerName, State: corev1.ContainerState{Terminated: ended}},
			}}}
		got := OutcomeOf(pod, noon)
		if want := "GitHub refuses the runner version in image runner:1"; !got.Outdated() || got.Reason != "Outdated" ||
			got.Message != want {
			t.Errorf("%s: %+v, want reason Outdated, message %q", title, got, want)
		}
	}
}
