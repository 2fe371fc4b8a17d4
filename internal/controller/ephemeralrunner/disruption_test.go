package ephemeralrunner_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

// end is one way in which a runner's pod ends before it has a job.
type end struct {
	name string
	// runs is set if the container has started before.
	runs bool
	// befalls changes the pod; the rest of it is removed afterwards.
	befalls happening
	// held is set if the end is held against the runner.
	held bool
}

// disrupts has somebody give the pod a reason for its end, and then delete it.
func disrupts(reason string) happening {
	return func(f *fixture) {
		podDisrupted(reason)(f)
		f.settle()
		podDeleted(f)
	}
}

func fails(reason string) happening {
	return podIs(func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = corev1.PodFailed, reason })
}

// ends has every kind of end, with the verdict that an operator would give.
var ends = []end{
	{"preempted before its start", false, disrupts("PreemptionByScheduler"), false},
	{"preempted", true, disrupts("PreemptionByScheduler"), false},
	{"drained before its start", false, disrupts("EvictionByEvictionAPI"), false},
	{"drained", true, disrupts("EvictionByEvictionAPI"), false},
	{"node tainted", true, disrupts("DeletionByTaintManager"), false},
	{"node removed before the start", false, disrupts("DeletionByPodGC"), false},
	{"node removed", true, disrupts("DeletionByPodGC"), false},
	{"node silent", true, func(f *fixture) { podDeleted(f); f.settle(); f.elapse(podstatus.StuckTimeout); f.settle() }, false},
	{"node short of memory", true, fails("Evicted"), false},
	{"node shuts down", true, fails("Terminated"), false},
	{"node shuts down before the start", false, fails("NodeShutdown"), false},
	{"deleted by hand", true, podDeleted, false},
	{"deleted by hand before its start", false, podDeleted, false},
	{"deleted by force", true, podForced, false},
	{"deleted by force before its start", false, podForced, false},

	{"refused", false, fails("OutOfcpu"), true},
	{"refused by a device plugin", false, fails("UnexpectedAdmissionError"), true},
	{"fails", true, podIs(exits(1)), true},
	{"out of memory", true, outOfMemory(v1alpha1.RunnerContainerName), true},
	{"no such image", false, podIs(cannotStart("ImagePullBackOff")), true},
	{"past its deadline", false, fails("DeadlineExceeded"), true},
}

// befall has the runner's next pod end so, and waits for the one after that for as long as a pause may last. It returns
// the pause.
func (f *fixture) befall(e end) time.Duration {
	f.Helper()
	f.settle()
	pod := f.pod()
	if pod == nil {
		f.Fatalf("no pod for: %s", e.name)
	}
	f.bind()
	if e.runs {
		f.setPod(runs)
		f.settle()
	}
	e.befalls(f)
	f.settle()
	if left := f.pod(); left != nil && left.UID == pod.UID {
		f.hold() // whoever took the pod lets it go
		f.settle()
	}
	began := time.Now()
	for !f.runner().Status.Done() && f.pod() == nil && time.Since(began) < 2*time.Minute {
		f.elapse(max(f.reconcile().RequeueAfter, time.Millisecond))
		f.settle()
	}
	return time.Since(began)
}

// However often a runner's pods are taken away before it has a job, it is no failure of the runner. The pauses grow, so
// that a cluster in which that goes on isn't asked for pods without end, and the next pod comes when the last pause is
// over.
func TestDisruptionsAreNotHeldAgainstARunner(t *testing.T) {
	for _, e := range ends {
		if e.held {
			continue
		}
		t.Run(e.name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				for i := range len(rules.RetryBackoff) + 3 {
					pause, want := f.befall(e), rules.BackoffAfter(i+1)
					if pause > want+time.Second || pause < want-time.Second {
						t.Errorf("pause %d is %s, want %s", i+1, pause, want)
					}
				}
				status := f.runner().Status
				if status.Done() || len(status.Failures) > 0 || len(status.Disruptions) != len(rules.RetryBackoff) {
					t.Errorf("status %+v, want a runner that waits, with its latest disruptions", status)
				}
			}, newRunner())
		})
	}
}

