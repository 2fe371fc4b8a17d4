package ephemeralrunnerset_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	eventsv1 "k8s.io/api/events/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/github/rest"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/feedback"
	"github.com/harrier-ci/harrier/internal/setmetrics"
)

// endedRun is a GitHub with one workflow run that has ended, with one cancelled job.
type endedRun struct {
	*fixture
	runner string
	// again is set when the job runs again, asked counts the calls that asked for it, and looked all others.
	again         bool
	newer         string // run, as GitHub lists it
	asked, looked int
	refuse        error
}

func (r *endedRun) ConfigURL() *actions.ConfigURL {
	config, err := actions.ParseConfigURL("https://github.com/acme")
	if err != nil {
		r.Fatal(err)
	}
	return config
}

func (r *endedRun) Account() actions.Account {
	return actions.Account{Name: "App 1", Key: "1", Proven: true}
}

func (r *endedRun) Now() time.Time { return time.Now() }

func (r *endedRun) CallREST(_ context.Context, call actions.RESTRequest, result any) error {
	if result == nil {
		r.asked++
		if written := r.rerunOf(r.runner); written == nil || written.State != v1alpha1.RerunAsked ||
			written.Attempt != 1 {
			r.Errorf("GitHub is asked while %+v is written down", written)
		}
		r.again = r.refuse == nil
		return r.refuse
	}
	r.looked++
	answer := `{"id":42,"run_attempt":1,"status":"completed","total_count":1,"workflow_id":3,"workflow_runs":[NEWER],` +
		`"jobs":[{"id":5,"status":"completed","conclusion":"cancelled","runner_name":"RUNNER"}]}`
	if r.again {
		answer = `{"id":42,"run_attempt":2,"status":"in_progress","total_count":1,"jobs":[{"id":6,"status":"queued"}]}`
	}
	return json.Unmarshal([]byte(strings.NewReplacer("RUNNER", r.runner, "NEWER", r.newer).Replace(answer)), result)
}

func (f *fixture) rerunOf(runner string) *v1alpha1.RerunStatus {
	f.Helper()
	found := &v1alpha1.EphemeralRunner{}
	if err := f.api.Get(f.Context(), client.ObjectKey{Namespace: setKey.Namespace, Name: runner}, found); err != nil {
		f.Fatal(err)
	}
	return found.Status.Rerun
}

// rerunEvents are the notes of the Events about what became of lost jobs.
func (f *fixture) rerunEvents() (notes []string) {
	f.Helper()
	var events eventsv1.EventList
	if err := f.api.List(f.Context(), &events); err != nil {
		f.Fatal(err)
	}
	for _, event := range events.Items {
		if event.Reason == "JobRerun" && event.Regarding.Name == setKey.Name && event.Related != nil {
			notes = append(notes, event.Note)
		}
	}
	return notes
}

// rerunTest has a set with one lost job, and passes for ten minutes; between them, restarted, the manager is killed.
func rerunTest(
	t *testing.T, wanted *v1alpha1.Feedback, restarted bool, refuse error, check func(*endedRun),
	changes ...func(*endedRun),
) {
	t.Helper()
	set := newSet(1, func(s *v1alpha1.EphemeralRunnerSet) {
		s.Spec.EphemeralRunnerSpec.GitHubConfigUrl = "https://github.com/acme"
	})
	origin := controllertest.Origin(set)
	origin.Spec.Feedback = wanted
	inBubble(t, func(f *fixture) {
		f.ownOrigin = true
		var run *endedRun
		f.configure(func(o *ephemeralrunnerset.Options) {
			o.Budget = &feedback.Budget{}
			o.REST = func(context.Context, credentials.Reference) (*rest.Client, error) { return rest.New(run), nil }
		})
		f.settle()
		f.bringUp()
		f.settle()
		run = &endedRun{fixture: f, runner: f.runners()[0].Name, refuse: refuse}
		for _, change := range changes {
			change(run)
		}
		f.lose("Evicted", f.runners()[0])
		for pass := range 60 {
			if restarted && pass%4 == 3 {
				f.restart()
			}
			f.reconcile()
			controllertest.Elapse(10 * time.Second)
		}
		check(run)
	}, set, origin)
}

func reruns() *v1alpha1.Feedback {
	return &v1alpha1.Feedback{RerunLostJobs: &v1alpha1.RerunLostJobs{MaxAttempts: 1,
		Causes: []v1alpha1.LostCause{v1alpha1.LostCauseEvicted}}}
}

func TestALostJobIsRunAgainOnceItIsWrittenDown(t *testing.T) {
	for name, restarted := range map[string]bool{"undisturbed": false, "restarted again and again": true} {
		t.Run(name, func(t *testing.T) {
			setmetrics.Delete(setKey)
			rerunTest(t, reruns(), restarted, nil, func(run *endedRun) {
				rerun := run.rerunOf(run.runner)
				if rerun == nil || rerun.State != v1alpha1.RerunDone || rerun.Attempt != 2 || rerun.Since.IsZero() ||
					run.asked != 1 {
					run.Errorf("%+v, asked %d times, want Done, once", rerun, run.asked)
				}
				if told := run.rerunEvents(); len(told) != 1 {
					run.Errorf("Events %q, want 1", told)
				}
			})
		})
	}
}

