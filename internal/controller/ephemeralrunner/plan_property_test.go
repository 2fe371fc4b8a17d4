package ephemeralrunner

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/calls"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

// anyObservation returns a random observation, possible or not.
func anyObservation(random *rand.Rand) *observation {
	chance := func(n int) bool { return random.IntN(n) == 0 }
	o := given(podstatus.Phase(random.IntN(int(podstatus.Failed)+1)), after(time.Duration(random.IntN(1200))*time.Second))
	phases := []v1alpha1.EphemeralRunnerPhase{"", v1alpha1.EphemeralRunnerPhasePending, v1alpha1.EphemeralRunnerPhaseRunning}
	o.runner.Status.Phase = phases[random.IntN(len(phases))]
	failedTimes(random.IntN(7), noon)(o)
	for _, one := range []struct {
		change func(*observation)
		n      int
	}{ // in this order, so that a seed draws the same observations again
		{withJob, 4}, {completed, 6}, {hadPod, 2}, {seenUp, 3}, {notReady, 3}, {unregistered, 2}, {unbound, 3}, {failureIsNoted, 8}, {reported, 3},
	} {
		if chance(one.n) {
			one.change(o)
		}
	}
	if o.pod.Phase == podstatus.Running && o.startedAt.IsZero() {
		o.startedAt = noon
	}
	if chance(2) && o.pod.Phase == podstatus.Failed {
		outdated(o)
	}
	anyProgress := []func(*observation){
		func(*observation) {}, provisioning, provisioned, agreed, asking,
		removalFailed(calls.Busy, noon.Add(time.Minute)), removalFailed(calls.Temporary, noon.Add(time.Minute)),
		provisioningFailed(calls.Temporary, noon.Add(time.Minute)), provisioningFailed(calls.Invalid, noon),
		provisioningFailed(calls.NameTaken, noon),
	}
	anyProgress[random.IntN(len(anyProgress))](o)
	if chance(5) {
		o.exitedAt = noon
	}
	if chance(5) {
		o.podDueAt = noon.Add(time.Duration(random.IntN(1200)) * time.Second)
	}
	return o
}

// destructive reports whether a step deletes a pod or gives up a registration.
func destructive(d step) bool {
	switch d {
	case stepRetry, stepReregister, stepExited, stepSucceed, stepFail, stepFailBusy, stepOutdate,
		stepDeleteRunner, stepReplace, stepDeleteFailedPod, stepDeregister:
		return true
	default:
		return false
	}
}

// live reports whether, by all that is known, the runner container runs, or may start at any moment, and has a job.
func live(o *observation) bool {
	if o.failureNoted || o.runner.Status.JobCompleted() {
		return false // its attempt was over before
	}
	return o.runner.Status.HadJob() && (o.pod.Phase == podstatus.Running || o.pod.Phase == podstatus.Pending || o.pod.Phase == podstatus.Blocked)
}

func TestNoStepEndsALiveJob(t *testing.T) {
	const seed = 1
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range 100_000 {
		o := anyObservation(random)
		if d := plan(o); live(o) && destructive(d.step) {
			t.Fatalf("seed %d, observation %d: step %d for a runner with a live job: %+v", seed, i, d.step, o)
		}
	}
}

// A JIT config whose runner has started is never given to a second pod.
func TestNoStepReusesAUsedJITConfig(t *testing.T) {
	const seed = 2
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range 100_000 {
		o := anyObservation(random)
		ran := o.ran()
		if d := plan(o); ran && (d.step == stepRetry || d.step == stepProvision) {
			t.Fatalf("seed %d, observation %d: step %d for a runner that has run: %+v", seed, i, d.step, o)
		}
	}
}