// What is told about a disruption blames nobody, and says what follows and when.
func TestDisruptionIsTold(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.befall(ends[0])
		f.settle()
		var told []string
		for len(f.recorder.Events) > 0 {
			told = append(told, <-f.recorder.Events)
		}
		for _, part := range []string{"Preempted", "higher priority", "not held against it", "5s"} {
			if len(told) != 1 || !strings.Contains(told[0], part) {
				t.Errorf("Events %q, want one with %q", told, part)
			}
		}
		if status := f.runner().Status; status.Phase != v1alpha1.EphemeralRunnerPhasePending ||
			status.Reason != "Preempted" {
			t.Errorf("status %+v, want the reason while the runner waits", status)
		}
	}, newRunner())
}

// In any order of ends a runner fails at the sixth that is held against it, and not before. The oracle is the table
// above.
func TestAnyHistoryOfEndsFailsAtTheSixthThatIsHeld(t *testing.T) {
	const histories = 12
	for seed := range uint64(histories) {
		random := rand.New(rand.NewPCG(seed, 7))
		inBubble(t, func(f *fixture) {
			var history []string
			held := 0
			for range 20 {
				e := ends[random.IntN(len(ends))]
				if random.IntN(6) == 0 {
					f.restart() // the manager
				}
				f.befall(e)
				history = append(history, e.name)
				if e.held {
					held++
				}
				failed := f.runner().Status.Phase == v1alpha1.EphemeralRunnerPhaseFailed
				if failed != (held > len(rules.RetryBackoff)) {
					t.Fatalf("seed %d: failed %t after %d ends that are held against the runner: %q, status %+v", seed,
						failed, held,
						history, f.runner().Status)
				}
				if failed {
					return
				}
			}
		}, newRunner())
		if t.Failed() {
			return
		}
	}
}

// A pod that was seen to fail by itself doesn't become a disruption because somebody removes it immediately.
func TestOwnEndOfAPodThatIsRemovedAtOnceCounts(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.setPod(runs)
		f.settle()
		f.setPod(exits(1))
		f.cache.Client = setlessCache{f.api}
		f.failsToReconcile() // sees it, and decides nothing
		f.cache.Client = f.api
		podForced(f)
		f.settle()
		if status := f.runner().Status; len(status.Failures) != 1 ||
			status.Reason != string(v1alpha1.LostCauseContainerFailed) {
			t.Errorf("status %+v, want one failure, for the container's end", status)
		}
	}, newRunner())
}

// An idle runner that is evicted, or whose pod reaches its deadline, day after day has nothing wrong with it: each of
// these ends starts a new row. Deadlines that come immediately add up until the runner has failed.
func TestEndsFromOutsideOfARunnerThatWasUpDoNotAddUp(t *testing.T) {
	for name, test := range map[string]struct {
		reason string
		up     bool
		slow   bool // GitHub, when it is asked to remove the registration
		failed bool
	}{
		"evicted after long":                  {reason: "Evicted", up: true},
		"past its deadline after long":        {reason: "DeadlineExceeded", up: true},
		"past its deadline at once":           {reason: "DeadlineExceeded", failed: true},
		"past it at once, and GitHub is slow": {reason: "DeadlineExceeded", slow: true, failed: true},
		"evicted at once, and GitHub is slow": {reason: "Evicted", slow: true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				for range 2 * len(rules.RetryBackoff) {
					f.settle()
					if f.runner().Status.Done() {
						break
					}
					f.setPod(runs)
					f.settle()
					if test.up {
						f.elapse(rules.UpGrace)
					}
					answered := make(chan struct{})
					f.github.holdRemove = answered
					fails(test.reason)(f)
					f.settle()
					if test.slow {
						f.elapse(2 * rules.UpGrace)
					}
					close(answered)
					f.settle()
					f.elapse(rules.RetryBackoff[len(rules.RetryBackoff)-1])
				}
				f.settle()
				status := f.runner().Status
				if failed := status.Phase == v1alpha1.EphemeralRunnerPhaseFailed; failed != test.failed ||
					(test.up && rules.AttemptsRecorded(&status) != 1) {
					t.Errorf("phase %s, failures %v, disruptions %v", status.Phase, status.Failures, status.Disruptions)
				}
			}, newRunner())
		})
	}
}
