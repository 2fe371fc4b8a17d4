package ephemeralrunner

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

// given returns an observation at noon with the pod in a state.
func given(state podState, change ...func(*observation)) *observation {
	o := &observation{
		runner: newRunner(), now: noon, startableAt: noon, bound: true, runnerID: 7, hadPod: state != podMissing,
		pod: outcome{state: state, ready: true, reason: "Reason", message: "message"},
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

func provisioningFailed(kind failureKind, due time.Time) func(*observation) {
	return func(o *observation) {
		o.provisioning = progress{known: true, failure: &failure{kind: kind, reason: "Refused", message: "no"}, finishedAt: noon, retryAt: due}
	}
}

func removalFailed(kind failureKind, due time.Time) func(*observation) {
	return func(o *observation) {
		o.removal = progress{known: true, failure: &failure{kind: kind, reason: "Refused", message: "no"}, retryAt: due}
	}
}

var (
	withJob              = func(o *observation) { o.runner.Status.JobID = "job" }
	completed            = func(o *observation) { o.runner.Status.JobID, o.runner.Status.JobResult = "job", "succeeded" }
	runningReported      = func(o *observation) { o.runner.Status.Phase = v1alpha1.EphemeralRunnerPhaseRunning }
	allReported          = func(o *observation) { runningReported(o); o.runner.Status.Ready, o.runner.Status.RunnerID = true, 7 }
	agreed               = func(o *observation) { o.removal = progress{known: true} }
	asking               = func(o *observation) { o.removal = progress{known: true, running: true} }
	provisioning         = func(o *observation) { o.provisioning = progress{known: true, running: true} }
	provisioned          = func(o *observation) { o.provisioning = progress{known: true, finishedAt: noon} }
	failureIsNoted       = func(o *observation) { o.failureNoted = true }
	hadPod               = func(o *observation) { o.hadPod = true }
	seenUp               = func(o *observation) { o.startedAt = noon.Add(-time.Minute) }
	notReady             = func(o *observation) { o.pod.ready = false }
	unregistered         = func(o *observation) { o.runnerID = 0 }
	unbound              = func(o *observation) { o.bound = false }
	reported             = func(o *observation) { o.runner.Status.Reason, o.runner.Status.Message = "Refused", "no" }
	reportedInOtherWords = func(o *observation) { o.runner.Status.Reason, o.runner.Status.Message = "Refused", "other words" }
	withoutRunner        = func(o *observation) { o.runner.Spec.PodSpec.Containers[0].Name = "main" }
	sidecarDied          = func(o *observation) { o.pod.sidecar = "dind died" }
)

func after(d time.Duration) func(*observation) { return func(o *observation) { o.now = noon.Add(d) } }
func drained(o *observation)                   { o.pod.outside, o.pod.fault = true, podstatus.FaultDisruption }
func overdue(o *observation)                   { o.pod.outside = true }
func passing(o *observation)                   { o.pod.passing, o.blockedAt = true, noon }
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
		"new":               {given(podMissing, unregistered), stepProvision, 0},
		"being provisioned": {given(podMissing, unregistered, provisioning), stepWait, 0},
		// The client repeats a request that got no answer: what is deleted before that comes back, with a used JIT config.
		"pod over before the answer":     {given(podSucceeded, provisioning), stepWait, 0},
		"job over before the answer":     {given(podSucceeded, provisioning, completed), stepWait, 0},
		"pod gone before the answer":     {given(podMissing, provisioning, completed), stepWait, 0},
		"pod failed before the answer":   {given(podFailed, provisioning, agreed), stepWait, 0},
		"pod made, not seen":             {given(podMissing, provisioned), stepWait, unseenTimeout},
		"pod made, never seen":           {given(podMissing, provisioned, after(unseenTimeout)), stepDeregister, 0},
		"refused, reported":              {given(podMissing, provisioningFailed(failureTemporary, noon.Add(time.Second)), reported), stepWait, time.Second},
		"refused, new":                   {given(podMissing, provisioningFailed(failureTemporary, noon.Add(time.Second))), stepReportPending, time.Second},
		"refused in other words":         {given(podMissing, provisioningFailed(failureTemporary, noon.Add(time.Second)), reportedInOtherWords, reportedAt(noon)), stepWait, time.Second},
		"refused in other words, long":   {given(podMissing, provisioningFailed(failureTemporary, noon.Add(time.Second)), reportedInOtherWords, reportedAt(noon.Add(-rewordPeriod))), stepReportPending, time.Second},
		"refused, pause over":            {given(podMissing, unregistered, provisioningFailed(failureTemporary, noon)), stepProvision, 0},
		"refused after registration":     {given(podMissing, provisioningFailed(failureTemporary, noon)), stepProvision, 0},
		"pod is not valid":               {given(podMissing, provisioningFailed(failureInvalid, noon)), stepFail, 0},
		"name is somebody else's":        {given(podMissing, provisioningFailed(failureNameTaken, noon)), stepReplace, 0},
		"lost its pod, has a job":        {given(podMissing, unregistered, provisioningFailed(failureBusy, noon.Add(time.Minute))), stepFailBusy, 0},
		"after a restart and a failure":  {given(podMissing, unregistered, failedTimes(1, noon.Add(-time.Hour))), stepProvision, 0},
		"namespace is being deleted":     {given(podMissing, provisioningFailed(failureClosed, noon)), stepWait, 0},
		"after a failure, pause":         {given(podMissing, failedTimes(2, noon)), stepWait, 10 * time.Second},
		"after a failure, pause over":    {given(podMissing, failedTimes(2, noon), after(10*time.Second)), stepProvision, 0},
		"failure dated in the future":    {given(podMissing, failedTimes(2, noon), after(-3*time.Hour)), stepProvision, 0},
		"after five failures":            {given(podMissing, failedTimes(5, noon)), stepWait, 80 * time.Second},
		"noted pod is to go":             {given(podNeverStarted, failureIsNoted), stepDeleteFailedPod, 0},
		"noted pod is on its way out":    {given(podNeverStarted, failureIsNoted, dueAt(noon.Add(time.Minute))), stepDeleteFailedPod, time.Minute},
		"noted pod stays":                {given(podNeverStarted, failureIsNoted, dueAt(noon)), stepFail, 0},
		"pod vanished before its start":  {given(podMissing, hadPod), stepDeregister, 0},
		"pod vanished after its start":   {given(podMissing, hadPod, seenUp), stepDeregister, 0},
		"restart: pod of a running one":  {given(podMissing, runningReported), stepDeregister, 0},
		"restart: pod of one with a job": {given(podMissing, withJob), stepFail, 0},
		"job seen before its pod":        {given(podMissing, provisioned, withJob), stepWait, unseenTimeout},
		"job seen, answer to pod lost":   {given(podMissing, provisioningFailed(failureTemporary, noon), withJob), stepWait, unseenTimeout},
		"no container to be the runner":  {given(podMissing, unregistered, withoutRunner), stepFail, 0},
		"job seen, its pod never":        {given(podMissing, provisioned, withJob, after(unseenTimeout)), stepFail, 0},
	})
}