// Nor is a JIT config that GitHub was asked to remove given to a second pod, whatever GitHub has answered so far.
func TestNoStepReusesAJITConfigThatMayBeRemoved(t *testing.T) {
	const seed = 6
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range 100_000 {
		o := anyObservation(random)
		if d := plan(o); o.removal.Known && d.step == stepRetry {
			t.Fatalf("seed %d, observation %d: step %d though the registration may be removed: %+v", seed, i, d.step, o)
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
		before.runner = o.runner.DeepCopy()
		if d := plan(o); !reflect.DeepEqual(*o, before) {
			t.Fatalf("seed %d, observation %d: step %d changed %+v to %+v", seed, i, d.step, before, *o)
		}
	}
}

// anyFinalizing returns a random observation of a runner that is being deleted, possible or not.
func anyFinalizing(random *rand.Rand) *finalizing {
	chance := func(n int) bool { return random.IntN(n) == 0 }
	o := finalizingOf(podstatus.Phase(random.IntN(int(podstatus.Failed)+1)), lateBy(time.Duration(random.IntN(600))*time.Second))
	o.bound, o.registered = o.bound && !chance(3), !chance(8)
	o.mayHaveJob, o.completed, o.provisioning, o.unseen, o.forced = chance(2), chance(8), chance(8), chance(4), chance(4)
	switch due := time.Duration(random.IntN(600)) * time.Second; random.IntN(4) {
	case 0: // no call yet
	case 1:
		beingRemoved(o)
	case 2:
		removedOnGitHub(o)
	default:
		refused(calls.Kind(random.IntN(int(calls.NotFound)+1)), due)(o)
	}
	return o
}

// mayEnd reports whether a runner that is being deleted certainly has no job, or GitHub has had its time to say whether it
// has a job that no report has mentioned.
func mayEnd(o *finalizing) bool {
	agreed := o.removal.Known && !o.removal.Running && o.removal.Failure == nil
	busy := o.mayHaveJob || o.removal.Failure != nil && o.removal.Failure.Kind == calls.Busy
	late := !busy && !o.now.Before(noon.Add(answerTimeout))
	return agreed || late || o.completed || !o.registered
}

// A finalization deletes nothing that has a node and has not ended before GitHub has agreed or has had its time to answer. It
// never ends a job that GitHub or a report has mentioned. A pod without a node is deleted on condition that it still has
// none.
func TestNoFinalizationEndsWhatMayBeALiveJob(t *testing.T) {
	const seed = 3
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range 100_000 {
		o := anyFinalizing(random)
		f := planFinalization(o)
		live := o.pod.Phase == podstatus.Pending || o.pod.Phase == podstatus.Blocked || o.pod.Phase == podstatus.Running
		unbound := o.pod.Phase == podstatus.Pending && !o.bound && !o.mayHaveJob && f.onlyUnbound
		switch ends := f.deleteChildren || f.removeFinalizers; {
		case ends && o.provisioning:
			t.Fatalf("seed %d, observation %d: %+v while a pod may be created: %+v", seed, i, f, o)
		case ends && live && !mayEnd(o) && !unbound, live && f.removeFinalizers:
			t.Fatalf("seed %d, observation %d: %+v for a runner that may have a job: %+v", seed, i, f, o)
		}
	}
}

// From any observation, plan reaches an end within 100 steps in the world of carryOut: GitHub answers, every pod that is
// created is rejected, an existing pod ends, and the time that a decision waits for comes. The simulations show that the
// events for which a decision waits do come.
func TestAnyObservationConverges(t *testing.T) {
	const seed = 4
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range 5_000 {
		o := anyObservation(random)
		steps := 0
		for ; steps < 100 && !carryOut(o, plan(o)); steps++ {
		}
		if steps == 100 {
			t.Fatalf("seed %d, observation %d: no end: %+v", seed, i, o)
		}
	}
}

// carryOut applies a step in a world where every pod is rejected, every call is answered, and nothing runs forever. It
// reports whether the step was the runner's last.
func carryOut(o *observation, d decision) bool {
	switch d.step {
	case stepWait, stepReportSidecar, stepReportPending, stepReportRunning:
		return waitOn(o, d)
	case stepProvision:
		o.provisioning, o.runnerID = calls.Progress{Known: true, FinishedAt: o.now}, 8
		o.pod, o.hadPod, o.bound = outcome{State: podstatus.State{Phase: podstatus.NeverStarted, Reason: "Rejected"}}, true, true
	case stepDeregister:
		o.removal = calls.Progress{Known: true}
	case stepRetry, stepReregister:
		noteFailure(o)
	case stepDeleteFailedPod:
		o.failureNoted, o.hadPod, o.pod = false, false, outcome{}
	case stepExited:
		o.exitedAt, o.pod = o.now, outcome{}
	case stepSucceed, stepFail, stepFailBusy, stepOutdate, stepDeleteRunner, stepReplace:
		return true
	}
	return false
}

// waitOn lets time pass or, if only an event can help, makes the event come.
func waitOn(o *observation, d decision) bool {
	o.sidecarReported, o.runner.Status.Reason, o.runner.Status.Message, o.pendingReportedAt = true, d.reason, d.message, o.now
	switch {
	case d.step == stepReportRunning:
		o.runner.Status.Phase, o.runner.Status.Ready, o.runner.Status.RunnerID = v1alpha1.EphemeralRunnerPhaseRunning, o.pod.Ready, o.runnerID
	case o.provisioning.Running:
		o.provisioning = calls.Progress{Known: true, Failure: &calls.Failure{}, RetryAt: o.now}
	case o.removal.Running:
		o.removal = calls.Progress{Known: true}
	case d.requeueAt.After(o.now):
		o.now = d.requeueAt
	case o.pod.Phase == podstatus.Running:
		o.pod.Phase = podstatus.Failed
	case o.pod.Phase == podstatus.Pending || o.pod.Phase == podstatus.Blocked:
		o.pod.Phase, o.bound = podstatus.NeverStarted, true
	default:
		return d.requeueAt.IsZero() && o.provisioning.Failure != nil && o.provisioning.Failure.Kind == calls.Closed
	}
	return false
}

func noteFailure(o *observation) {
	o.runner.Status.Failures[fmt.Sprint(len(o.runner.Status.Failures))] = metav1.NewTime(o.now)
	o.runner.Status.Phase = v1alpha1.EphemeralRunnerPhasePending
	o.provisioning, o.removal, o.attempt, o.hadPod, o.pod = calls.Progress{}, calls.Progress{}, attempt{}, false, outcome{}
}
