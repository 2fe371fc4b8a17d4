package ephemeralrunner

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// given returns a situation at noon with the pod in a state.
func given(state podState, change ...func(*situation)) *situation {
	s := &situation{
		runner: newRunner(), now: noon, started: noon, bound: true, registration: 7, hadPod: state != podMissing,
		pod: outcome{state: state, ready: true, reason: "Reason", message: "message"},
	}
	for _, c := range change {
		c(s)
	}
	return s
}

func failedTimes(n int, last time.Time) func(*situation) {
	return func(s *situation) {
		s.runner.Status.Failures = map[string]metav1.Time{}
		for i := range n {
			s.runner.Status.Failures[fmt.Sprint(i)] = metav1.NewTime(last.Add(time.Duration(i-n+1) * time.Hour))
		}
	}
}

func provisioningFailed(kind failureKind, due time.Time) func(*situation) {
	return func(s *situation) {
		s.provisioning = progress{known: true, failure: &failure{kind: kind, reason: "Refused", message: "no"}, finished: noon, due: due}
	}
}

func removalFailed(kind failureKind, due time.Time) func(*situation) {
	return func(s *situation) {
		s.removal = progress{known: true, failure: &failure{kind: kind, reason: "Refused", message: "no"}, due: due}
	}
}

var (
	withJob       = func(s *situation) { s.runner.Status.JobID = "job" }
	completed     = func(s *situation) { s.runner.Status.JobID, s.runner.Status.JobResult = "job", "succeeded" }
	saidRunning   = func(s *situation) { s.runner.Status.Phase = v1alpha1.EphemeralRunnerPhaseRunning }
	allSaid       = func(s *situation) { saidRunning(s); s.runner.Status.Ready, s.runner.Status.RunnerID = true, 7 }
	agreed        = func(s *situation) { s.removal = progress{known: true} }
	asking        = func(s *situation) { s.removal = progress{known: true, running: true} }
	provisioning  = func(s *situation) { s.provisioning = progress{known: true, running: true} }
	provisioned   = func(s *situation) { s.provisioning = progress{known: true, finished: noon} }
	counted       = func(s *situation) { s.counted = true }
	hadPod        = func(s *situation) { s.hadPod = true }
	seenUp        = func(s *situation) { s.up = noon.Add(-time.Minute) }
	notReady      = func(s *situation) { s.pod.ready = false }
	unregistered  = func(s *situation) { s.registration = 0 }
	unbound       = func(s *situation) { s.bound = false }
	told          = func(s *situation) { s.runner.Status.Reason, s.runner.Status.Message = "Refused", "no" }
	toldOtherwise = func(s *situation) { s.runner.Status.Reason, s.runner.Status.Message = "Refused", "other words" }
	withoutRunner = func(s *situation) { s.runner.Spec.PodSpec.Containers[0].Name = "main" }
	sidecarDied   = func(s *situation) { s.pod.sidecar = "dind died" }
)

func after(d time.Duration) func(*situation) { return func(s *situation) { s.now = noon.Add(d) } }
func drained(s *situation)                   { s.pod.disrupted = true }
func passing(s *situation)                   { s.pod.passing, s.blocked = true, noon }
func exitedAt(at time.Time) func(*situation) { return func(s *situation) { s.exited = at } }
func toldAt(at time.Time) func(*situation)   { return func(s *situation) { s.told = at } }
func terminatingSince(at time.Time) func(*situation) {
	return func(s *situation) { s.noted, s.terminating = at, at }
}

type planCase struct {
	situation *situation
	want      step
	again     time.Duration // after noon, 0 for never
}

