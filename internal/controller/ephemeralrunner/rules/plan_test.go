package rules_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/podstatus"
	"github.com/harrier-ci/harrier/internal/testkube/runnerpods"
)

// given returns an observation at noon with the pod in a state.
func given(state podstatus.Phase, change ...func(*rules.World)) *rules.World {
	o := &rules.World{
		Runner: newRunner(), Now: noon, StartableAt: noon, Bound: true, RunnerID: 7, HadPod: state != podstatus.Missing,
		Pod: rules.Outcome{State: podstatus.State{Phase: state, Ready: true, Reason: "Reason", Message: "message"}},
	}
	for _, c := range change {
		c(o)
	}
	return o
}

func failedTimes(n int, last time.Time) func(*rules.World) {
	return func(o *rules.World) {
		o.Runner.Status.Failures = map[string]metav1.Time{}
		for i := range n {
			o.Runner.Status.Failures[fmt.Sprint(i)] = metav1.NewTime(last.Add(time.Duration(i-n+1) * time.Hour))
		}
	}
}

func disruptedAt(at time.Time) func(*rules.World) {
	return func(o *rules.World) {
		o.Runner.Status.Disruptions = map[string]metav1.Time{"evicted": metav1.NewTime(at)}
	}
}

func provisioningFailed(kind rules.Kind, due time.Time) func(*rules.World) {
	return func(o *rules.World) {
		o.Provisioning = rules.Progress{Known: true, Failure: &rules.Failure{Kind: kind, Reason: "Refused", Message: "no"},
			FinishedAt: noon, RetryAt: due}
	}
}

func removalFailed(kind rules.Kind, due time.Time) func(*rules.World) {
	return func(o *rules.World) {
		o.Removal = rules.Progress{Known: true, Failure: &rules.Failure{Kind: kind, Reason: "Refused", Message: "no"}, RetryAt: due}
	}
}

var (
	withJob         = func(o *rules.World) { o.Runner.Status.JobID = "job" }
	completed       = func(o *rules.World) { o.Runner.Status.JobID, o.Runner.Status.JobResult = "job", "succeeded" }
	runningReported = func(o *rules.World) { o.Runner.Status.Phase = v1alpha1.EphemeralRunnerPhaseRunning }
	allReported     = func(o *rules.World) {
		runningReported(o)
		o.Runner.Status.Ready, o.Runner.Status.RunnerID = true,
			7
	}
	agreed               = func(o *rules.World) { o.Removal = rules.Progress{Known: true} }
	asking               = func(o *rules.World) { o.Removal = rules.Progress{Known: true, Running: true} }
	provisioning         = func(o *rules.World) { o.Provisioning = rules.Progress{Known: true, Running: true} }
	provisioned          = func(o *rules.World) { o.Provisioning = rules.Progress{Known: true, FinishedAt: noon} }
	failureIsNoted       = func(o *rules.World) { o.FailureRecorded = true }
	hadPod               = func(o *rules.World) { o.HadPod = true }
	seenUp               = func(o *rules.World) { o.StartedAt = noon.Add(-time.Minute) }
	notReady             = func(o *rules.World) { o.Pod.Ready = false }
	unregistered         = func(o *rules.World) { o.RunnerID = 0 }
	unbound              = func(o *rules.World) { o.Bound = false }
	reported             = func(o *rules.World) { o.Runner.Status.Reason, o.Runner.Status.Message = "Refused", "no" }
	reportedInOtherWords = func(o *rules.World) { o.Runner.Status.Reason, o.Runner.Status.Message = "Refused", "other words" }
	withoutRunner        = func(o *rules.World) { o.Runner.Spec.PodSpec.Containers[0].Name = "main" }
	sidecarDied          = func(o *rules.World) { o.Pod.Sidecar = "dind died" }
)

