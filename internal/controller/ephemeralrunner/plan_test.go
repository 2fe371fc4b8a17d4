package ephemeralrunner

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/calls"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

// given returns an observation at noon with the pod in a state.
func given(state podstatus.Phase, change ...func(*observation)) *observation {
	o := &observation{
		runner: newRunner(), now: noon, startableAt: noon, bound: true, runnerID: 7, hadPod: state != podstatus.Missing,
		pod: outcome{State: podstatus.State{Phase: state, Ready: true, Reason: "Reason", Message: "message"}},
	}
	for _, c := range change {
		c(o)
	}
	return o
}

func failedTimes(n int, last time.Time) func(*observation) {
	return func(o *observation) {
		o.runner.Status.Failures = map[string]metav1.Time{}
		for i := range n {
			o.runner.Status.Failures[fmt.Sprint(i)] = metav1.NewTime(last.Add(time.Duration(i-n+1) * time.Hour))
		}
	}
}

func provisioningFailed(kind calls.Kind, due time.Time) func(*observation) {
	return func(o *observation) {
		o.provisioning = calls.Progress{Known: true, Failure: &calls.Failure{Kind: kind, Reason: "Refused", Message: "no"}, FinishedAt: noon, RetryAt: due}
	}
}

func removalFailed(kind calls.Kind, due time.Time) func(*observation) {
	return func(o *observation) {
		o.removal = calls.Progress{Known: true, Failure: &calls.Failure{Kind: kind, Reason: "Refused", Message: "no"}, RetryAt: due}
	}
}

var (
	withJob              = func(o *observation) { o.runner.Status.JobID = "job" }
	completed            = func(o *observation) { o.runner.Status.JobID, o.runner.Status.JobResult = "job", "succeeded" }
	runningReported      = func(o *observation) { o.runner.Status.Phase = v1alpha1.EphemeralRunnerPhaseRunning }
	allReported          = func(o *observation) { runningReported(o); o.runner.Status.Ready, o.runner.Status.RunnerID = true, 7 }
	agreed               = func(o *observation) { o.removal = calls.Progress{Known: true} }
	asking               = func(o *observation) { o.removal = calls.Progress{Known: true, Running: true} }
	provisioning         = func(o *observation) { o.provisioning = calls.Progress{Known: true, Running: true} }
	provisioned          = func(o *observation) { o.provisioning = calls.Progress{Known: true, FinishedAt: noon} }
	failureIsNoted       = func(o *observation) { o.failureNoted = true }
	hadPod               = func(o *observation) { o.hadPod = true }
	seenUp               = func(o *observation) { o.startedAt = noon.Add(-time.Minute) }
	notReady             = func(o *observation) { o.pod.Ready = false }
	unregistered         = func(o *observation) { o.runnerID = 0 }
	unbound              = func(o *observation) { o.bound = false }
	reported             = func(o *observation) { o.runner.Status.Reason, o.runner.Status.Message = "Refused", "no" }
	reportedInOtherWords = func(o *observation) { o.runner.Status.Reason, o.runner.Status.Message = "Refused", "other words" }
	withoutRunner        = func(o *observation) { o.runner.Spec.PodSpec.Containers[0].Name = "main" }
	sidecarDied          = func(o *observation) { o.pod.Sidecar = "dind died" }
)

func after(d time.Duration) func(*observation) { return func(o *observation) { o.now = noon.Add(d) } }
func drained(o *observation)                   { o.pod.outside, o.pod.fault = true, podstatus.FaultDisruption }
func outdated(o *observation)                  { o.pod.ExitCode = exitCodeOutdated }
func overdue(o *observation)                   { o.pod.outside = true }
func passing(o *observation)                   { o.pod.Passing, o.blockedAt = true, noon }
func endedAt(at time.Time) func(*observation)  { return func(o *observation) { o.endedAt = at } }
func exitedAt(at time.Time) func(*observation) { return func(o *observation) { o.exitedAt = at } }
func reportedAt(at time.Time) func(*observation) {
	return func(o *observation) { o.pendingReportedAt = at }
}
func dueAt(at time.Time) func(*observation) {
	return func(o *observation) { o.podDueAt = at }
}

type planCase struct {
	observation  *observation
	want         step
	requeueAfter time.Duration // after noon, 0 for never
}

