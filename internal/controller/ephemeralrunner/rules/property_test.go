package rules_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

// anyObservation returns a random observation, possible or not.
func anyObservation(random *rand.Rand) *rules.World {
	chance := func(n int) bool { return random.IntN(n) == 0 }
	o := given(podstatus.Phase(random.IntN(int(podstatus.Failed)+1)),
		after(time.Duration(random.IntN(1200))*time.Second))
	phases := []v1alpha1.EphemeralRunnerPhase{"", v1alpha1.EphemeralRunnerPhasePending,
		v1alpha1.EphemeralRunnerPhaseRunning}
	o.Runner.Status.Phase = phases[random.IntN(len(phases))]
	failedTimes(random.IntN(7), noon)(o)
	for _, one := range []struct {
		change func(*rules.World)
		n      int
	}{ // in this order, so that a seed draws the same observations again
		{withJob, 4}, {completed, 6}, {hadPod, 2}, {seenUp, 3}, {notReady, 3}, {unregistered, 2}, {unbound, 3}, {failureIsNoted, 8}, {reported, 3},
	} {
		if chance(one.n) {
			one.change(o)
		}
	}
	if o.Pod.Phase == podstatus.Running && o.StartedAt.IsZero() {
		o.StartedAt = noon
	}
	if chance(2) && o.Pod.Phase == podstatus.Failed {
		outdated(o)
	}
	anyProgress := []func(*rules.World){
		func(*rules.World) {}, provisioning, provisioned, agreed, asking,
		removalFailed(rules.Busy, noon.Add(time.Minute)), removalFailed(rules.Temporary, noon.Add(time.Minute)),
		provisioningFailed(rules.Temporary, noon.Add(time.Minute)), provisioningFailed(rules.Invalid, noon),
		provisioningFailed(rules.NameTaken, noon),
	}
	anyProgress[random.IntN(len(anyProgress))](o)
	if chance(5) {
		o.ExitedAt = noon
	}
	if chance(5) {
		o.PodDueAt = noon.Add(time.Duration(random.IntN(1200)) * time.Second)
	}
	return o
}

// destructive reports whether a step deletes a pod or gives up a registration.
func destructive(d rules.Step) bool {
	switch d {
	case rules.Retry, rules.Reregister, rules.Exited, rules.Succeed, rules.Fail, rules.FailBusy, rules.Outdate,
		rules.DeleteRunner, rules.Replace, rules.DeleteFailedPod, rules.Deregister:
		return true
	default:
		return false
	}
}

// live reports whether, by all that is known, the runner container runs, or may start at any moment, and has a job.
func live(o *rules.World) bool {
	if o.FailureRecorded || o.Runner.Status.JobCompleted() {
		return false // its attempt was over before
	}
	return o.Runner.Status.HadJob() && (o.Pod.Phase == podstatus.Running || o.Pod.Phase == podstatus.Pending ||
		o.Pod.Phase == podstatus.Blocked)
}

// With keepAfter no decision leads to another pod of a runner that may have had a job.
func TestASpentRunnerGetsNoOtherPod(t *testing.T) {
	const seed = 3
	random := rand.New(rand.NewPCG(seed, 0))
	spent := 0
	for range 20000 {
		o := anyObservation(random)
		o.Guarded, o.Used = true, random.IntN(2) == 0
		started := o.Used || !o.StartedAt.IsZero() || o.Runner.Status.HadJob() ||
			o.Runner.Status.Phase == v1alpha1.EphemeralRunnerPhaseRunning
		switch d := rules.Plan(o); {
		case !started:
		case d.Step == rules.Launch, d.Step == rules.Retry, d.Step == rules.Reregister:
			t.Fatalf("step %d for a runner that has started: %+v", d.Step, o)
		case d.Step == rules.Replace, d.Step == rules.Fail:
			spent++
		}
	}
	if spent == 0 {
		t.Error("no runner gave way")
	}
}

func TestNoStepEndsALiveJob(t *testing.T) {
	const seed = 1
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range 100_000 {
		o := anyObservation(random)
		if d := rules.Plan(o); live(o) && destructive(d.Step) {
			t.Fatalf("seed %d, observation %d: step %d for a runner with a live job: %+v", seed, i, d.Step, o)
		}
	}
}

