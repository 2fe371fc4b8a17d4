package ephemeralrunnerset_test

import (
	"net/http"
	"testing"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

// exitRunner makes the fixture's first runner exit with code 0, and publishes a figure after that.
func (f *fixture) exitRunner() {
	f.Helper()
	f.reconcile()
	f.bringUp()
	f.changeStatus(func(status *v1alpha1.EphemeralRunnerStatus) {
		status.Phase = v1alpha1.EphemeralRunnerPhaseSucceeded
	})
	f.reconcile()
	controllertest.Elapse(settleGrace)
	f.publish(0)
	f.reconcile()
}

// changeStatus changes the status of the first runner.
func (f *fixture) changeStatus(change func(*v1alpha1.EphemeralRunnerStatus)) {
	f.Helper()
	r := f.runners()[0]
	change(&r.Status)
	if err := f.api.Status().Update(f.Context(), &r); err != nil {
		f.Fatal(err)
	}
}

// wantQuestions checks the number of times that GitHub was asked whether a runner is registered.
func (f *fixture) wantQuestions(want int) {
	f.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lookedUp != want {
		f.Errorf("GitHub was asked %d times whether the runner is registered, want %d", f.lookedUp, want)
	}
}

func TestExitedRunnerWithoutARecordIsFinished(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.missing = errRunnerNotFound
		f.exitRunner()
		id := f.runners()[0].UID
		f.reconcile()
		f.wantQuestions(1)
		if f.requests["delete"] != 1 || f.failed != 0 {
			t.Errorf("%d deletions, %d failures; want the runner deleted as one that had a job", f.requests["delete"],
				f.failed)
		}
		if !f.deregistered(id, 7) {
			t.Error("its finalization asks GitHub again")
		}
	}, newSet(1))
}

// The answer may have come from a gateway: one such answer proves nothing, and the runner's own finalization asks
// again.
func TestExitedRunnerIsMissingTwiceWhereGitHubDoesNotSaySoItself(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.missing = &actions.Error{Endpoint: actions.EndpointGetRunner, StatusCode: http.StatusNotFound}
		f.exitRunner()
		id := f.runners()[0].UID
		f.reconcile()
		f.wantQuestions(1)
		if f.requests["delete"] != 0 {
			t.Error("deleted after one answer that may be a gateway's")
		}
		controllertest.Elapse(askExitedInterval)
		f.reconcile()
		f.reconcile()
		f.wantQuestions(2)
		if f.requests["delete"] != 1 || f.failed != 0 || f.deregistered(id, 7) {
			t.Errorf("%d deletions, %d failures; want the runner deleted as one that had a job", f.requests["delete"],
				f.failed)
		}
	}, newSet(1))
}

func TestExitedRunnerWhoseRecordStaysHasFailed(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.exitRunner()
		for range removalLag / askExitedInterval {
			if phase := f.runners()[0].Status.Phase; phase != v1alpha1.EphemeralRunnerPhaseSucceeded {
				t.Fatalf("phase %s while its record may yet be removed", phase)
			}
			f.reconcile()
			controllertest.Elapse(askExitedInterval)
			f.reconcile()
		}
		f.reconcile()
		f.wantQuestions(3)
		if got := f.runners()[0].Status; f.failed != 1 || got.Phase != v1alpha1.EphemeralRunnerPhaseFailed ||
			got.Message != "it got no job" {
			t.Errorf("status %+v, want Failed, and that GitHub has said so", got)
		}
	}, newSet(1))
}

// The report comes when GitHub has already been asked and still has its record of the runner.
func TestExitedRunnerWhoseReportIsLateIsFinished(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.exitRunner()
		f.changeStatus(func(status *v1alpha1.EphemeralRunnerStatus) { status.JobID = "1" })
		f.reconcile()
		controllertest.Elapse(askExitedInterval)
		f.reconcile()
		f.wantQuestions(1)
		if f.requests["delete"] != 1 || f.failed != 0 {
			t.Errorf("%d deletions, %d failures; want the runner deleted as one that had a job", f.requests["delete"],
				f.failed)
		}
	}, newSet(1))
}

