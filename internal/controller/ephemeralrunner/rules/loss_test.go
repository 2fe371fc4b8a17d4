package rules_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

// What ends a pod while its job runs.
var (
	crash = podstatus.Ending{Cause: v1alpha1.LostCauseContainerFailed, Message: "container runner exited with code 1"}
	drain = podstatus.Ending{Cause: v1alpha1.LostCauseEvicted, Outside: true, Fault: podstatus.FaultDisruption,
		Message: "the pod was evicted"}
	removal = podstatus.Ending{Cause: v1alpha1.LostCausePodDeleted, Outside: true, Fault: podstatus.FaultDisruption,
		Message: "the pod was deleted by hand"}
	nodeRestart = podstatus.Ending{Cause: v1alpha1.LostCauseUnknown, Fault: podstatus.FaultDisruption,
		Message: "container runner was lost"}
	unseenEnd = podstatus.Ending{Cause: v1alpha1.LostCauseUnknown, Fault: podstatus.FaultDisruption,
		Message: "the pod was gone before the manager saw why"}
	noLoss = podstatus.Ending{}
)

// jobEnd is what is known of a runner's job, and of the end of its pod.
type jobEnd struct {
	status  v1alpha1.EphemeralRunnerStatus
	attempt rules.Attempt
	pod     podstatus.Phase
	ending  podstatus.Ending
	now     time.Time
}

// crashed returns the end of a runner that crashed at noon, an hour ago, with a job of which nothing more is heard.
func crashed(change ...func(*jobEnd)) *jobEnd {
	e := &jobEnd{
		status:  v1alpha1.EphemeralRunnerStatus{JobID: "job", Phase: v1alpha1.EphemeralRunnerPhaseRunning},
		attempt: rules.Attempt{StartedAt: noon.Add(-time.Minute), EndedAt: noon, Ending: podstatus.Failed},
		pod:     podstatus.Failed, ending: crash, now: noon.Add(time.Hour),
	}
	for _, c := range change {
		c(e)
	}
	return e
}

func by(ending podstatus.Ending) func(*jobEnd)  { return func(e *jobEnd) { e.ending = ending } }
func podIs(phase podstatus.Phase) func(*jobEnd) { return func(e *jobEnd) { e.pod = phase } }
func askedAfter(d time.Duration) func(*jobEnd)  { return func(e *jobEnd) { e.now = noon.Add(d) } }
func withoutJob(e *jobEnd)                      { e.status.JobID = "" }
func decided(e *jobEnd)                         { e.status.Phase = v1alpha1.EphemeralRunnerPhaseFailed }
func undatedResult(result string) func(e *jobEnd) {
	return func(e *jobEnd) { e.status.JobResult = result }
}

// dated returns an ending before which, by all that is dated, the container had ended at noon.
func dated(ending podstatus.Ending) podstatus.Ending {
	ending.EndedBy = noon
	return ending
}

// gone has the pod vanish before a pass has seen how its container ended.
func gone(e *jobEnd) { e.pod, e.attempt.Ending = podstatus.Missing, podstatus.Missing }

// exitsWell has the container exit with 0.
func exitsWell(e *jobEnd) { e.pod, e.attempt.Ending = podstatus.Succeeded, podstatus.Succeeded }

// exitedBefore has the pod of a container that exited with 0 go, as Exited does.
func exitedBefore(e *jobEnd) {
	gone(e)
	e.attempt.ExitedAt = noon
}

// result has GitHub report the job's result so long after noon.
func result(said string, later time.Duration) func(*jobEnd) {
	return func(e *jobEnd) {
		e.status.JobResult, e.status.FinishedAt = said, &metav1.Time{Time: noon.Add(later)}
	}
}

type lossCase struct {
	end  *jobEnd
	want podstatus.Ending
	due  time.Duration // after noon, 0 for never
}

func runLossCases(t *testing.T, cases map[string]lossCase) {
	t.Helper()
	for title, test := range cases {
		t.Run(title, func(t *testing.T) {
			e := test.end
			pod := rules.Outcome{State: podstatus.State{Phase: e.pod}}
			lost, due := e.attempt.JobEnd(&e.status, pod, e.ending, e.now).Loss()
			var want time.Time
			if test.due != 0 {
				want = noon.Add(test.due)
			}
			if lost != test.want || !due.Equal(want) {
				t.Errorf("lost to %+v, due %s, want %+v, due %s", lost, due, test.want, want)
			}
		})
	}
}