func TestPlanProvision(t *testing.T) {
	runPlanCases(t, map[string]planCase{
		"new":               {given(podMissing, unregistered), stepProvision, 0},
		"being provisioned": {given(podMissing, unregistered, provisioning), stepWait, 0},
		// The client makes a request again that had no answer: what goes before that comes again, with a JIT config that is used.
		"pod over before the answer":     {given(podSucceeded, provisioning), stepWait, 0},
		"job over before the answer":     {given(podSucceeded, provisioning, completed), stepWait, 0},
		"pod gone before the answer":     {given(podMissing, provisioning, completed), stepWait, 0},
		"pod failed before the answer":   {given(podFailed, provisioning, agreed), stepWait, 0},
		"pod made, not seen":             {given(podMissing, provisioned), stepWait, unseenAtMost},
		"pod made, never seen":           {given(podMissing, provisioned, after(unseenAtMost)), stepDeregister, 0},
		"refused, told":                  {given(podMissing, provisioningFailed(failureTemporary, noon.Add(time.Second)), told), stepWait, time.Second},
		"refused, new":                   {given(podMissing, provisioningFailed(failureTemporary, noon.Add(time.Second))), stepReportPending, time.Second},
		"refused in other words":         {given(podMissing, provisioningFailed(failureTemporary, noon.Add(time.Second)), toldOtherwise, toldAt(noon)), stepWait, time.Second},
		"refused in other words, long":   {given(podMissing, provisioningFailed(failureTemporary, noon.Add(time.Second)), toldOtherwise, toldAt(noon.Add(-rewordPause))), stepReportPending, time.Second},
		"refused, pause over":            {given(podMissing, unregistered, provisioningFailed(failureTemporary, noon)), stepProvision, 0},
		"refused after registration":     {given(podMissing, provisioningFailed(failureTemporary, noon)), stepProvisionAgain, 0},
		"pod is not valid":               {given(podMissing, provisioningFailed(failureInvalid, noon)), stepFail, 0},
		"name is somebody else's":        {given(podMissing, provisioningFailed(failureNameTaken, noon)), stepReplace, 0},
		"lost its pod, has a job":        {given(podMissing, unregistered, provisioningFailed(failureBusy, noon.Add(time.Minute))), stepFailBusy, 0},
		"after a restart and a failure":  {given(podMissing, unregistered, failedTimes(1, noon.Add(-time.Hour))), stepProvision, 0},
		"namespace is being deleted":     {given(podMissing, provisioningFailed(failureClosed, noon)), stepWait, 0},
		"after a failure, pause":         {given(podMissing, failedTimes(2, noon)), stepWait, 10 * time.Second},
		"after a failure, pause over":    {given(podMissing, failedTimes(2, noon), after(10*time.Second)), stepProvisionAgain, 0},
		"failure dated in the future":    {given(podMissing, failedTimes(2, noon), after(-3*time.Hour)), stepProvisionAgain, 0},
		"after five failures":            {given(podMissing, failedTimes(5, noon)), stepWait, 80 * time.Second},
		"noted pod is to go":             {given(podNeverStarted, counted), stepDiscard, 0},
		"noted pod is on its way out":    {given(podNeverStarted, counted, terminatingSince(noon)), stepDiscard, defaultPendingTimeout},
		"noted pod stays":                {given(podNeverStarted, counted, terminatingSince(noon), after(defaultPendingTimeout)), stepFail, 0},
		"noted pod stays, short timeout": {given(podRunning, counted, terminatingSince(noon), timeoutOf(time.Second), after(2*time.Second)), stepDiscard, stuckAfter},
		"pod vanished before its start":  {given(podMissing, hadPod), stepDeregister, 0},
		"pod vanished after its start":   {given(podMissing, hadPod, seenUp), stepDeregister, 0},
		"restart: pod of a running one":  {given(podMissing, saidRunning), stepDeregister, 0},
		"restart: pod of one with a job": {given(podMissing, withJob), stepFail, 0},
		"job seen before its pod":        {given(podMissing, provisioned, withJob), stepWait, unseenAtMost},
		"job seen, answer to pod lost":   {given(podMissing, provisioningFailed(failureTemporary, noon), withJob), stepWait, unseenAtMost},
		"no container to be the runner":  {given(podMissing, unregistered, withoutRunner), stepFail, 0},
		"job seen, its pod never":        {given(podMissing, provisioned, withJob, after(unseenAtMost)), stepFail, 0},
	})
}

