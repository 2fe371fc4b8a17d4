package ephemeralrunnerset_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/setmetrics"
)

// A repository that is archived, or not one of the App's, refuses check runs. All others have theirs, and nothing is
// missing.
func TestARepositoryThatRefusesSilencesNoOther(t *testing.T) {
	checksTest(t, &v1alpha1.Feedback{Checks: true}, func(g *checkedCommit) {
		g.refuse, g.refuseIn = &actions.Error{Endpoint: actions.EndpointCreateCheckRun, StatusCode: 403,
			Message: "Repository was archived so is read-only."}, "acme/old"
		g.in = map[int64]string{41: "acme/old", 43: "acme/old"}
		g.wait(41, 42, 43, 44)
		g.passes(5*time.Minute, false)
		if len(g.checks) != 2 || g.reads > 2*2+3 {
			g.Errorf("%d reads, said:\n%s", g.reads, g.said())
		}
		if c := meta.FindStatusCondition(g.set().Status.Conditions, v1alpha1.ConditionFeedbackPermitted); c != nil {
			g.Errorf("%s: %s", c.Status, c.Message)
		}
		read := g.reads
		g.passes(50*time.Minute, false)
		if g.reads != read {
			g.Errorf("%d calls within an hour after the refusal", g.reads-read)
		}
	})
}

// Refusals of reruns end an hour after the last, also if the manager was restarted and check runs are accepted.
func TestARefusedRerunIsToldForAnHour(t *testing.T) {
	for name, restarted := range map[string]bool{"undisturbed": false, "restarted": true} {
		t.Run(name, func(t *testing.T) {
			wanted := reruns()
			wanted.Checks = true
			checksTest(t, wanted, func(g *checkedCommit) {
				g.ended, g.refuseReruns = true,
					&actions.Error{Endpoint: actions.EndpointRerunFailedJobs, StatusCode: 403,
						Message: "Resource not accessible by integration"}
				g.loseJob("Evicted")
				g.passes(10*time.Minute, false)
				if restarted {
					g.restart()
				}
				g.wait(43)
				g.passes(40*time.Minute, false)
				if !strings.Contains(g.said(), "waiting") {
					g.Errorf("said:\n%s", g.said())
				}
				controllertest.WantCondition(t, g.set().Status.Conditions, v1alpha1.ConditionFeedbackPermitted,
					metav1.ConditionFalse, v1alpha1.ReasonPermissionMissing)
				g.passes(30*time.Minute, false)
				controllertest.WantCondition(t, g.set().Status.Conditions, v1alpha1.ConditionFeedbackPermitted,
					metav1.ConditionTrue, "Permitted")
			})
		})
	}
}

func TestARestartTellsNothingASecondTime(t *testing.T) {
	checksTest(t, &v1alpha1.Feedback{Checks: true}, func(g *checkedCommit) {
		g.wait(41, 42)
		g.passes(3*time.Minute, false)
		read, written := g.reads, g.written()
		g.restart()
		g.passes(3*time.Minute, false)
		if written != 2 || g.written() != written || g.reads != read {
			g.Errorf("%d writes and %d reads before, %d and %d after", written, read, g.written(), g.reads)
		}
		g.wait(42)
		g.passes(3*time.Minute, false)
		if said := g.said(); strings.Count(said, "No longer waiting") != 1 {
			g.Errorf("said:\n%s", said)
		}
	})
}

func TestSeriesAreThereBeforeAnythingIsCounted(t *testing.T) {
	wanted := reruns()
	wanted.Checks = true
	setmetrics.Delete(setKey)
	checksTest(t, wanted, func(g *checkedCommit) {
		for counter, want := range map[string]int{
			"gha_controller_checks_told_total": 3, "gha_controller_jobs_rerun_total": 3,
		} {
			if got := len(controllertest.Series(g, counter, labelsOf(setKey))); got != want {
				g.Errorf("%s: %d series, want %d", counter, got, want)
			}
		}
	})
}

// A set that goes says so on the commits that wait for it; if GitHub does not answer, it goes without.
func TestADeletedSetSaysThatNobodyWaitsForIt(t *testing.T) {
	for name, refuse := range map[string]error{
		"told": nil,
		"GitHub does not answer": &actions.NetworkError{Endpoint: actions.EndpointUpdateCheckRun, Attempts: 1,
			Err: context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			checksTest(t, &v1alpha1.Feedback{Checks: true}, func(g *checkedCommit) {
				g.wait(41, 42)
				g.passes(2*time.Minute, false)
				g.refuse = refuse
				g.delete()
				g.reconcile()
				g.finishAll()
				if g.reconcile(); g.gone() {
					g.Fatal("it is gone without a word")
				}
				for range 9 {
					if !g.gone() {
						g.passes(10*time.Second, false)
					}
				}
				if over := strings.Count(g.said(), "No longer waiting"); !g.gone() ||
					over != map[bool]int{true: 2, false: 0}[refuse == nil] {
					g.Errorf("gone: %v, said:\n%s", g.gone(), g.said())
				}
			})
		})
	}
}

// A set that another one replaces leaves to that one what it says, too.
func TestAReplacedSetLeavesCheckRunsToTheNext(t *testing.T) {
	checksTest(t, &v1alpha1.Feedback{Checks: true}, func(g *checkedCommit) {
		g.wait(41, 42)
		g.passes(2*time.Minute, false)
		next := newSet(0, func(s *v1alpha1.EphemeralRunnerSet) { s.Name, s.UID = "next", "next-uid" })
		if err := g.api.Create(g.Context(), next); err != nil {
			g.Fatal(err)
		}
		next.Status.Checks = g.set().Status.Checks[:1]
		if err := g.api.Status().Update(g.Context(), next); err != nil {
			g.Fatal(err)
		}
		g.delete()
		g.reconcile()
		g.finishAll()
		for range 9 {
			if !g.gone() {
				g.passes(10*time.Second, false)
			}
		}
		if over := strings.Count(g.said(), "No longer waiting"); over != 1 ||
			strings.Contains(strings.SplitN(g.said(), "\n", 2)[0], "No longer") {
			g.Errorf("said:\n%s", g.said())
		}
	})
}