func TestPlanProvision(t *testing.T) {
	runPlanCases(t, map[string]planCase{
		"new":               {given(podstatus.Missing, unregistered), stepProvision, 0},
		"being provisioned": {given(podstatus.Missing, unregistered, provisioning), stepWait, 0},
		// The client repeats a request that got no answer: what is deleted before that comes back, with a used JIT config.
		"pod over before the answer":     {given(podstatus.Succeeded, provisioning), stepWait, 0},
		"job over before the answer":     {given(podstatus.Succeeded, provisioning, completed), stepWait, 0},
		"pod gone before the answer":     {given(podstatus.Missing, provisioning, completed), stepWait, 0},
		"pod failed before the answer":   {given(podstatus.Failed, provisioning, agreed), stepWait, 0},
		"pod made, not seen":             {given(podstatus.Missing, provisioned), stepWait, unseenTimeout},
		"pod made, never seen":           {given(podstatus.Missing, provisioned, after(unseenTimeout)), stepDeregister, 0},
		"refused, reported":              {given(podstatus.Missing, provisioningFailed(calls.Temporary, noon.Add(time.Second)), reported), stepWait, time.Second},
		"refused, new":                   {given(podstatus.Missing, provisioningFailed(calls.Temporary, noon.Add(time.Second))), stepReportPending, time.Second},
		"refused in other words":         {given(podstatus.Missing, provisioningFailed(calls.Temporary, noon.Add(time.Second)), reportedInOtherWords, reportedAt(noon)), stepWait, time.Second},
		"refused in other words, long":   {given(podstatus.Missing, provisioningFailed(calls.Temporary, noon.Add(time.Second)), reportedInOtherWords, reportedAt(noon.Add(-rewordPeriod))), stepReportPending, time.Second},
		"refused, pause over":            {given(podstatus.Missing, unregistered, provisioningFailed(calls.Temporary, noon)), stepProvision, 0},
		"refused after registration":     {given(podstatus.Missing, provisioningFailed(calls.Temporary, noon)), stepProvision, 0},
		"pod is not valid":               {given(podstatus.Missing, provisioningFailed(calls.Invalid, noon)), stepFail, 0},
		"name is somebody else's":        {given(podstatus.Missing, provisioningFailed(calls.NameTaken, noon)), stepReplace, 0},
		"lost its pod, has a job":        {given(podstatus.Missing, unregistered, provisioningFailed(calls.Busy, noon.Add(time.Minute))), stepFailBusy, 0},
		"after a restart and a failure":  {given(podstatus.Missing, unregistered, failedTimes(1, noon.Add(-time.Hour))), stepProvision, 0},
		"namespace is being deleted":     {given(podstatus.Missing, provisioningFailed(calls.Closed, noon)), stepWait, 0},
		"after a failure, pause":         {given(podstatus.Missing, failedTimes(2, noon)), stepWait, 10 * time.Second},
		"after a failure, pause over":    {given(podstatus.Missing, failedTimes(2, noon), after(10*time.Second)), stepProvision, 0},
		"failure dated in the future":    {given(podstatus.Missing, failedTimes(2, noon), after(-3*time.Hour)), stepProvision, 0},
		"after five failures":            {given(podstatus.Missing, failedTimes(5, noon)), stepWait, 80 * time.Second},
		"noted pod is to go":             {given(podstatus.NeverStarted, failureIsNoted), stepDeleteFailedPod, 0},
		"noted pod is on its way out":    {given(podstatus.NeverStarted, failureIsNoted, dueAt(noon.Add(time.Minute))), stepDeleteFailedPod, time.Minute},
		"noted pod stays":                {given(podstatus.NeverStarted, failureIsNoted, dueAt(noon)), stepFail, 0},
		"pod vanished before its start":  {given(podstatus.Missing, hadPod), stepDeregister, 0},
		"pod vanished after its start":   {given(podstatus.Missing, hadPod, seenUp), stepDeregister, 0},
		"restart: pod of a running one":  {given(podstatus.Missing, runningReported), stepDeregister, 0},
		"restart: pod of one with a job": {given(podstatus.Missing, withJob), stepFail, 0},
		"job seen before its pod":        {given(podstatus.Missing, provisioned, withJob), stepWait, unseenTimeout},
		"job seen, answer to pod lost":   {given(podstatus.Missing, provisioningFailed(calls.Temporary, noon), withJob), stepWait, unseenTimeout},
		"no container to be the runner":  {given(podstatus.Missing, unregistered, withoutRunner), stepFail, 0},
		"job seen, its pod never":        {given(podstatus.Missing, provisioned, withJob, after(unseenTimeout)), stepFail, 0},
	})
}

