package ephemeralrunnerset_test

import (
	"context"
	"encoding/json"
	"net/http"
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

// listedRun is a GitHub with one workflow run, whose jobs it lists.
type listedRun struct {
	*endedRun
	refusal error
	lists   int
	// queued is when its jobs were.
	queued time.Time
}

func (r *listedRun) CallREST(_ context.Context, _ actions.RESTRequest, result any) error {
	r.lists++
	if r.refusal != nil {
		return r.refusal
	}
	return json.Unmarshal([]byte(strings.ReplaceAll(`{"total_count":3,"jobs":[
		{"id":501,"run_attempt":2,"name":"build","status":"in_progress","runner_name":"RUNNER"},
		{"id":502,"run_attempt":2,"name":"test","status":"queued"}, {"id":503,"run_attempt":2,"name":"docs","status":"queued"}]}`,
		"RUNNER", r.runner)), result)
}

// start has a runner start a job of the run, queued a while ago.
func (r *listedRun) start(number int, name string) {
	f := r.fixture
	f.Helper()
	runner := f.runners()[number]
	status := &runner.Status
	status.JobID, status.JobDisplayName, status.JobRepositoryName, status.WorkflowRunID = "id-"+name, name, "acme/web", 42
	status.Phases = &v1alpha1.RunnerPhases{Queued: new(metav1.NewTime(r.queued))}
	if err := f.api.Status().Update(f.Context(), &runner); err != nil {
		f.Fatal(err)
	}
	for range 3 {
		f.reconcile()
		controllertest.Elapse(2 * time.Second)
	}
}

func linkTest(t *testing.T, wanted *v1alpha1.Feedback, check func(*listedRun)) {
	t.Helper()
	set := newSet(3, func(s *v1alpha1.EphemeralRunnerSet) {
		s.Spec.EphemeralRunnerSpec.GitHubConfigUrl = "https://github.com/acme"
	})
	origin := controllertest.Origin(set)
	origin.Spec.Feedback = wanted
	inBubble(t, func(f *fixture) {
		f.ownOrigin = true
		run := &listedRun{endedRun: &endedRun{fixture: f}, queued: time.Now()}
		f.configure(func(o *ephemeralrunnerset.Options) {
			o.Budget = &feedback.Budget{}
			o.REST = func(context.Context, credentials.Reference) (*rest.Client, error) { return rest.New(run), nil }
		})
		f.settle()
		f.bringUp()
		f.settle()
		run.runner = f.runners()[0].Name
		check(run)
	}, set, origin)
}

// A run is read once, however many of its jobs begin, and names those that it lists.
func TestARunIsReadOnceForTheLogsOfItsJobs(t *testing.T) {
	linkTest(t, &v1alpha1.Feedback{JobLinks: true}, func(run *listedRun) {
		run.start(0, "build")
		run.start(1, "test")
		run.start(2, "deploy") // it needed the others
		for i, want := range []int64{501, 502, 0} {
			status := run.runners()[i].Status
			if status.JobNumber != want || (want > 0) != (status.JobAttempt == 2) {
				t.Errorf("job %d: number %d of attempt %d, want %d", i, status.JobNumber, status.JobAttempt, want)
			}
		}
		if run.lists != 1 {
			t.Errorf("the run was read %d times", run.lists)
		}
	})
}

func TestGitHubIsNotAskedForLogsThatNobodyWants(t *testing.T) {
	for name, wanted := range map[string]*v1alpha1.Feedback{"no feedback": nil, "other feedback": {Checks: true}} {
		linkTest(t, wanted, func(run *listedRun) {
			if run.start(0, "build"); run.lists > 0 || run.runners()[0].Status.JobNumber != 0 {
				t.Errorf("%s: read %d times", name, run.lists)
			}
		})
	}
}

// Without the right nothing is asked for an hour, and the set says what it lacks.
func TestLogsAreAskedForWithTheRightOnly(t *testing.T) {
	linkTest(t, &v1alpha1.Feedback{JobLinks: true}, func(run *listedRun) {
		run.refusal = &actions.Error{StatusCode: http.StatusForbidden, Message: "Resource not accessible by integration"}
		run.start(0, "build")
		asked := run.lists
		permitted := meta.FindStatusCondition(run.set().Status.Conditions, v1alpha1.ConditionFeedbackPermitted)
		if asked != 1 || permitted == nil || permitted.Status != metav1.ConditionFalse ||
			!strings.Contains(permitted.Message, "Actions: read") {
			t.Errorf("asked %d times; %+v", asked, permitted)
		}
		run.start(1, "test")
		if run.lists != asked {
			t.Errorf("asked again at once: %d times", run.lists)
		}
	})
}