// GitHub's image without a command is a shell, which exits with 0 immediately: the command that is missing, as the
// runners say, is named at the place where people look.
func TestDegradedNamesTheMissingCommand(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.reconcile()
		for _, r := range f.runners() {
			r.Status.Phase = v1alpha1.EphemeralRunnerPhaseSucceeded
			if err := f.api.Status().Update(t.Context(), &r); err != nil {
				t.Fatal(err)
			}
		}
		f.reconcile()
		controllertest.Elapse(settleGrace)
		f.publish(degradedThreshold)
		f.reconcile()
		f.reconcile()
		f.wantDegraded(v1alpha1.ReasonRunnerExitedWithoutJob, "it has no command")
	}, newSet(degradedThreshold))
}

// GitHub's answer that a registration is removed says nothing about the one that the runner has got in the meantime.
func TestAnswerAboutAFormerRegistrationIsIgnored(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.makeSurplus()
		f.reconcile()
		r := f.runners()[0]
		r.Status.RunnerID++
		if err := f.api.Status().Update(t.Context(), &r); err != nil {
			t.Fatal(err)
		}
		f.reconcile()
		if f.asked != 2 || f.requests["delete"] != 0 {
			t.Errorf("GitHub asked %d times, %d deletions; want it asked about the new registration, and none", f.asked,
				f.requests["delete"])
		}
		f.reconcile()
		if f.asked != 2 || f.requests["delete"] != 1 {
			t.Errorf("GitHub asked %d times, %d deletions; want 2 and 1", f.asked, f.requests["delete"])
		}
	}, newSet(1))
}

func TestWorkingRunnerOutlivesAGatewaysNotFound(t *testing.T) {
	for name, test := range map[string]struct {
		missing error
		deleted int
	}{
		"the gateway's": {&actions.Error{Endpoint: actions.EndpointGetRunner, StatusCode: http.StatusNotFound}, 0},
		"GitHub's":      {errRunnerNotFound, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.missing = test.missing
				f.reconcile()
				f.changeStatus(func(status *v1alpha1.EphemeralRunnerStatus) {
					status.Phase, status.RunnerID, status.JobID = v1alpha1.EphemeralRunnerPhaseRunning, 7, "1"
				})
				f.reconcile()
				for range 3 {
					controllertest.Elapse(askWorkingInterval)
					f.reconcile()
					f.reconcile()
				}
				if f.lookedUp == 0 || f.requests["delete"] != test.deleted {
					t.Errorf("GitHub was asked %d times, %d runners deleted; want %d deleted", f.lookedUp,
						f.requests["delete"],
						test.deleted)
				}
			}, newSet(1))
		})
	}
}

// A backup tool restores a runner's status, and people copy runners with it: the id in it is another runner's.
func TestACopiedStatusTakesNoRegistrationAway(t *testing.T) {
	for name, named := range map[string]string{"as it was": "original", "with its own name": ""} {
		for _, phase := range []v1alpha1.EphemeralRunnerPhase{v1alpha1.EphemeralRunnerPhaseFailed,
			v1alpha1.EphemeralRunnerPhaseSucceeded} {
			t.Run(name+", "+string(phase), func(t *testing.T) {
				inBubble(t, func(f *fixture) {
					f.another = "original"
					f.reconcile()
					f.changeStatus(func(status *v1alpha1.EphemeralRunnerStatus) {
						status.Phase, status.RunnerID, status.RunnerName, status.JobID = phase, 7, named, "1"
					})
					for range 3 {
						f.reconcile()
						controllertest.Elapse(askAgainInterval)
						f.reconcile()
					}
					if f.asked > 0 {
						t.Errorf("GitHub was asked %d times to remove another runner", f.asked)
					}
				}, newSet(1))
			})
		}
	}
}