func TestPlanOutcomes(t *testing.T) {
	runPlanCases(t, map[string]planCase{
		"exit 0":                               {given(podstatus.Succeeded), stepExited, reportGracePeriod},
		"exit 0, waits for the report":         {given(podstatus.Missing, exitedAt(noon)), stepWait, reportGracePeriod},
		"exit 0, reported":                     {given(podstatus.Missing, exitedAt(noon), completed), stepDeleteRunner, 0},
		"exit 0, GitHub is asked":              {given(podstatus.Missing, exitedAt(noon), asking, after(reportGracePeriod)), stepWait, 0},
		"exit 0, then deregistered":            {given(podstatus.Missing, exitedAt(noon), agreed), stepReregister, 0},
		"exit 0, GitHub is away":               {given(podstatus.Missing, exitedAt(noon), removalFailed(calls.Temporary, noon), after(reportGracePeriod)), stepSucceed, 0},
		"exit 0, reported before":              {given(podstatus.Succeeded, completed), stepDeleteRunner, 0},
		"exit 0, no report":                    {given(podstatus.Missing, exitedAt(noon), after(reportGracePeriod)), stepSucceed, 0},
		"exit 0, evicted":                      {given(podstatus.Succeeded, drained), stepDeregister, 0},
		"exit 0, evicted, GitHub agreed":       {given(podstatus.Succeeded, drained, agreed), stepReregister, 0},
		"exit 0, evicted, GitHub says busy":    {given(podstatus.Succeeded, drained, removalFailed(calls.Busy, noon.Add(calls.BusyRetryAfter))), stepFailBusy, 0},
		"exit 0, evicted, has a job":           {given(podstatus.Succeeded, drained, withJob), stepExited, reportGracePeriod},
		"exit 7":                               {given(podstatus.Failed, outdated), stepOutdate, 0},
		"blocked":                              {given(podstatus.Blocked), stepDeregister, 0},
		"blocked, GitHub is asked":             {given(podstatus.Blocked, asking), stepWait, 0},
		"blocked, deregistered":                {given(podstatus.Blocked, agreed), stepReregister, 0},
		"blocked, busy by GitHub's word":       {given(podstatus.Blocked, removalFailed(calls.Busy, noon.Add(calls.BusyRetryAfter))), stepReportPending, calls.BusyRetryAfter},
		"blocked by the pod's late status":     {given(podstatus.Blocked, withJob), stepWait, 0},
		"not created yet":                      {given(podstatus.Blocked, passing), stepWait, createContainerTimeout},
		"not created for long":                 {given(podstatus.Blocked, passing, after(createContainerTimeout)), stepDeregister, 0},
		"not created, has a job":               {given(podstatus.Blocked, passing, withJob), stepWait, 0},
		"started when it was deregistered":     {given(podstatus.Running, agreed), stepReregister, 0},
		"exited because it was deregistered":   {given(podstatus.Succeeded, agreed), stepReregister, 0},
		"never started":                        {given(podstatus.NeverStarted), stepRetry, 0},
		"never started, fifth time":            {given(podstatus.NeverStarted, failedTimes(4, noon)), stepRetry, 0},
		"never started, sixth time":            {given(podstatus.NeverStarted, failedTimes(5, noon)), stepFail, 0},
		"never started, GitHub is asked":       {given(podstatus.NeverStarted, asking), stepWait, 0},
		"never started, deregistered":          {given(podstatus.NeverStarted, agreed), stepReregister, 0},
		"never started, busy by GitHub's word": {given(podstatus.NeverStarted, removalFailed(calls.Busy, noon.Add(calls.BusyRetryAfter))), stepFailBusy, 0},
		"never started, GitHub was away":       {given(podstatus.NeverStarted, removalFailed(calls.Temporary, noon)), stepDeregister, 0},
		"says never started, was seen up":      {given(podstatus.NeverStarted, seenUp), stepDeregister, 0},
		"says never started, has a job":        {given(podstatus.NeverStarted, withJob), stepFail, 0},
		"says never started, job completed":    {given(podstatus.NeverStarted, completed), stepDeleteRunner, 0},
		"failed, no job known":                 {given(podstatus.Failed), stepDeregister, 0},
		"failed, GitHub is being asked":        {given(podstatus.Failed, asking), stepWait, 0},
		"failed, GitHub agreed":                {given(podstatus.Failed, agreed), stepReregister, 0},
		"failed, GitHub agreed, sixth time":    {given(podstatus.Failed, agreed, failedTimes(5, noon)), stepFail, 0},
		"evicted after long, sixth time":       {given(podstatus.Failed, agreed, drained, seenUp, endedAt(noon), failedTimes(5, noon)), stepReregister, 0},
		"evicted at once, sixth time":          {given(podstatus.Failed, agreed, drained, seenUp, endedAt(noon.Add(-time.Second)), failedTimes(5, noon)), stepReregister, 0},
		"evicted before its start, sixth time": {given(podstatus.NeverStarted, drained, failedTimes(5, noon)), stepRetry, 0},
		"past its deadline early, sixth time":  {given(podstatus.Failed, agreed, overdue, seenUp, endedAt(noon.Add(-time.Second)), failedTimes(5, noon)), stepFail, 0},
		"past its deadline later, sixth time":  {given(podstatus.Failed, agreed, overdue, seenUp, endedAt(noon), failedTimes(5, noon)), stepReregister, 0},
		"crashed after long, sixth time":       {given(podstatus.Failed, agreed, seenUp, endedAt(noon), failedTimes(5, noon)), stepFail, 0},
		"failed, GitHub says busy":             {given(podstatus.Failed, removalFailed(calls.Busy, noon.Add(calls.BusyRetryAfter))), stepFailBusy, 0},
		"failed, GitHub is away":               {given(podstatus.Failed, removalFailed(calls.Temporary, noon.Add(time.Second))), stepReportPending, time.Second},
		"failed, GitHub was away":              {given(podstatus.Failed, removalFailed(calls.Temporary, noon)), stepDeregister, 0},
		"failed with a job":                    {given(podstatus.Failed, withJob), stepFail, 0},
		"failed, job completed":                {given(podstatus.Failed, completed), stepDeleteRunner, 0},
		"runs, not said":                       {given(podstatus.Running), stepReportRunning, 0},
		"runs, said":                           {given(podstatus.Running, allReported), stepWait, 0},
		"runs, said without id":                {given(podstatus.Running, runningReported), stepReportRunning, 0},
		"runs, id unknown":                     {given(podstatus.Running, unregistered, runningReported, func(o *observation) { o.runner.Status.Ready = true }), stepWait, 0},
		"runs, about to be ready":              {given(podstatus.Running, notReady, func(o *observation) { o.startedAt = noon }), stepWait, readyTimeout},
		"runs, not ready for long":             {given(podstatus.Running, notReady, seenUp), stepReportRunning, 0},
		"runs, no longer ready":                {given(podstatus.Running, notReady, allReported), stepReportRunning, 0},
		"runs, sidecar died":                   {given(podstatus.Running, allReported, sidecarDied), stepReportSidecar, 0},
		"runs, sidecar died, reported":         {given(podstatus.Running, allReported, sidecarDied, func(o *observation) { o.sidecarReported = true }), stepWait, 0},
		"runs on after its job":                {given(podstatus.Running, allReported, completed), stepWait, 0},
		"pending":                              {given(podstatus.Pending, because("ContainerCreating")), stepWait, defaultPendingTimeout},
		"init containers run":                  {given(podstatus.Pending, because("PodInitializing"), after(explainAfter)), stepWait, defaultPendingTimeout},
		"a sidecar crashes":                    {given(podstatus.Pending, because("CrashLoopBackOff")), stepWait, explainAfter},
		"a sidecar crashes for half a minute":  {given(podstatus.Pending, because("CrashLoopBackOff"), after(explainAfter)), stepReportPending, defaultPendingTimeout},
		"a sidecar crashes, reported":          {given(podstatus.Pending, after(explainAfter), because("Refused"), reported, reportedAt(noon)), stepWait, defaultPendingTimeout},
		"pending too long":                     {given(podstatus.Pending, after(defaultPendingTimeout)), stepDeregister, 0},
		"pending too long, agreed":             {given(podstatus.Pending, after(defaultPendingTimeout), agreed), stepReregister, 0},
		"pending too long, busy":               {given(podstatus.Pending, after(defaultPendingTimeout), removalFailed(calls.Busy, noon.Add(time.Hour)), reported), stepWait, time.Hour},
		"pending too long, has a job":          {given(podstatus.Pending, after(defaultPendingTimeout), withJob), stepWait, 0},
		"unschedulable too long":               {given(podstatus.Pending, after(defaultPendingTimeout), unbound), stepReportPending, 0},
		"pending, timeout of its own":          {given(podstatus.Pending, because("ContainerCreating"), timeoutOf(time.Minute)), stepWait, time.Minute},
		"a sidecar crashes, shorter timeout":   {given(podstatus.Pending, because("CrashLoopBackOff"), timeoutOf(time.Second)), stepWait, time.Second},
		"pending too long, timeout of its own": {given(podstatus.Pending, timeoutOf(time.Minute), after(time.Minute)), stepDeregister, 0},
	})
}

func because(reason string) func(*observation) { return func(o *observation) { o.pod.Reason = reason } }

func timeoutOf(d time.Duration) func(*observation) {
	return func(o *observation) { o.runner.Spec.PendingTimeout = &metav1.Duration{Duration: d} }
}

func runPlanCases(t *testing.T, cases map[string]planCase) {
	for title, test := range cases {
		t.Run(title, func(t *testing.T) {
			got := plan(test.observation)
			if got.step != test.want {
				t.Errorf("step %d (%s: %s), want %d", got.step, got.reason, got.message, test.want)
			}
			var requeueAt time.Time
			if test.requeueAfter != 0 {
				requeueAt = noon.Add(test.requeueAfter)
			}
			if !got.requeueAt.Equal(requeueAt) {
				t.Errorf("requeue at %s, want %s", got.requeueAt, requeueAt)
			}
		})
	}
}