// A job is lost when its pod has ended and no result came in time. The report of a runner that crashed or was taken
// away may take 5 s, that of one that ended unseen or exited with 0 may take 30 s.
func TestJobWithoutAResultIsLostAfterAWhile(t *testing.T) {
	const second = time.Second
	runLossCases(t, map[string]lossCase{
		"not while its pod runs":                  {crashed(podIs(podstatus.Running), by(drain)), noLoss, 0},
		"not while its pod starts":                {crashed(podIs(podstatus.Pending), by(drain)), noLoss, 0},
		"not if there was none":                   {crashed(withoutJob), noLoss, 0},
		"not if there was none, though evicted":   {crashed(withoutJob, by(drain)), noLoss, 0},
		"not a second time":                       {crashed(decided), noLoss, 0},
		"crashed, 4 s ago":                        {crashed(askedAfter(4 * second)), noLoss, 5 * second},
		"crashed, 5 s ago":                        {crashed(askedAfter(5 * second)), crash, 0},
		"ended, and says that it never started":   {crashed(podIs(podstatus.NeverStarted)), crash, 0},
		"evicted, 4 s ago":                        {crashed(by(drain), askedAfter(4*second)), noLoss, 5 * second},
		"evicted, 5 s ago":                        {crashed(by(drain), askedAfter(5*second)), drain, 0},
		"evicted and gone, 4 s ago":               {crashed(gone, by(drain), askedAfter(4*second)), noLoss, 5 * second},
		"evicted and gone, 5 s ago":               {crashed(gone, by(drain), askedAfter(5*second)), drain, 0},
		"gone unseen, 29 s ago":                   {crashed(gone, by(noLoss), askedAfter(29*second)), noLoss, 30 * second},
		"gone unseen, 30 s ago":                   {crashed(gone, by(noLoss), askedAfter(30*second)), unseenEnd, 0},
		"node restarted, 29 s ago":                {crashed(by(nodeRestart), askedAfter(29*second)), noLoss, 30 * second},
		"node restarted, 30 s ago":                {crashed(by(nodeRestart), askedAfter(30*second)), nodeRestart, 0},
		"evicted, exited with 0 29 s ago":         {crashed(exitsWell, by(drain), askedAfter(29*second)), noLoss, 30 * second},
		"evicted, exited with 0 30 s ago":         {crashed(exitsWell, by(drain), askedAfter(30*second)), drain, 0},
		"evicted, exited with 0, pod gone 29 s":   {crashed(exitedBefore, by(drain), askedAfter(29*second)), noLoss, 30 * second},
		"exited with 0 by itself":                 {crashed(exitsWell, by(noLoss), askedAfter(second)), noLoss, 0},
		"exited with 0 by itself, long ago":       {crashed(exitsWell, by(noLoss)), noLoss, 0},
		"exited with 0 by itself, pod is gone":    {crashed(exitsWell, podIs(podstatus.Missing), by(noLoss)), noLoss, 0},
		"exited with 0 by itself, pod is deleted": {crashed(exitedBefore, by(noLoss)), noLoss, 0},
	})
}

// A result ends the wait. It is that of the runner, unless it says that the job was given up after something had ended
// the pod.
func TestResultThatSaysThatTheJobWasGivenUp(t *testing.T) {
	runLossCases(t, map[string]lossCase{
		"succeeded":                             {crashed(result("succeeded", 0), by(drain)), noLoss, 0},
		"succeeded while its pod went":          {crashed(gone, result("succeeded", 0), by(drain)), noLoss, 0},
		"succeeded a moment ago, runner failed": {crashed(result("succeeded", 0), askedAfter(0)), noLoss, 0},
		"canceled after an eviction":            {crashed(result("canceled", 0), by(drain)), drain, 0},
		"cancelled after an eviction":           {crashed(result("cancelled", 0), by(drain)), drain, 0},
		"Canceled after an eviction":            {crashed(result("Canceled", 0), by(drain)), drain, 0},
		"abandoned after a deletion":            {crashed(gone, result("abandoned", 0), by(removal)), removal, 0},
		"canceled after a crash":                {crashed(result("canceled", 0)), crash, 0},
		"canceled, at once":                     {crashed(result("canceled", 0), by(drain), askedAfter(0)), drain, 0},
		"canceled, nobody knows when":           {crashed(undatedResult("canceled"), by(drain)), drain, 0},
		"evicted, told to stop":                 {crashed(exitsWell, result("canceled", 0), by(drain)), drain, 0},
		"canceled by a person":                  {crashed(exitsWell, result("canceled", 0), by(noLoss)), noLoss, 0},
		"canceled by a person, pod gone":        {crashed(gone, result("canceled", 0), by(noLoss)), noLoss, 0},
	})
}