// started reports whether something says that the runner has started: a report that it runs, a job, or that its
// container was seen.
func started(o *rules.World) bool {
	status := &o.Runner.Status
	return status.Phase == v1alpha1.EphemeralRunnerPhaseRunning || status.JobID != "" || !o.StartedAt.IsZero()
}

// A JIT config whose runner has started is never given to a second pod.
func TestNoStepReusesAUsedJITConfig(t *testing.T) {
	const seed = 2
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range 100_000 {
		o := anyObservation(random)
		ran := started(o)
		if d := rules.Plan(o); ran && (d.Step == rules.Retry || d.Step == rules.Launch) {
			t.Fatalf("seed %d, observation %d: step %d for a runner that has run: %+v", seed, i, d.Step, o)
		}
	}
}

// Nor is a JIT config that GitHub was asked to remove given to a second pod, whatever GitHub has answered so far.
func TestNoStepReusesAJITConfigThatMayBeRemoved(t *testing.T) {
	const seed = 6
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range 100_000 {
		o := anyObservation(random)
		if d := rules.Plan(o); o.Removal.Known && d.Step == rules.Retry {
			t.Fatalf("seed %d, observation %d: step %d though the registration may be removed: %+v", seed, i, d.Step, o)
		}
	}
}

// The same observation leads to the same step, however often it is planned.
func TestPlanLeavesTheObservationAsItWas(t *testing.T) {
	const seed = 5
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range 10_000 {
		o := anyObservation(random)
		before := *o
		before.Runner = o.Runner.DeepCopy()
		if d := rules.Plan(o); !reflect.DeepEqual(*o, before) {
			t.Fatalf("seed %d, observation %d: step %d changed %+v to %+v", seed, i, d.Step, before, *o)
		}
	}
}

// anyFinalizing returns a random observation of a runner that is being deleted, possible or not.
func anyFinalizing(random *rand.Rand) *rules.Leaving {
	chance := func(n int) bool { return random.IntN(n) == 0 }
	o := finalizingOf(podstatus.Phase(random.IntN(int(podstatus.Failed)+1)),
		lateBy(time.Duration(random.IntN(600))*time.Second))
	o.Bound, o.Registered = o.Bound && !chance(3), !chance(8)
	o.MayHaveJob, o.Completed, o.Provisioning, o.Unseen, o.Forced = chance(2), chance(8), chance(8), chance(4),
		chance(4)
	switch due := time.Duration(random.IntN(600)) * time.Second; random.IntN(4) {
	case 0: // no call yet
	case 1:
		beingRemoved(o)
	case 2:
		removedOnGitHub(o)
	default:
		refused(rules.Kind(random.IntN(int(rules.NotFound)+1)), due)(o)
	}
	return o
}

// mayEnd reports whether a runner that is being deleted certainly has no job, or GitHub has had its time to say whether
// it has a job that no report has mentioned.
func mayEnd(o *rules.Leaving) bool {
	agreed := o.Removal.Known && !o.Removal.Running && o.Removal.Failure == nil
	busy := o.MayHaveJob || (o.Removal.Failure != nil && o.Removal.Failure.Kind == rules.Busy)
	late := !busy && !o.Now.Before(noon.Add(rules.AnswerTimeout)) && o.Pod.Phase != podstatus.Running
	return agreed || late || o.Completed || !o.Registered
}

// A finalization deletes nothing that has a node and has not ended before GitHub has agreed or has had its time to
// answer. It never ends a job that GitHub or a report has mentioned. A pod without a node is deleted on condition that
// it still has none.
func TestNoFinalizationEndsWhatMayBeALiveJob(t *testing.T) {
	const seed = 3
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range 100_000 {
		o := anyFinalizing(random)
		f := rules.PlanFinalization(o)
		live := o.Pod.Phase == podstatus.Pending || o.Pod.Phase == podstatus.Blocked || o.Pod.Phase == podstatus.Running
		unbound := o.Pod.Phase == podstatus.Pending && !o.Bound && !o.MayHaveJob && f.OnlyUnbound
		switch ends := f.DeleteChildren || f.RemoveFinalizers; {
		case ends && o.Provisioning:
			t.Fatalf("seed %d, observation %d: %+v while a pod may be created: %+v", seed, i, f, o)
		case ends && live && !mayEnd(o) && !unbound, live && f.RemoveFinalizers:
			t.Fatalf("seed %d, observation %d: %+v for a runner that may have a job: %+v", seed, i, f, o)
		}
	}
}

