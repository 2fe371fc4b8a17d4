package ephemeralrunnerset_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/github/rest"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/feedback"
)

// checkedCommit is a GitHub with workflow runs, all of one commit, and the check runs on it.
type checkedCommit struct {
	*fixture
	checks []map[string]any
	// writes has when each was written, by external id, reads counts all other calls.
	writes map[string][]time.Time
	reads  int
	refuse error
	// refuseIn is the repository of the refusals, empty for all, and in where runs are that are not in acme/web.
	refuseIn string
	in       map[int64]string
	// ended is set if the runs have ended, each with a cancelled job on a runner that was lost; refuseReruns is the
	// answer to reruns.
	ended        bool
	refuseReruns error
	// lose is the number of answers to creations that are lost.
	lose int
}

func (g *checkedCommit) ConfigURL() *actions.ConfigURL {
	config, err := actions.ParseConfigURL("https://github.com/acme")
	if err != nil {
		g.Fatal(err)
	}
	return config
}

func (g *checkedCommit) Account() actions.Account {
	return actions.Account{Name: "App 1", Key: "1", Proven: true}
}

func (g *checkedCommit) Now() time.Time { return time.Now() }

func (g *checkedCommit) CallREST(_ context.Context, call actions.RESTRequest, result any) error {
	var answer any
	switch call.Endpoint {
	case actions.EndpointGetRun:
		g.reads++
		var id int64
		if _, err := fmt.Sscan(call.Path[len(call.Path)-1], &id); err != nil {
			return err
		}
		answer = map[string]any{"id": id, "run_attempt": 1,
			"status": map[bool]string{false: "in_progress", true: "completed"}[g.ended], "head_sha": "abc",
			"name": "CI", "run_number": id, "workflow_id": 3, "created_at": time.Now()}
	case actions.EndpointListRunJobs:
		var jobs []map[string]any
		for _, r := range g.runners() {
			if r.Status.LostCause != "" {
				jobs = append(jobs, map[string]any{"id": 5, "status": "completed", "conclusion": "cancelled",
					"runner_name": r.Name})
			}
		}
		answer = map[string]any{"total_count": len(jobs), "jobs": jobs}
	case actions.EndpointListRuns:
		answer = map[string]any{"workflow_runs": []any{}}
	case actions.EndpointRerunFailedJobs:
		return g.refuseReruns
	case actions.EndpointListCheckRuns:
		g.reads++
		answer = map[string]any{"check_runs": g.checks}
	default:
		if g.refuse != nil && (g.refuseIn == "" || g.refuseIn == call.Path[1]+"/"+call.Path[2]) {
			g.reads++
			return g.refuse
		}
		return g.write(call, result)
	}
	text, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, result)
}