// GitHub fails a job of whose runner it hears no more. It does so later than the runner could have said so itself: 5 s
// after its end, or 30 s if nobody saw how it ended. If nobody dated that, only an end from outside proves it.
func TestResultThatOnlyGitHubCanHaveGiven(t *testing.T) {
	const second = time.Second
	runLossCases(t, map[string]lossCase{
		"failed 5 s after the crash":           {crashed(by(dated(crash)), result("failed", 5*second)), dated(crash), 0},
		"failure 5 s after the crash":          {crashed(by(dated(crash)), result("failure", 5*second)), dated(crash), 0},
		"Failed 5 s after the crash":           {crashed(by(dated(crash)), result("Failed", 5*second)), dated(crash), 0},
		"failed 4 s after the crash":           {crashed(by(dated(crash)), result("failed", 4*second)), noLoss, 0},
		"failed before the crash":              {crashed(by(dated(crash)), result("failed", -second)), noLoss, 0},
		"succeeded long after the crash":       {crashed(by(dated(crash)), result("succeeded", time.Minute)), noLoss, 0},
		"skipped long after the crash":         {crashed(by(dated(crash)), result("skipped", time.Minute)), noLoss, 0},
		"failed 5 s after the eviction":        {crashed(by(dated(drain)), result("failed", 5*second)), dated(drain), 0},
		"failed 4 s after the eviction":        {crashed(by(dated(drain)), result("failed", 4*second)), noLoss, 0},
		"failed 30 s after its node restarted": {crashed(by(dated(nodeRestart)), result("failed", 30*second)), dated(nodeRestart), 0},
		"failed 29 s after its node restarted": {crashed(by(dated(nodeRestart)), result("failed", 29*second)), noLoss, 0},
		"failed, evicted, undated":             {crashed(by(drain), result("failed", second)), drain, 0},
		"failed, crashed, undated":             {crashed(result("failed", time.Minute)), noLoss, 0},
		"failed, nobody knows when":            {crashed(by(drain), undatedResult("failed")), noLoss, 0},
		"failed by itself, evicted, undated":   {crashed(exitsWell, by(drain), result("failed", second)), noLoss, 0},
		"failed by itself, evicted, told late": {
			crashed(exitsWell, by(dated(drain)), result("failed", time.Minute)), noLoss, 0},
		"failed, nobody knows what ended the pod": {crashed(gone, by(noLoss), result("failed", time.Minute)), noLoss, 0},
	})
}

// The last decision about a runner says to what its job was lost, and waits while that can't be known.
func TestLastDecisionNamesTheLoss(t *testing.T) {
	ended := func(ending podstatus.Ending) func(*rules.World) {
		return func(o *rules.World) { o.PodEnding, o.EndedAt = ending, noon }
	}
	refused := rules.VersionRefused(&newRunner().Spec, "", true)
	canceled := func(o *rules.World) { o.Runner.Status.JobID, o.Runner.Status.JobResult = "job", "canceled" }
	busy := removalFailed(rules.Busy, noon.Add(time.Minute))
	failed := func(reason string, ending podstatus.Ending) rules.Decision {
		return rules.Decision{Step: rules.Fail, Reason: reason, Message: ending.Message, Lost: ending}
	}
	for title, test := range map[string]struct {
		observation *rules.World
		want        rules.Decision
	}{
		"crashed with a job":                   {given(podstatus.Failed, withJob, ended(crash)), rules.Decision{RequeueAt: noon.Add(5 * time.Second)}},
		"crashed with a job, 5 s ago":          {given(podstatus.Failed, withJob, ended(crash), after(5*time.Second)), failed("Reason", crash)},
		"job canceled after a deletion":        {given(podstatus.Missing, canceled, ended(removal)), failed("PodDeleted", removal)},
		"job canceled by a person":             {given(podstatus.Missing, canceled), rules.Decision{Step: rules.DeleteRunner}},
		"evicted, exited with 0, no report":    {given(podstatus.Missing, withJob, exitedAt(noon), ended(drain), after(30*time.Second)), failed("Evicted", drain)},
		"exited with 0 by itself, no report":   {given(podstatus.Missing, withJob, exitedAt(noon), after(30*time.Second)), rules.Decision{Step: rules.Succeed}},
		"exit 7, no job":                       {given(podstatus.Failed, outdated, ended(crash)), refused},
		"exit 7 with a job":                    {given(podstatus.Failed, outdated, withJob, ended(crash)), rules.Decision{RequeueAt: noon.Add(5 * time.Second)}},
		"exit 7 with a job, 5 s ago":           {given(podstatus.Failed, outdated, withJob, ended(crash), after(5*time.Second)), rules.Decision{Step: rules.Outdate, Reason: "Outdated", Message: crash.Message, Lost: crash}},
		"crashed, busy by GitHub's word":       {given(podstatus.Failed, busy, ended(crash)), rules.Decision{Step: rules.FailBusy, Reason: "Reason", Message: crash.Message, Lost: crash}},
		"gone unseen, busy by GitHub's word":   {given(podstatus.Missing, hadPod, busy), rules.Decision{Step: rules.FailBusy, Reason: "PodLost", Message: unseenEnd.Message, Lost: unseenEnd}},
		"crashed, and GitHub knows no job yet": {given(podstatus.Failed, ended(crash)), rules.Decision{Step: rules.Deregister}},
	} {
		t.Run(title, func(t *testing.T) {
			if got := rules.Plan(test.observation); got != test.want {
				t.Errorf("got  %+v\nwant %+v", got, test.want)
			}
		})
	}
}