// From any observation, plan reaches an end within 100 steps in the world of carryOut: GitHub answers, every pod that
// is created is rejected, an existing pod ends, and the time that a decision waits for comes. The simulations show that
// the events for which a decision waits do come.
func TestAnyObservationConverges(t *testing.T) {
	const seed = 4
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range 5_000 {
		o := anyObservation(random)
		steps := 0
		for ; steps < 100 && !carryOut(o, rules.Plan(o)); steps++ {
		}
		if steps == 100 {
			t.Fatalf("seed %d, observation %d: no end: %+v", seed, i, o)
		}
	}
}

// carryOut applies a step in a world where every pod is rejected, every call is answered, and nothing runs forever. It
// reports whether the step was the runner's last.
func carryOut(o *rules.World, d rules.Decision) bool {
	switch d.Step {
	case rules.Wait, rules.ReportSidecar, rules.ReportPending, rules.ReportRunning:
		return waitOn(o, d)
	case rules.Launch:
		o.Provisioning, o.RunnerID = rules.Progress{Known: true, FinishedAt: o.Now}, 8
		o.Pod, o.HadPod, o.Bound = rules.Outcome{State: podstatus.State{Phase: podstatus.NeverStarted, Reason: "Rejected"}},
			true,
			true
	case rules.Deregister:
		o.Removal = rules.Progress{Known: true}
	case rules.Retry, rules.Reregister:
		noteFailure(o)
	case rules.DeleteFailedPod:
		o.FailureRecorded, o.HadPod, o.Pod = false, false, rules.Outcome{}
	case rules.Exited:
		o.ExitedAt, o.Pod = o.Now, rules.Outcome{}
	case rules.Succeed, rules.Fail, rules.FailBusy, rules.Outdate, rules.DeleteRunner, rules.Replace:
		return true
	}
	return false
}

// waitOn lets time pass or, if only an event can help, makes the event come.
func waitOn(o *rules.World, d rules.Decision) bool {
	o.SidecarReported, o.Runner.Status.Reason, o.Runner.Status.Message, o.PendingReportedAt = true, d.Reason, d.Message,
		o.Now
	switch {
	case d.Step == rules.ReportRunning:
		o.Runner.Status.Phase, o.Runner.Status.Ready, o.Runner.Status.RunnerID = v1alpha1.EphemeralRunnerPhaseRunning,
			o.Pod.Ready, o.RunnerID
	case o.Provisioning.Running:
		o.Provisioning = rules.Progress{Known: true, Failure: &rules.Failure{}, RetryAt: o.Now}
	case o.Removal.Running:
		o.Removal = rules.Progress{Known: true}
	case d.RequeueAt.After(o.Now):
		o.Now = d.RequeueAt
	case o.Pod.Phase == podstatus.Running:
		o.Pod.Phase = podstatus.Failed
	case o.Pod.Phase == podstatus.Pending || o.Pod.Phase == podstatus.Blocked:
		o.Pod.Phase, o.Bound = podstatus.NeverStarted, true
	default:
		return d.RequeueAt.IsZero() && o.Provisioning.Failure != nil && o.Provisioning.Failure.Kind == rules.Closed
	}
	return false
}

func noteFailure(o *rules.World) {
	o.Runner.Status.Failures[fmt.Sprint(len(o.Runner.Status.Failures))] = metav1.NewTime(o.Now)
	o.Runner.Status.Phase = v1alpha1.EphemeralRunnerPhasePending
	o.Provisioning, o.Removal, o.Attempt, o.HadPod, o.Pod = rules.Progress{}, rules.Progress{}, rules.Attempt{}, false, rules.Outcome{}
}