func after(d time.Duration) func(*rules.World) { return func(o *rules.World) { o.Now = noon.Add(d) } }
func drained(o *rules.World)                   { o.Pod.Outside, o.Pod.Fault = true, podstatus.FaultDisruption }
func outdated(o *rules.World)                  { o.Pod.ExitCode = rules.ExitCodeOutdated }
func overdue(o *rules.World)                   { o.Pod.Outside = true }
func passing(o *rules.World) {
	o.Pod.Passing = true
	waits := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CreateContainerError"}}
	o.SeeStart(runnerpods.With(corev1.PodPending, waits), noon)
}
func endedAt(at time.Time) func(*rules.World)  { return func(o *rules.World) { o.EndedAt = at } }
func exitedAt(at time.Time) func(*rules.World) { return func(o *rules.World) { o.ExitedAt = at } }
func reportedAt(at time.Time) func(*rules.World) {
	return func(o *rules.World) { o.PendingReportedAt = at }
}
func dueAt(at time.Time) func(*rules.World) {
	return func(o *rules.World) { o.PodDueAt = at }
}

type planCase struct {
	observation  *rules.World
	want         rules.Step
	requeueAfter time.Duration // after noon, 0 for never
}

func TestPlanProvision(t *testing.T) {
	runPlanCases(t, map[string]planCase{
		"new":               {given(podstatus.Missing, unregistered), rules.Launch, 0},
		"being provisioned": {given(podstatus.Missing, unregistered, provisioning), rules.Wait, 0},
		// The client repeats a request that got no answer: what is deleted before that comes back, with a used JIT
		// config.
		"pod over before the answer":     {given(podstatus.Succeeded, provisioning), rules.Wait, 0},
		"job over before the answer":     {given(podstatus.Succeeded, provisioning, completed), rules.Wait, 0},
		"pod gone before the answer":     {given(podstatus.Missing, provisioning, completed), rules.Wait, 0},
		"pod failed before the answer":   {given(podstatus.Failed, provisioning, agreed), rules.Wait, 0},
		"pod made, not seen":             {given(podstatus.Missing, provisioned), rules.Wait, rules.UnseenTimeout},
		"pod made, never seen":           {given(podstatus.Missing, provisioned, after(rules.UnseenTimeout)), rules.Deregister, 0},
		"refused, reported":              {given(podstatus.Missing, provisioningFailed(rules.Temporary, noon.Add(time.Second)), reported), rules.Wait, time.Second},
		"refused, new":                   {given(podstatus.Missing, provisioningFailed(rules.Temporary, noon.Add(time.Second))), rules.ReportPending, time.Second},
		"refused in other words":         {given(podstatus.Missing, provisioningFailed(rules.Temporary, noon.Add(time.Second)), reportedInOtherWords, reportedAt(noon)), rules.Wait, time.Second},
		"refused in other words, nearly": {given(podstatus.Missing, provisioningFailed(rules.Temporary, noon.Add(time.Second)), reportedInOtherWords, reportedAt(noon.Add(time.Second-5*time.Minute))), rules.Wait, time.Second},
		"refused in other words, long":   {given(podstatus.Missing, provisioningFailed(rules.Temporary, noon.Add(time.Second)), reportedInOtherWords, reportedAt(noon.Add(-5*time.Minute))), rules.ReportPending, time.Second},
		"refused, pause over":            {given(podstatus.Missing, unregistered, provisioningFailed(rules.Temporary, noon)), rules.Launch, 0},
		"refused after registration":     {given(podstatus.Missing, provisioningFailed(rules.Temporary, noon)), rules.Launch, 0},
		"pod is not valid":               {given(podstatus.Missing, provisioningFailed(rules.Invalid, noon)), rules.Fail, 0},
		"name is somebody else's":        {given(podstatus.Missing, provisioningFailed(rules.NameTaken, noon)), rules.Replace, 0},
		"lost its pod, has a job":        {given(podstatus.Missing, unregistered, provisioningFailed(rules.Busy, noon.Add(time.Minute))), rules.FailBusy, 0},
		"after a restart and a failure":  {given(podstatus.Missing, unregistered, failedTimes(1, noon.Add(-time.Hour))), rules.Launch, 0},
		"namespace is being deleted":     {given(podstatus.Missing, provisioningFailed(rules.Closed, noon)), rules.Wait, 0},
		"after a failure, pause":         {given(podstatus.Missing, failedTimes(2, noon)), rules.Wait, 10 * time.Second},
		"after a failure, pause over":    {given(podstatus.Missing, failedTimes(2, noon), after(10*time.Second)), rules.Launch, 0},
		"failure dated in the future":    {given(podstatus.Missing, failedTimes(2, noon), after(-3*time.Hour)), rules.Launch, 0},
		"after five failures":            {given(podstatus.Missing, failedTimes(5, noon)), rules.Wait, 80 * time.Second},
		"failures and a disruption":      {given(podstatus.Missing, failedTimes(2, noon), disruptedAt(noon.Add(time.Second)), after(time.Second)), rules.Wait, 21 * time.Second},
		"noted pod is to go":             {given(podstatus.NeverStarted, failureIsNoted), rules.DeleteFailedPod, 0},
		"noted pod is on its way out":    {given(podstatus.NeverStarted, failureIsNoted, dueAt(noon.Add(time.Minute))), rules.DeleteFailedPod, time.Minute},
		"noted pod stays":                {given(podstatus.NeverStarted, failureIsNoted, dueAt(noon)), rules.Fail, 0},
		"pod vanished before its start":  {given(podstatus.Missing, hadPod), rules.Deregister, 0},
		"pod vanished after its start":   {given(podstatus.Missing, hadPod, seenUp), rules.Deregister, 0},
		"restart: pod of a running one":  {given(podstatus.Missing, runningReported), rules.Deregister, 0},
		"restart: pod of one with a job": {given(podstatus.Missing, withJob), rules.Fail, 0},
		"job seen before its pod":        {given(podstatus.Missing, provisioned, withJob), rules.Wait, rules.UnseenTimeout},
		"job seen, answer to pod lost":   {given(podstatus.Missing, provisioningFailed(rules.Temporary, noon), withJob), rules.Wait, rules.UnseenTimeout},
		"no container to be the runner":  {given(podstatus.Missing, unregistered, withoutRunner), rules.Fail, 0},
		"job seen, its pod never":        {given(podstatus.Missing, provisioned, withJob, after(rules.UnseenTimeout)), rules.Fail, 0},
	})
}