func TestPlanOutcomes(t *testing.T) {
	runPlanCases(t, map[string]planCase{
		"exit 0":                               {given(podSucceeded), stepClear, settle},
		"exit 0, waits for the report":         {given(podMissing, exitedAt(noon)), stepWait, settle},
		"exit 0, reported":                     {given(podMissing, exitedAt(noon), completed), stepRemove, 0},
		"exit 0, GitHub is asked":              {given(podMissing, exitedAt(noon), asking, after(settle)), stepWait, 0},
		"exit 0, then deregistered":            {given(podMissing, exitedAt(noon), agreed), stepRetryAnew, 0},
		"exit 0, GitHub is away":               {given(podMissing, exitedAt(noon), removalFailed(failureTemporary, noon), after(settle)), stepSucceed, 0},
		"exit 0, reported before":              {given(podSucceeded, completed), stepRemove, 0},
		"exit 0, no report":                    {given(podMissing, exitedAt(noon), after(settle)), stepSucceed, 0},
		"exit 0, evicted":                      {given(podSucceeded, drained), stepDeregister, 0},
		"exit 0, evicted, GitHub agreed":       {given(podSucceeded, drained, agreed), stepRetryAnew, 0},
		"exit 0, evicted, GitHub says busy":    {given(podSucceeded, drained, removalFailed(failureBusy, noon.Add(busyRetry))), stepFailBusy, 0},
		"exit 0, evicted, has a job":           {given(podSucceeded, drained, withJob), stepClear, settle},
		"exit 7":                               {given(podOutdated), stepOutdate, 0},
		"blocked":                              {given(podBlocked), stepDeregister, 0},
		"blocked, GitHub is asked":             {given(podBlocked, asking), stepWait, 0},
		"blocked, deregistered":                {given(podBlocked, agreed), stepRetryAnew, 0},
		"blocked, busy by GitHub's word":       {given(podBlocked, removalFailed(failureBusy, noon.Add(busyRetry))), stepReportPending, busyRetry},
		"blocked by the pod's late status":     {given(podBlocked, withJob), stepWait, 0},
		"not created yet":                      {given(podBlocked, passing), stepWait, containerPatience},
		"not created for long":                 {given(podBlocked, passing, after(containerPatience)), stepDeregister, 0},
		"not created, has a job":               {given(podBlocked, passing, withJob), stepWait, 0},
		"started when it was deregistered":     {given(podRunning, agreed), stepRetryAnew, 0},
		"exited because it was deregistered":   {given(podSucceeded, agreed), stepRetryAnew, 0},
		"never started":                        {given(podNeverStarted), stepRetry, 0},
		"never started, fifth time":            {given(podNeverStarted, failedTimes(4, noon)), stepRetry, 0},
		"never started, sixth time":            {given(podNeverStarted, failedTimes(5, noon)), stepFail, 0},
		"never started, GitHub is asked":       {given(podNeverStarted, asking), stepWait, 0},
		"never started, deregistered":          {given(podNeverStarted, agreed), stepRetryAnew, 0},
		"never started, busy by GitHub's word": {given(podNeverStarted, removalFailed(failureBusy, noon.Add(busyRetry))), stepFailBusy, 0},
		"never started, GitHub was away":       {given(podNeverStarted, removalFailed(failureTemporary, noon)), stepDeregister, 0},
		"says never started, was seen up":      {given(podNeverStarted, seenUp), stepDeregister, 0},
		"says never started, has a job":        {given(podNeverStarted, withJob), stepFail, 0},
		"says never started, job completed":    {given(podNeverStarted, completed), stepRemove, 0},
		"failed, no job known":                 {given(podFailed), stepDeregister, 0},
		"failed, GitHub is being asked":        {given(podFailed, asking), stepWait, 0},
		"failed, GitHub agreed":                {given(podFailed, agreed), stepRetryAnew, 0},
		"failed, GitHub agreed, sixth time":    {given(podFailed, agreed, failedTimes(5, noon)), stepFail, 0},
		"failed, GitHub says busy":             {given(podFailed, removalFailed(failureBusy, noon.Add(busyRetry))), stepFailBusy, 0},
		"failed, GitHub is away":               {given(podFailed, removalFailed(failureTemporary, noon.Add(time.Second))), stepReportPending, time.Second},
		"failed, GitHub was away":              {given(podFailed, removalFailed(failureTemporary, noon)), stepDeregister, 0},
		"failed with a job":                    {given(podFailed, withJob), stepFail, 0},
		"failed, job completed":                {given(podFailed, completed), stepRemove, 0},
		"runs, not said":                       {given(podRunning), stepReportRunning, 0},
		"runs, said":                           {given(podRunning, allSaid), stepWait, 0},
		"runs, said without id":                {given(podRunning, saidRunning), stepReportRunning, 0},
		"runs, id unknown":                     {given(podRunning, unregistered, saidRunning, func(s *situation) { s.runner.Status.Ready = true }), stepWait, 0},
		"runs, about to be ready":              {given(podRunning, notReady, func(s *situation) { s.up = noon }), stepWait, readyPatience},
		"runs, not ready for long":             {given(podRunning, notReady, seenUp), stepReportRunning, 0},
		"runs, no longer ready":                {given(podRunning, notReady, allSaid), stepReportRunning, 0},
		"runs, sidecar died":                   {given(podRunning, allSaid, sidecarDied), stepReportSidecar, 0},
		"runs, sidecar died, told":             {given(podRunning, allSaid, sidecarDied, func(s *situation) { s.sidecarTold = true }), stepWait, 0},
		"runs on after its job":                {given(podRunning, allSaid, completed), stepWait, 0},
		"pending":                              {given(podPending), stepWait, defaultPendingTimeout},
		"pending too long":                     {given(podPending, after(defaultPendingTimeout)), stepDeregister, 0},
		"pending too long, agreed":             {given(podPending, after(defaultPendingTimeout), agreed), stepRetryAnew, 0},
		"pending too long, busy":               {given(podPending, after(defaultPendingTimeout), removalFailed(failureBusy, noon.Add(time.Hour)), told), stepWait, time.Hour},
		"pending too long, has a job":          {given(podPending, after(defaultPendingTimeout), withJob), stepWait, 0},
		"unschedulable too long":               {given(podPending, after(defaultPendingTimeout), unbound), stepReportPending, 0},
		"pending, timeout of its own":          {given(podPending, timeoutOf(time.Minute)), stepWait, time.Minute},
		"pending too long, timeout of its own": {given(podPending, timeoutOf(time.Minute), after(time.Minute)), stepDeregister, 0},
	})
}

func timeoutOf(d time.Duration) func(*situation) {
	return func(s *situation) { s.runner.Spec.PendingTimeout = &metav1.Duration{Duration: d} }
}

func runPlanCases(t *testing.T, cases map[string]planCase) {
	for title, test := range cases {
		t.Run(title, func(t *testing.T) {
			got := plan(test.situation)
			if got.step != test.want {
				t.Errorf("step %d (%s: %s), want %d", got.step, got.reason, got.message, test.want)
			}
			var again time.Time
			if test.again != 0 {
				again = noon.Add(test.again)
			}
			if !got.again.Equal(again) {
				t.Errorf("again at %s, want %s", got.again, again)
			}
		})
	}
}
