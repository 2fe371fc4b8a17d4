package ephemeralrunner

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// anySituation returns a random situation, possible or not.
func anySituation(random *rand.Rand) *situation {
	chance := func(n int) bool { return random.IntN(n) == 0 }
	s := given(podState(random.IntN(int(podFailed)+1)), after(time.Duration(random.IntN(1200))*time.Second))
	phases := []v1alpha1.EphemeralRunnerPhase{"", v1alpha1.EphemeralRunnerPhasePending, v1alpha1.EphemeralRunnerPhaseRunning}
	s.runner.Status.Phase = phases[random.IntN(len(phases))]
	failedTimes(random.IntN(7), noon)(s)
	for _, one := range []struct {
		change func(*situation)
		n      int
	}{ // in this order, for a seed has to draw the same situations again
		{withJob, 4}, {completed, 6}, {hadPod, 2}, {seenUp, 3}, {notReady, 3}, {unregistered, 2}, {unbound, 3}, {counted, 8}, {told, 3},
	} {
		if chance(one.n) {
			one.change(s)
		}
	}
	if s.pod.state == podRunning && s.up.IsZero() {
		s.up = noon
	}
	anyProgress := []func(*situation){
		func(*situation) {}, provisioning, provisioned, agreed, asking,
		removalFailed(failureBusy, noon.Add(time.Minute)), removalFailed(failureTemporary, noon.Add(time.Minute)),
		provisioningFailed(failureTemporary, noon.Add(time.Minute)), provisioningFailed(failureInvalid, noon),
		provisioningFailed(failureNameTaken, noon),
	}
	anyProgress[random.IntN(len(anyProgress))](s)
	if chance(5) {
		s.exited = noon
	}
	if chance(5) {
		s.noted, s.terminating = noon, noon
	}
	return s
}

// destructive says that a step stops a pod or gives a registration up.
func destructive(d step) bool {
	switch d {
	case stepRetry, stepRetryAnew, stepClear, stepSucceed, stepFail, stepFailBusy, stepOutdate,
		stepRemove, stepReplace, stepDiscard, stepDeregister:
		return true
	default:
		return false
	}
}

// live says that the runner container runs, by all that is known, or may start at any moment, and has a job.
func live(s *situation) bool {
	if s.counted || s.runner.Status.JobCompleted() {
		return false // its attempt was over before
	}
	return s.runner.Status.HasJob() && (s.pod.state == podRunning || s.pod.state == podPending || s.pod.state == podBlocked)
}

func TestNoStepEndsALiveJob(t *testing.T) {
	const seed = 1
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range 100_000 {
		s := anySituation(random)
		if d := plan(s); live(s) && destructive(d.step) {
			t.Fatalf("seed %d, situation %d: step %d for a runner with a live job: %+v", seed, i, d.step, s)
		}
	}
}

// A JIT config whose runner has started is never given to a second pod.
func TestNoStepReusesAUsedJITConfig(t *testing.T) {
	const seed = 2
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range 100_000 {
		s := anySituation(random)
		ran := s.ran()
		if d := plan(s); ran && (d.step == stepRetry || d.step == stepProvisionAgain || d.step == stepProvision) {
			t.Fatalf("seed %d, situation %d: step %d for a runner that has run: %+v", seed, i, d.step, s)
		}
	}
}

// A JIT config that GitHub was asked to remove is not given to a second pod either, whatever it has answered so far.
func TestNoStepReusesAJITConfigThatMayBeRemoved(t *testing.T) {
	const seed = 6
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range 100_000 {
		s := anySituation(random)
		if d := plan(s); s.removal.known && d.step == stepRetry {
			t.Fatalf("seed %d, situation %d: step %d though the registration may be removed: %+v", seed, i, d.step, s)
		}
	}
}

// The same situation leads to the same step, however often it is asked for.
func TestPlanLeavesTheSituationAsItWas(t *testing.T) {
	const seed = 5
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range 10_000 {
		s := anySituation(random)
		before := *s
		before.runner = s.runner.DeepCopy()
		if d := plan(s); !reflect.DeepEqual(*s, before) {
			t.Fatalf("seed %d, situation %d: step %d changed %+v to %+v", seed, i, d.step, before, *s)
		}
	}
}