func TestWhatIsNotRunAgainIsTold(t *testing.T) {
	refusal := &actions.Error{Endpoint: actions.EndpointRerunFailedJobs, StatusCode: 404, Message: "Not Found"}
	rerunTest(t, reruns(), false, refusal, func(run *endedRun) {
		if rerun := run.rerunOf(run.runner); rerun == nil || rerun.State != v1alpha1.RerunGivenUp || run.asked != 1 {
			run.Errorf("%+v, asked %d times, want GivenUp, once", rerun, run.asked)
		}
		events := strings.Join(run.rerunEvents(), "\n")
		for _, part := range []string{"is not run again", "Not Found", "https://github.com/acme/web/actions/runs/42"} {
			if !strings.Contains(events, part) {
				run.Errorf("the Events lack %q: %s", part, events)
			}
		}
		if got := controllertest.Value(run, "gha_controller_jobs_rerun_total",
			labelsOf(setKey, "result", string(v1alpha1.RerunGivenUp))); got < 1 {
			run.Errorf("%v are counted", got)
		}
	})
}

// Yesterday's commit is not deployed over today's: that is told, and counted by itself.
func TestARunThatIsOvertakenIsToldAndCounted(t *testing.T) {
	setmetrics.Delete(setKey)
	overtaken := func(f *endedRun) { f.newer = `{"id":43,"run_number":8,"workflow_id":3}` }
	rerunTest(t, reruns(), false, nil, func(run *endedRun) {
		if rerun := run.rerunOf(run.runner); rerun == nil || rerun.State != v1alpha1.RerunGivenUp || run.asked != 0 {
			run.Errorf("%+v, asked %d times, want GivenUp, never", rerun, run.asked)
		}
		if told := run.rerunEvents(); len(told) != 1 || !strings.Contains(told[0], "run 8 of the workflow") {
			run.Errorf("Events %q", told)
		}
		if got := controllertest.Value(run, "gha_controller_jobs_rerun_total",
			labelsOf(setKey, "result", "NewerRun")); got != 1 {
			run.Errorf("%v are counted", got)
		}
	}, overtaken)
}

func TestWithoutTheValueNothingIsAsked(t *testing.T) {
	rerunTest(t, nil, false, nil, func(run *endedRun) {
		if rerun := run.rerunOf(run.runner); rerun != nil || run.asked+run.looked > 0 {
			run.Errorf("%+v, GitHub was asked %d times", rerun, run.asked+run.looked)
		}
	})
}

// A runner stays until it is decided whether its job is run again, however old it is.
func TestARunnerStaysUntilItsRerunIsDecided(t *testing.T) {
	limited := &actions.RateLimitedError{Until: time.Now().AddDate(100, 0, 0), Err: &actions.Error{StatusCode: 429}}
	rerunTest(t, reruns(), false, limited, func(run *endedRun) {
		for range 20 {
			controllertest.Elapse(time.Hour)
			run.publish(0)
			run.reconcile()
		}
		stays := func() bool {
			return slices.ContainsFunc(run.kept(), func(r v1alpha1.EphemeralRunner) bool {
				return r.Name == run.runner
			})
		}
		if rerun := run.rerunOf(run.runner); !stays() || rerun == nil || rerun.State != v1alpha1.RerunAsked {
			run.Fatalf("%+v, want Asked, and the runner kept", rerun)
		}
		for range 6 {
			controllertest.Elapse(time.Hour)
			run.reconcile()
		}
		if rerun := run.rerunOf(run.runner); stays() || rerun.State != v1alpha1.RerunGivenUp {
			run.Errorf("a day later: %+v, want GivenUp, and the runner gone", rerun)
		}
	})
}

// Whoever deletes a lost runner's object takes away what is known of its job: that is told, too.
func TestADeletedRunnersJobIsToldNotToRunAgain(t *testing.T) {
	limited := &actions.RateLimitedError{Until: time.Now().AddDate(100, 0, 0), Err: &actions.Error{StatusCode: 429}}
	rerunTest(t, reruns(), false, limited, func(run *endedRun) {
		for _, r := range run.runners() {
			if r.Name != run.runner {
				continue
			}
			r.Finalizers = append(r.Finalizers, "test/keeps")
			if err := errors.Join(run.api.Update(run.Context(), &r), run.api.Delete(run.Context(), &r)); err != nil {
				run.Fatal(err)
			}
		}
		run.reconcile()
		run.reconcile()
		if told := run.rerunEvents(); len(told) != 1 || !strings.Contains(told[0], "object was deleted") {
			run.Errorf("Events %q", told)
		}
	})
}

// A visit that GitHub did not answer is logged when it ends, not in each pass until the next.
func TestAnUnansweredVisitIsLoggedOnce(t *testing.T) {
	limited := &actions.RateLimitedError{Until: time.Now().AddDate(100, 0, 0), Err: &actions.Error{StatusCode: 429}}
	rerunTest(t, reruns(), false, limited, func(run *endedRun) {
		lines := 0
		ctx := log.IntoContext(run.Context(), funcr.New(func(_, line string) {
			if strings.Contains(line, "did not answer about a workflow run") {
				lines++
			}
		}, funcr.Options{}))
		run.restart()
		run.watch.Show(run.Context(), run.runners())
		for range 5 {
			if _, err := run.controller.Reconcile(ctx, ctrl.Request{NamespacedName: setKey}); err != nil {
				run.Fatal(err)
			}
			synctest.Wait()
		}
		if lines != 1 {
			run.Errorf("%d lines about one call", lines)
		}
	})
}