func TestPlanOutcomes(t *testing.T) {
	runPlanCases(t, map[string]planCase{
		"exit 0":                               {given(podstatus.Succeeded), rules.Exited, rules.ReportGrace},
		"exit 0, waits for the report":         {given(podstatus.Missing, exitedAt(noon)), rules.Wait, rules.ReportGrace},
		"exit 0, reported":                     {given(podstatus.Missing, exitedAt(noon), completed), rules.DeleteRunner, 0},
		"exit 0, GitHub is asked":              {given(podstatus.Missing, exitedAt(noon), asking, after(rules.ReportGrace)), rules.Wait, 0},
		"exit 0, then deregistered":            {given(podstatus.Missing, exitedAt(noon), agreed), rules.Reregister, 0},
		"exit 0, GitHub is away":               {given(podstatus.Missing, exitedAt(noon), removalFailed(rules.Temporary, noon), after(rules.ReportGrace)), rules.Succeed, 0},
		"exit 0, reported before":              {given(podstatus.Succeeded, completed), rules.DeleteRunner, 0},
		"exit 0, no report":                    {given(podstatus.Missing, exitedAt(noon), after(rules.ReportGrace)), rules.Succeed, 0},
		"exit 0, evicted":                      {given(podstatus.Succeeded, drained), rules.Deregister, 0},
		"exit 0, evicted, GitHub agreed":       {given(podstatus.Succeeded, drained, agreed), rules.Reregister, 0},
		"exit 0, evicted, GitHub says busy":    {given(podstatus.Succeeded, drained, removalFailed(rules.Busy, noon.Add(rules.BusyRetryBackoff))), rules.FailBusy, 0},
		"exit 0, evicted, has a job":           {given(podstatus.Succeeded, drained, withJob), rules.Exited, rules.ReportGrace},
		"exit 7":                               {given(podstatus.Failed, outdated), rules.Outdate, 0},
		"blocked":                              {given(podstatus.Blocked), rules.Deregister, 0},
		"blocked, GitHub is asked":             {given(podstatus.Blocked, asking), rules.Wait, 0},
		"blocked, deregistered":                {given(podstatus.Blocked, agreed), rules.Reregister, 0},
		"blocked, busy by GitHub's word":       {given(podstatus.Blocked, removalFailed(rules.Busy, noon.Add(rules.BusyRetryBackoff))), rules.ReportPending, rules.BusyRetryBackoff},
		"blocked by the pod's late status":     {given(podstatus.Blocked, withJob), rules.Wait, 0},
		"not created yet":                      {given(podstatus.Blocked, passing), rules.Wait, rules.CreateContainerTimeout},
		"not created for long":                 {given(podstatus.Blocked, passing, after(rules.CreateContainerTimeout)), rules.Deregister, 0},
		"not created, has a job":               {given(podstatus.Blocked, passing, withJob), rules.Wait, 0},
		"started when it was deregistered":     {given(podstatus.Running, agreed), rules.Reregister, 0},
		"exited because it was deregistered":   {given(podstatus.Succeeded, agreed), rules.Reregister, 0},
		"never started":                        {given(podstatus.NeverStarted), rules.Retry, 0},
		"never started, fifth time":            {given(podstatus.NeverStarted, failedTimes(4, noon)), rules.Retry, 0},
		"never started, sixth time":            {given(podstatus.NeverStarted, failedTimes(5, noon)), rules.Fail, 0},
		"never started, GitHub is asked":       {given(podstatus.NeverStarted, asking), rules.Wait, 0},
		"never started, deregistered":          {given(podstatus.NeverStarted, agreed), rules.Reregister, 0},
		"never started, busy by GitHub's word": {given(podstatus.NeverStarted, removalFailed(rules.Busy, noon.Add(rules.BusyRetryBackoff))), rules.FailBusy, 0},
		"never started, GitHub was away":       {given(podstatus.NeverStarted, removalFailed(rules.Temporary, noon)), rules.Deregister, 0},
		"says never started, was seen up":      {given(podstatus.NeverStarted, seenUp), rules.Deregister, 0},
		"says never started, has a job":        {given(podstatus.NeverStarted, withJob), rules.Fail, 0},
		"says never started, job completed":    {given(podstatus.NeverStarted, completed), rules.DeleteRunner, 0},
		"failed, no job known":                 {given(podstatus.Failed), rules.Deregister, 0},
		"failed, GitHub is being asked":        {given(podstatus.Failed, asking), rules.Wait, 0},
		"failed, GitHub agreed":                {given(podstatus.Failed, agreed), rules.Reregister, 0},
		"failed, GitHub agreed, sixth time":    {given(podstatus.Failed, agreed, failedTimes(5, noon)), rules.Fail, 0},
		"evicted after long, sixth time":       {given(podstatus.Failed, agreed, drained, seenUp, endedAt(noon), failedTimes(5, noon)), rules.Reregister, 0},
		"evicted at once, sixth time":          {given(podstatus.Failed, agreed, drained, seenUp, endedAt(noon.Add(-time.Second)), failedTimes(5, noon)), rules.Reregister, 0},
		"evicted before its start, sixth time": {given(podstatus.NeverStarted, drained, failedTimes(5, noon)), rules.Retry, 0},
		"past its deadline early, sixth time":  {given(podstatus.Failed, agreed, overdue, seenUp, endedAt(noon.Add(-time.Second)), failedTimes(5, noon)), rules.Fail, 0},
		"past its deadline later, sixth time":  {given(podstatus.Failed, agreed, overdue, seenUp, endedAt(noon), failedTimes(5, noon)), rules.Reregister, 0},
		"crashed after long, sixth time":       {given(podstatus.Failed, agreed, seenUp, endedAt(noon), failedTimes(5, noon)), rules.Fail, 0},
		"failed, GitHub says busy":             {given(podstatus.Failed, removalFailed(rules.Busy, noon.Add(rules.BusyRetryBackoff))), rules.FailBusy, 0},
		"failed, GitHub is away":               {given(podstatus.Failed, removalFailed(rules.Temporary, noon.Add(time.Second))), rules.ReportPending, time.Second},
		"failed, GitHub was away":              {given(podstatus.Failed, removalFailed(rules.Temporary, noon)), rules.Deregister, 0},
		"failed with a job":                    {given(podstatus.Failed, withJob), rules.Fail, 0},
		"failed, job completed":                {given(podstatus.Failed, completed), rules.DeleteRunner, 0},
		"runs, not said":                       {given(podstatus.Running), rules.ReportRunning, 0},
		"runs, said":                           {given(podstatus.Running, allReported), rules.Wait, 0},
		"runs, said without id":                {given(podstatus.Running, runningReported), rules.ReportRunning, 0},
		"runs, id unknown":                     {given(podstatus.Running, unregistered, runningReported, func(o *rules.World) { o.Runner.Status.Ready = true }), rules.Wait, 0},
		"runs, about to be ready":              {given(podstatus.Running, notReady, func(o *rules.World) { o.StartedAt = noon }), rules.Wait, 2 * time.Second},
		"runs, not ready for long":             {given(podstatus.Running, notReady, seenUp), rules.ReportRunning, 0},
		"runs, no longer ready":                {given(podstatus.Running, notReady, allReported), rules.ReportRunning, 0},
		"runs, sidecar died":                   {given(podstatus.Running, allReported, sidecarDied), rules.ReportSidecar, 0},
		"runs, sidecar died, reported":         {given(podstatus.Running, allReported, sidecarDied, func(o *rules.World) { o.SidecarReported = true }), rules.Wait, 0},
		"runs on after its job":                {given(podstatus.Running, allReported, completed), rules.Wait, 0},
		"pending":                              {given(podstatus.Pending, because("ContainerCreating")), rules.Wait, rules.DefaultPendingTimeout},
		"init containers run":                  {given(podstatus.Pending, because("PodInitializing"), after(rules.ExplainGrace)), rules.Wait, rules.DefaultPendingTimeout},
		"a sidecar crashes":                    {given(podstatus.Pending, because("CrashLoopBackOff")), rules.Wait, rules.ExplainGrace},
		"a sidecar crashes for half a minute":  {given(podstatus.Pending, because("CrashLoopBackOff"), after(rules.ExplainGrace)), rules.ReportPending, rules.DefaultPendingTimeout},
		"a sidecar crashes, reported":          {given(podstatus.Pending, after(rules.ExplainGrace), because("Refused"), reported, reportedAt(noon)), rules.Wait, rules.DefaultPendingTimeout},
		"pending too long":                     {given(podstatus.Pending, after(rules.DefaultPendingTimeout)), rules.Deregister, 0},
		"pending too long, agreed":             {given(podstatus.Pending, after(rules.DefaultPendingTimeout), agreed), rules.Reregister, 0},
		"pending too long, busy":               {given(podstatus.Pending, after(rules.DefaultPendingTimeout), removalFailed(rules.Busy, noon.Add(time.Hour)), reported), rules.Wait, time.Hour},
		"pending too long, has a job":          {given(podstatus.Pending, after(rules.DefaultPendingTimeout), withJob), rules.Wait, 0},
		"unschedulable too long":               {given(podstatus.Pending, after(rules.DefaultPendingTimeout), unbound), rules.ReportPending, 0},
		"pending, timeout of its own":          {given(podstatus.Pending, because("ContainerCreating"), timeoutOf(time.Minute)), rules.Wait, time.Minute},
		"a sidecar crashes, shorter timeout":   {given(podstatus.Pending, because("CrashLoopBackOff"), timeoutOf(time.Second)), rules.Wait, time.Second},
		"pending too long, timeout of its own": {given(podstatus.Pending, timeoutOf(time.Minute), after(time.Minute)), rules.Deregister, 0},
	})
}

func because(reason string) func(*rules.World) { return func(o *rules.World) { o.Pod.Reason = reason } }

func timeoutOf(d time.Duration) func(*rules.World) {
	return func(o *rules.World) { o.Runner.Spec.PendingTimeout = &metav1.Duration{Duration: d} }
}

func runPlanCases(t *testing.T, cases map[string]planCase) {
	for title, test := range cases {
		t.Run(title, func(t *testing.T) {
			got := rules.Plan(test.observation)
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
		got := rules.OutcomeOf(pod, noon)
		if !got.Outdated() || got.Reason != "Outdated" {
			t.Errorf("%s: %+v, want reason Outdated", title, got)
		}
	}
}