func (g *checkedCommit) write(call actions.RESTRequest, result any) error {
	text, err := json.Marshal(call.Body)
	if err != nil {
		return err
	}
	sent := map[string]any{}
	if err := json.Unmarshal(text, &sent); err != nil {
		return err
	}
	if sent["conclusion"] != "neutral" || sent["status"] != "completed" {
		g.Errorf("a check run that is not neutral: %v", sent)
	}
	if call.Endpoint == actions.EndpointCreateCheckRun {
		for _, before := range g.checks {
			if before["external_id"] == sent["external_id"] {
				g.Errorf("created twice: %v", sent["name"])
			}
		}
		sent["id"] = len(g.checks) + 1
		g.checks = append(g.checks, sent)
	}
	which := fmt.Sprint(sent["external_id"])
	g.writes[which] = append(g.writes[which], time.Now())
	for _, check := range g.checks {
		if check["external_id"] == sent["external_id"] {
			check["output"] = sent["output"]
		}
	}
	if g.lose > 0 {
		g.lose--
		return &actions.NetworkError{Endpoint: call.Endpoint, Method: call.Method, Attempts: 1,
			Err: context.DeadlineExceeded}
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal([]byte(fmt.Sprintf(`{"id":%d}`, len(g.checks))), result)
}

// said returns names and titles of the check runs.
func (g *checkedCommit) said() string {
	var all []string
	for _, check := range g.checks {
		output, _ := check["output"].(map[string]any)
		all = append(all, fmt.Sprint(check["name"], ": ", output["title"]))
	}
	return strings.Join(all, "\n")
}

// written returns the number of times that check runs were written.
func (g *checkedCommit) written() (count int) {
	for _, writes := range g.writes {
		count += len(writes)
	}
	return count
}

// wait makes the listener say which jobs wait, of one run each.
func (g *checkedCommit) wait(runs ...int64) {
	g.Helper()
	set := g.set()
	set.Status.Listener = &v1alpha1.ListenerStatus{State: v1alpha1.ListenerStateListening}
	for _, run := range runs {
		set.Status.Listener.Waiting = append(set.Status.Listener.Waiting, v1alpha1.WaitingJob{
			Repository: cmp.Or(g.in[run], "acme/web"), RunID: run, JobID: fmt.Sprint(run), Name: "build",
			AssignedAt: metav1.NewTime(time.Now().Add(-time.Hour)),
		})
	}
	if err := g.api.Status().Update(g.Context(), set); err != nil {
		g.Fatal(err)
	}
}

// pass reconciles every ten seconds for some time; restarted, the manager is killed now and then.
func (g *checkedCommit) passes(d time.Duration, restarted bool) {
	g.Helper()
	for i := range int(d / (10 * time.Second)) {
		if restarted && i%3 == 2 {
			g.restart()
		}
		g.reconcile()
		controllertest.Elapse(10 * time.Second)
	}
}

func checksTest(t *testing.T, wanted *v1alpha1.Feedback, test func(*checkedCommit)) {
	t.Helper()
	set := newSet(1, func(s *v1alpha1.EphemeralRunnerSet) {
		s.Spec.EphemeralRunnerSpec.GitHubConfigUrl = "https://github.com/acme"
	})
	origin := controllertest.Origin(set)
	origin.Spec.Feedback, origin.Spec.MaxRunners = wanted, new(1)
	inBubble(t, func(f *fixture) {
		f.ownOrigin = true
		github := &checkedCommit{fixture: f, writes: map[string][]time.Time{}}
		f.configure(func(o *ephemeralrunnerset.Options) {
			o.Budget = &feedback.Budget{}
			o.REST = func(context.Context, credentials.Reference) (*rest.Client, error) { return rest.New(github), nil }
		})
		f.settle()
		f.bringUp()
		f.settle()
		test(github)
	}, set, origin)
}

// The listener lists jobs after seconds; authors hear of those that wait for long.
func TestNobodyIsToldOfAShortWait(t *testing.T) {
	after := metav1.Duration{Duration: 2 * time.Hour}
	checksTest(t, &v1alpha1.Feedback{Checks: true, CheckAfter: &after}, func(g *checkedCommit) {
		g.wait(41)
		g.passes(58*time.Minute, false)
		if len(g.checks) != 0 || len(g.set().Status.Checks) != 0 {
			g.Errorf("told too early:\n%s", g.said())
		}
		g.passes(3*time.Minute, false)
		if len(g.checks) != 1 {
			g.Errorf("after two hours said:\n%s", g.said())
		}
	})
}

func TestJobsThatWaitAreToldOnTheirCommitUntilTheyDoNot(t *testing.T) {
	for name, restarted := range map[string]bool{"undisturbed": false, "restarted again and again": true} {
		t.Run(name, func(t *testing.T) {
			checksTest(t, &v1alpha1.Feedback{Checks: true}, func(g *checkedCommit) {
				g.lose = 1
				g.wait(41, 42)
				g.passes(3*time.Minute, restarted)
				if said := g.said(); len(g.checks) != 2 ||
					!strings.Contains(said, "Runners set: waiting (MaxRunnersReached), CI #41 / build: Waiting for a runner since") {
					g.Fatalf("said:\n%s", said)
				}
				if len(g.set().Status.Checks) != 2 {
					g.Errorf("recorded %v", g.set().Status.Checks)
				}
				g.wait()
				g.passes(3*time.Minute, restarted)
				if said := g.said(); len(g.checks) != 2 || strings.Count(said, "No longer waiting") != 2 ||
					len(g.set().Status.Checks) != 0 {
					g.Errorf("recorded %v, said:\n%s", g.set().Status.Checks, said)
				}
				read, written := g.reads, g.written()
				g.passes(5*time.Minute, restarted)
				if g.reads != read || g.written() != written {
					g.Error("GitHub is asked although there is nothing to tell")
				}
			})
		})
	}
}

// A job that GitHub takes away and assigns again, and a reason that comes and goes, change the check run every minute.
func TestACheckIsUpdatedOnceAMinute(t *testing.T) {
	checksTest(t, &v1alpha1.Feedback{Checks: true}, func(g *checkedCommit) {
		for range 20 {
			g.wait(41)
			g.passes(70*time.Second, false)
			g.wait()
			g.passes(40*time.Second, false)
		}
		if g.written() < 5 {
			g.Fatalf("written %d times:\n%s", g.written(), g.said())
		}
		for which, writes := range g.writes {
			for i := 1; i < len(writes); i++ {
				if since := writes[i].Sub(writes[i-1]); since < time.Minute {
					g.Errorf("%s was written %s after the last time", which, since)
				}
			}
		}
	})
}

func TestALostJobIsToldOnItsCommitOnce(t *testing.T) {
	for name, restarted := range map[string]bool{"undisturbed": false, "restarted again and again": true} {
		t.Run(name, func(t *testing.T) {
			checksTest(t, &v1alpha1.Feedback{Checks: true}, func(g *checkedCommit) {
				g.loseJob("Evicted")
				g.passes(10*time.Minute, restarted)
				if said := g.said(); said != "Runners set: lost (Evicted), CI #42 / build: Lost with the runner: its pod was evicted "+
					"from its node" {
					g.Errorf("said:\n%s", said)
				}
				if g.written() != 1 && !restarted {
					g.Errorf("written at %v, want once", g.writes)
				}
			})
		})
	}
}

func (g *checkedCommit) loseJob(cause v1alpha1.LostCause) { g.fixture.lose(cause, g.runners()[0]) }

func TestWithoutThePermissionTheConditionSaysSoOnce(t *testing.T) {
	checksTest(t, &v1alpha1.Feedback{Checks: true}, func(g *checkedCommit) {
		g.refuse = &actions.Error{Endpoint: actions.EndpointCreateCheckRun, StatusCode: 403,
			Message: "Resource not accessible by integration"}
		g.wait(41, 42, 43)
		g.passes(30*time.Minute, false)
		controllertest.WantCondition(t, g.set().Status.Conditions, v1alpha1.ConditionFeedbackPermitted,
			metav1.ConditionFalse, v1alpha1.ReasonPermissionMissing)
		if g.reads > 3 {
			g.Errorf("%d calls in half an hour, want that it is not tried again", g.reads)
		}
		if c := meta.FindStatusCondition(g.set().Status.Conditions,
			v1alpha1.ConditionFeedbackPermitted); !strings.Contains(c.Message, "Checks: read and write") {
			g.Error(c.Message)
		}
		g.refuse = nil
		g.passes(70*time.Minute, false)
		controllertest.WantCondition(t, g.set().Status.Conditions, v1alpha1.ConditionFeedbackPermitted,
			metav1.ConditionTrue,
			"Permitted")
		if len(g.checks) != 3 {
			g.Errorf("said:\n%s", g.said())
		}
	})
}

func TestWithoutChecksNothingIsAsked(t *testing.T) {
	checksTest(t, nil, func(g *checkedCommit) {
		g.wait(41)
		g.loseJob("Evicted")
		g.passes(5*time.Minute, false)
		if g.reads+len(g.writes) > 0 || len(g.set().Status.Checks) > 0 {
			g.Errorf("%d reads, %d writes, records %v", g.reads, len(g.writes), g.set().Status.Checks)
		}
	})
}

// When the value is taken away, what was said is brought to its end.
func TestChecksThatAreTurnedOffAreResolved(t *testing.T) {
	checksTest(t, &v1alpha1.Feedback{Checks: true}, func(g *checkedCommit) {
		g.wait(41)
		g.passes(2*time.Minute, false)
		origin := &v1alpha1.AutoscalingRunnerSet{}
		controllertest.Read(t, g.api, setKey, origin)
		origin.Spec.Feedback = nil
		if err := g.api.Update(g.Context(), origin); err != nil {
			g.Fatal(err)
		}
		g.passes(3*time.Minute, false)
		if said := g.said(); !strings.Contains(said, "No longer waiting") || len(g.set().Status.Checks) != 0 {
			g.Errorf("recorded %v, said:\n%s", g.set().Status.Checks, said)
		}
	})
}

// Jobs run one after the other on a set that is full: between the end of a runner and the start of the next, nothing
// else keeps jobs waiting.
func TestRunnersThatComeAndGoTurnNoCheck(t *testing.T) {
	checksTest(t, &v1alpha1.Feedback{Checks: true}, func(g *checkedCommit) {
		g.wait(41)
		for range 10 {
			g.passes(time.Minute, false)
			for _, r := range g.runners() {
				r.Status.Phase, r.Status.Ready, r.Status.JobID,
					r.Status.JobResult = v1alpha1.EphemeralRunnerPhaseSucceeded, false,
					"8-1", "succeeded"
				if err := g.api.Status().Update(g.Context(), &r); err != nil {
					g.Fatal(err)
				}
			}
			g.passes(30*time.Second, false)
			g.bringUp()
		}
		if said := g.said(); g.written() != 1 || !strings.HasPrefix(said, "Runners set: waiting (MaxRunnersReached)") {
			g.Errorf("written %d times, want once:\n%s", g.written(), said)
		}
	})
}

// A cause for which jobs wait turns the check run after it has held for a minute.
func TestACauseTurnsOnceItHasHeld(t *testing.T) {
	checksTest(t, &v1alpha1.Feedback{Checks: true}, func(g *checkedCommit) {
		g.wait(41)
		g.passes(time.Minute, false)
		origin := &v1alpha1.AutoscalingRunnerSet{}
		limit := func(most int) {
			controllertest.Read(t, g.api, setKey, origin)
			origin.Spec.MaxRunners = &most
			if err := g.api.Update(g.Context(), origin); err != nil {
				g.Fatal(err)
			}
		}
		for range 5 {
			limit(0)
			g.passes(40*time.Second, false)
			limit(1)
			g.passes(40*time.Second, false)
		}
		if g.written() != 1 {
			g.Errorf("written %d times while causes came and went:\n%s", g.written(), g.said())
		}
		limit(0)
		g.passes(3*time.Minute, false)
		if said := g.said(); !strings.Contains(said, "waiting (MaxRunnersZero)") ||
			!strings.Contains(said, "No longer waiting") {
			g.Errorf("said:\n%s", said)
		}
	})
}