// A farewell stops nothing on a node that has not ended before GitHub has agreed or has had its time to answer, and no
// job that GitHub or a report has spoken of at all.
func TestNoFarewellEndsWhatMayBeALiveJob(t *testing.T) {
	const seed = 3
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range 100_000 {
		e := endingOf(podPending+podState(random.IntN(3)), lateBy(time.Duration(random.IntN(600))*time.Second))
		e.hasJob, e.forced, e.unseen = random.IntN(2) == 0, random.IntN(4) == 0, random.IntN(4) == 0
		kind := failureKind(random.IntN(int(failureBusy) + 1))
		refused(kind, time.Duration(random.IntN(600))*time.Second)(e)
		late := !e.now.Before(noon.Add(unansweredAtMost)) && !e.hasJob && kind != failureBusy
		if f := planFarewell(e); (f.stop || f.release) && !late {
			t.Fatalf("seed %d, situation %d: %+v for a runner that may have a job: %+v", seed, i, f, e)
		}
	}
}

// From any situation a runner whose pods never start, whose cluster is quiet and whose GitHub answers, is failed, or
// removed, after a bounded number of steps; and every wait has an end.
func TestAnySituationConverges(t *testing.T) {
	const seed = 4
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range 5_000 {
		s := anySituation(random)
		steps := 0
		for ; steps < 100 && !carryOut(s, plan(s)); steps++ {
		}
		if steps == 100 {
			t.Fatalf("seed %d, situation %d: no end: %+v", seed, i, s)
		}
	}
}

// carryOut lets a step have its effect in a world where every pod is rejected, every call answered, and where nothing
// runs for ever. It says whether the runner's story is over.
func carryOut(s *situation, d decision) bool {
	switch d.step {
	case stepWait, stepReportSidecar, stepReportPending, stepReportRunning:
		return waitOn(s, d)
	case stepProvision, stepProvisionAgain:
		s.provisioning, s.registration = progress{known: true, finished: s.now}, 8
		s.pod, s.hadPod, s.bound = outcome{state: podNeverStarted, reason: "Rejected"}, true, true
	case stepDeregister:
		s.removal = progress{known: true}
	case stepRetry, stepRetryAnew:
		noteFailure(s)
	case stepDiscard:
		s.counted, s.hadPod, s.pod = false, false, outcome{state: podMissing}
	case stepClear:
		s.exited, s.pod = s.now, outcome{state: podMissing}
	case stepSucceed, stepFail, stepFailBusy, stepOutdate, stepRemove, stepReplace:
		return true
	}
	return false
}

// waitOn lets time pass, or, where nothing but an event can help, the event come.
func waitOn(s *situation, d decision) bool {
	s.sidecarTold, s.runner.Status.Reason, s.runner.Status.Message, s.told = true, d.reason, d.message, s.now
	switch {
	case d.step == stepReportRunning:
		s.runner.Status.Phase, s.runner.Status.Ready, s.runner.Status.RunnerID = v1alpha1.EphemeralRunnerPhaseRunning, s.pod.ready, s.registration
	case s.provisioning.running:
		s.provisioning = progress{known: true, failure: &failure{}, due: s.now}
	case s.removal.running:
		s.removal = progress{known: true}
	case d.again.After(s.now):
		s.now = d.again
	case s.pod.state == podRunning:
		s.pod.state = podFailed
	case s.pod.state == podPending || s.pod.state == podBlocked:
		s.pod.state, s.bound = podNeverStarted, true
	default:
		return d.again.IsZero() && s.provisioning.failure != nil && s.provisioning.failure.kind == failureClosed
	}
	return false
}

func noteFailure(s *situation) {
	s.runner.Status.Failures[fmt.Sprint(len(s.runner.Status.Failures))] = metav1.NewTime(s.now)
	s.runner.Status.Phase = v1alpha1.EphemeralRunnerPhasePending
	s.provisioning, s.removal, s.up, s.hadPod, s.pod = progress{}, progress{}, time.Time{}, false, outcome{state: podMissing}
}