func TestPlanOutcomes(t *testing.T) {
	runPlanCases(t, map[string]planCase{
		"exit 0":                               {given(podSucceeded), stepExited, reportGracePeriod},
		"exit 0, waits for the report":         {given(podMissing, exitedAt(noon)), stepWait, reportGracePeriod},
		"exit 0, reported":                     {given(podMissing, exitedAt(noon), completed), stepDeleteRunner, 0},
		"exit 0, GitHub is asked":              {given(podMissing, exitedAt(noon), asking, after(reportGracePeriod)), stepWait, 0},
		"exit 0, then deregistered":            {given(podMissing, exitedAt(noon), agreed), stepReregister, 0},
		"exit 0, GitHub is away":               {given(podMissing, exitedAt(noon), removalFailed(failureTemporary, noon), after(reportGracePeriod)), stepSucceed, 0},
		"exit 0, reported before":              {given(podSucceeded, completed), stepDeleteRunner, 0},
		"exit 0, no report":                    {given(podMissing, exitedAt(noon), after(reportGracePeriod)), stepSucceed, 0},
		"exit 0, evicted":                      {given(podSucceeded, drained), stepDeregister, 0},
		"exit 0, evicted, GitHub agreed":       {given(podSucceeded, drained, agreed), stepReregister, 0},
		"exit 0, evicted, GitHub says busy":    {given(podSucceeded, drained, removalFailed(failureBusy, noon.Add(busyRetryAfter))), stepFailBusy, 0},
		"exit 0, evicted, has a job":           {given(podSucceeded, drained, withJob), stepExited, reportGracePeriod},
		"exit 7":                               {given(podOutdated), stepOutdate, 0},
		"blocked":                              {given(podBlocked), stepDeregister, 0},
		"blocked, GitHub is asked":             {given(podBlocked, asking), stepWait, 0},
		"blocked, deregistered":                {given(podBlocked, agreed), stepReregister, 0},
		"blocked, busy by GitHub's word":       {given(podBlocked, removalFailed(failureBusy, noon.Add(busyRetryAfter))), stepReportPending, busyRetryAfter},
		"blocked by the pod's late status":     {given(podBlocked, withJob), stepWait, 0},
		"not created yet":                      {given(podBlocked, passing), stepWait, createContainerTimeout},
		"not created for long":                 {given(podBlocked, passing, after(createContainerTimeout)), stepDeregister, 0},
		"not created, has a job":               {given(podBlocked, passing, withJob), stepWait, 0},
		"started when it was deregistered":     {given(podRunning, agreed), stepReregister, 0},
		"exited because it was deregistered":   {given(podSucceeded, agreed), stepReregister, 0},
		"never started":                        {given(podNeverStarted), stepRetry, 0},
		"never started, fifth time":            {given(podNeverStarted, failedTimes(4, noon)), stepRetry, 0},
		"never started, sixth time":            {given(podNeverStarted, failedTimes(5, noon)), stepFail, 0},
		"never started, GitHub is asked":       {given(podNeverStarted, asking), stepWait, 0},
		"never started, deregistered":          {given(podNeverStarted, agreed), stepReregister, 0},
		"never started, busy by GitHub's word": {given(podNeverStarted, removalFailed(failureBusy, noon.Add(busyRetryAfter))), stepFailBusy, 0},
		"never started, GitHub was away":       {given(podNeverStarted, removalFailed(failureTemporary, noon)), stepDeregister, 0},
		"says never started, was seen up":      {given(podNeverStarted, seenUp), stepDeregister, 0},
		"says never started, has a job":        {given(podNeverStarted, withJob), stepFail, 0},
		"says never started, job completed":    {given(podNeverStarted, completed), stepDeleteRunner, 0},
		"failed, no job known":                 {given(podFailed), stepDeregister, 0},
		"failed, GitHub is being asked":        {given(podFailed, asking), stepWait, 0},
		"failed, GitHub agreed":                {given(podFailed, agreed), stepReregister, 0},
		"failed, GitHub agreed, sixth time":    {given(podFailed, agreed, failedTimes(5, noon)), stepFail, 0},
		"evicted after long, sixth time":       {given(podFailed, agreed, drained, seenUp, endedAt(noon), failedTimes(5, noon)), stepReregister, 0},
		"evicted at once, sixth time":          {given(podFailed, agreed, drained, seenUp, endedAt(noon.Add(-time.Second)), failedTimes(5, noon)), stepReregister, 0},
		"evicted before its start, sixth time": {given(podNeverStarted, drained, failedTimes(5, noon)), stepRetry, 0},
		"past its deadline early, sixth time":  {given(podFailed, agreed, overdue, seenUp, endedAt(noon.Add(-time.Second)), failedTimes(5, noon)), stepFail, 0},
		"past its deadline later, sixth time":  {given(podFailed, agreed, overdue, seenUp, endedAt(noon), failedTimes(5, noon)), stepReregister, 0},
		"crashed after long, sixth time":       {given(podFailed, agreed, seenUp, endedAt(noon), failedTimes(5, noon)), stepFail, 0},
		"failed, GitHub says busy":             {given(podFailed, removalFailed(failureBusy, noon.Add(busyRetryAfter))), stepFailBusy, 0},
		"failed, GitHub is away":               {given(podFailed, removalFailed(failureTemporary, noon.Add(time.Second))), stepReportPending, time.Second},
		"failed, GitHub was away":              {given(podFailed, removalFailed(failureTemporary, noon)), stepDeregister, 0},
		"failed with a job":                    {given(podFailed, withJob), stepFail, 0},
		"failed, job completed":                {given(podFailed, completed), stepDeleteRunner, 0},
		"runs, not said":                       {given(podRunning), stepReportRunning, 0},
		"runs, said":                           {given(podRunning, allReported), stepWait, 0},
		"runs, said without id":                {given(podRunning, runningReported), stepReportRunning, 0},
		"runs, id unknown":                     {given(podRunning, unregistered, runningReported, func(o *observation) { o.runner.Status.Ready = true }), stepWait, 0},
		"runs, about to be ready":              {given(podRunning, notReady, func(o *observation) { o.startedAt = noon }), stepWait, readyTimeout},
		"runs, not ready for long":             {given(podRunning, notReady, seenUp), stepReportRunning, 0},
		"runs, no longer ready":                {given(podRunning, notReady, allReported), stepReportRunning, 0},
		"runs, sidecar died":                   {given(podRunning, allReported, sidecarDied), stepReportSidecar, 0},
		"runs, sidecar died, reported":         {given(podRunning, allReported, sidecarDied, func(o *observation) { o.sidecarReported = true }), stepWait, 0},
		"runs on after its job":                {given(podRunning, allReported, completed), stepWait, 0},
		"pending":                              {given(podPending, because(waitingForCreation)), stepWait, defaultPendingTimeout},
		"init containers run":                  {given(podPending, because(waitingForInit), after(explainAfter)), stepWait, defaultPendingTimeout},
		"a sidecar crashes":                    {given(podPending, because("CrashLoopBackOff")), stepWait, explainAfter},
		"a sidecar crashes for half a minute":  {given(podPending, because("CrashLoopBackOff"), after(explainAfter)), stepReportPending, defaultPendingTimeout},
		"a sidecar crashes, reported":          {given(podPending, after(explainAfter), because("Refused"), reported, reportedAt(noon)), stepWait, defaultPendingTimeout},
		"pending too long":                     {given(podPending, after(defaultPendingTimeout)), stepDeregister, 0},
		"pending too long, agreed":             {given(podPending, after(defaultPendingTimeout), agreed), stepReregister, 0},
		"pending too long, busy":               {given(podPending, after(defaultPendingTimeout), removalFailed(failureBusy, noon.Add(time.Hour)), reported), stepWait, time.Hour},
		"pending too long, has a job":          {given(podPending, after(defaultPendingTimeout), withJob), stepWait, 0},
		"unschedulable too long":               {given(podPending, after(defaultPendingTimeout), unbound), stepReportPending, 0},
		"pending, timeout of its own":          {given(podPending, because(waitingForCreation), timeoutOf(time.Minute)), stepWait, time.Minute},
		"a sidecar crashes, shorter timeout":   {given(podPending, because("CrashLoopBackOff"), timeoutOf(time.Second)), stepWait, time.Second},
		"pending too long, timeout of its own": {given(podPending, timeoutOf(time.Minute), after(time.Minute)), stepDeregister, 0},
	})
}

func because(reason string) func(*observation) { return func(o *observation) { o.pod.reason = reason } }

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
