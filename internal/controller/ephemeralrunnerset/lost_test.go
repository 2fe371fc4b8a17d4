package ephemeralrunnerset_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/setmetrics"
)

// lose makes the runners lose their jobs, as their own controller would say it.
func (f *fixture) lose(cause v1alpha1.LostCause, runners ...v1alpha1.EphemeralRunner) {
	f.Helper()
	for i := range runners {
		r := runners[i].DeepCopy()
		r.Status.Phase, r.Status.Ready, r.Status.LostCause = v1alpha1.EphemeralRunnerPhaseFailed, false, cause
		r.Status.JobID, r.Status.JobDisplayName, r.Status.JobRepositoryName, r.Status.WorkflowRunID = "8-1", "build",
			"acme/web", 42
		r.Status.JobWorkflowRef = "acme/web/.github/workflows/ci.yaml@refs/heads/main"
		r.Status.Reason, r.Status.Message = string(cause), "the pod was evicted (node worker-3)"
		if err := f.api.Status().Update(f.Context(), r); err != nil {
			f.Fatal(err)
		}
	}
}

// losses returns the notes of the Events about lost jobs that are new since the last call.
func (f *fixture) losses() (notes []string) {
	f.Helper()
	var events eventsv1.EventList
	if err := f.api.List(f.Context(), &events); err != nil {
		f.Fatal(err)
	}
	for _, event := range events.Items {
		if event.Reason == "JobLost" {
			if !f.toldLosses[event.Name] {
				notes = append(notes, event.Note)
			}
			f.toldLosses[event.Name] = true
		}
	}
	return notes
}

// forgetEvents lets hours pass, after which no Event is there any more, and none is made again.
func (f *fixture) forgetEvents() {
	f.Helper()
	controllertest.Elapse(2 * time.Hour)
	if err := f.api.DeleteAllOf(f.Context(), &eventsv1.Event{}, client.InNamespace(setKey.Namespace)); err != nil {
		f.Fatal(err)
	}
	clear(f.toldLosses)
	f.restart()
	f.settle()
	if told := f.losses(); len(told) > 0 {
		f.Errorf("told again hours later: %q", told)
	}
}

// kept returns the runners that nobody has deleted.
func (f *fixture) kept() []v1alpha1.EphemeralRunner {
	return slices.DeleteFunc(f.runners(), func(r v1alpha1.EphemeralRunner) bool { return r.DeletionTimestamp != nil })
}

func (f *fixture) settle() {
	f.Helper()
	for range 3 {
		f.reconcile()
		controllertest.Elapse(reportPeriod)
	}
}

func TestLostJobIsToldASingleTime(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.bringUp()
		f.settle()
		controllertest.Events(f.recorder)
		lost := f.runners()[0]
		f.lose("Evicted", lost)
		f.settle()
		told := f.losses()
		if len(told) != 1 {
			t.Fatalf("Events %q, want one", told)
		}
		for _, part := range []string{"acme/web", `"build"`, "ci.yaml", "run 42", "8-1", lost.Name, "Evicted", "worker-3",
			"run it again", "https://github.com/acme/web/actions/runs/42"} {
			if !strings.Contains(told[0], part) {
				t.Errorf("the Event %q lacks %q", told[0], part)
			}
		}
		f.restart()
		f.settle()
		f.publish(1)
		f.settle()
		if status := f.set().Status; status.LostJobs != 1 || !slices.Equal(status.LostRunners, []types.UID{lost.UID}) ||
			len(f.losses()) > 0 {
			t.Errorf("status %+v, want one lost job, told a single time", status)
		}
		f.lose("OOMKilled", f.runners()[1])
		f.settle()
		if status := f.set().Status; status.LostJobs != 2 || len(f.losses()) == 0 {
			t.Errorf("status %+v, want two lost jobs", status)
		}
	}, newSet(3, func(s *v1alpha1.EphemeralRunnerSet) {
		s.Spec.EphemeralRunnerSpec.GitHubConfigUrl = "https://github.com/acme"
	}))
}

// A manager is killed in the second of a loss, when it has counted it: the next one makes the Event from the status.
func TestALossIsToldByWhoeverComesNext(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.bringUp()
		f.settle()
		lost := f.runners()[0]
		f.lose("Evicted", lost)
		f.killed = true
		for range 3 {
			if _, err := f.pass(); err == nil && len(f.set().Status.LastLosses) > 0 {
				t.Error("the pass succeeded without its Event")
			}
			controllertest.Elapse(reportPeriod)
		}
		status := f.set().Status
		if len(status.LastLosses) != 1 || status.LostJobs != 1 || len(f.losses()) > 0 {
			t.Fatalf("status %+v, want one loss, not told yet", status)
		}
		if record := status.LastLosses[0]; record.Runner != lost.Name || record.Cause != "Evicted" ||
			record.Job != "build" || record.RunID != 42 || !strings.Contains(record.Message, "worker-3") {
			t.Errorf("the status says %+v", record)
		}
		f.killed = false
		for range 3 {
			f.restart()
			f.settle()
		}
		if told := f.losses(); len(told) != 1 || !strings.Contains(told[0], "Evicted") {
			t.Errorf("told %q, want once", told)
		}
		f.forgetEvents()
	}, newSet(2))
}

func TestLateCacheCountsNoJobTwice(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.bringUp()
		f.settle()
		f.lose("Evicted", f.runners()[0])
		shown := f.set()
		f.settle()
		f.losses()
		f.restart() // another manager takes over, with a cache that is late
		f.cache.set = shown
		f.settle()
		if status := f.set().Status; status.LostJobs != 1 || len(f.losses()) > 0 {
			t.Errorf("status %+v, want one lost job, told before", status)
		}
		f.cache.set = nil
		f.settle()
		if status := f.set().Status; status.LostJobs != 1 || len(f.losses()) > 0 {
			t.Errorf("status %+v, want one lost job, told before", status)
		}
	}, newSet(2))
}

// The count of the AutoscalingRunnerSet outlives its runner sets.
func TestLostJobsOfAFormerRunnerSetCount(t *testing.T) {
	set := newSet(1)
	origin := controllertest.Origin(set)
	origin.Status.LostJobs = 7
	inBubble(t, func(f *fixture) {
		f.ownOrigin = true
		f.settle()
		f.bringUp()
		f.settle()
		f.lose("NodeLost", f.runners()[0])
		f.settle()
		if got := f.set().Status.LostJobs; got != 8 {
			t.Errorf("%d lost jobs, want 8", got)
		}
	}, set, origin)
}

// Evidence is kept for an hour, even after a later runner took a job and the template changed, and costs nothing of
// failedHistoryLimit. Its object goes after that, and the count stays.
func TestRunnersWithALostJobAreKept(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.remove = nil
		f.settle()
		f.bringUp()
		f.settle()
		f.lose("Evicted", f.runners()...)
		f.settle()
		f.publish(0)
		for range 20 {
			f.settle()
			controllertest.Elapse(time.Minute)
		}
		if got := len(f.kept()); got != 5 {
			t.Fatalf("%d runners are kept after 20 minutes, want all five", got)
		}
		f.restart()
		f.settle()
		for range 61 {
			f.settle()
			controllertest.Elapse(time.Minute)
		}
		f.settle()
		if left := len(f.kept()); left != 0 {
			t.Errorf("%d runners are kept after an hour", left)
		}
		for _, r := range f.runners() {
			r.Finalizers = nil
			if err := f.api.Update(t.Context(), &r); err != nil {
				t.Fatal(err)
			}
		}
		f.settle()
		if status := f.set().Status; status.LostJobs != 5 || len(status.LostRunners) != 0 {
			t.Errorf("status %+v, want five lost jobs of no runners", status)
		}
	}, newSet(5, func(s *v1alpha1.EphemeralRunnerSet) { s.Spec.FailedHistoryLimit = new(0) }))
}

// A manager that takes over knows from the runners themselves when their jobs were lost: GitHub has given these up, so
// other jobs get runners immediately, whether or not GitHub answers, and the evidence goes in time.
func TestKeptRunnersHoldNothingAfterARestart(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.bringUp()
		f.settle()
		for _, r := range f.runners() {
			report.SetConditions(&r.Status.Conditions, 1, time.Now(), report.Unready("Evicted", "evicted", true)...)
			f.lose("Evicted", r)
		}
		f.settle()
		f.publish(0)
		controllertest.Elapse(heldTimeout)
		f.settle()
		f.remove, f.asked = errors.New("GitHub is away"), 0
		f.restart()
		f.publish(3)
		f.settle()
		if kept, all := 3, len(f.kept()); all != kept+3 {
			t.Fatalf("%d runners, want %d that are kept and 3 for new jobs", all, kept)
		}
		if f.asked > 0 {
			t.Errorf("GitHub was asked %d times about runners whose jobs it gave up long ago", f.asked)
		}
		controllertest.Elapse(maxFailedHistoryAge - heldTimeout)
		f.settle()
		if all := len(f.kept()); all != 3 {
			t.Errorf("%d runners an hour after the loss, want 3", all)
		}
	}, newSet(3))
}

// refusing is a client whose status patches of sets are refused, as by a webhook.
type refusing struct{ client.WithWatch }

func (c refusing) Status() client.SubResourceWriter { return refusingWriter{c.WithWatch.Status()} }

type refusingWriter struct{ client.SubResourceWriter }

func (w refusingWriter) Patch(
	ctx context.Context, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption,
) error {
	if _, ok := object.(*v1alpha1.EphemeralRunnerSet); ok {
		return apierrors.NewInternalError(errors.New("failed calling webhook"))
	}
	return w.SubResourceWriter.Patch(ctx, object, patch, options...)
}

// A loss that can't be counted costs no other job its runner.
func TestRunnersAreCreatedAlthoughALossCannotBeCounted(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.bringUp()
		f.settle()
		f.lose("Evicted", f.runners()...)
		f.publish(3)
		controllertest.Elapse(reportPeriod)
		f.cache.WithWatch = refusing{f.api}
		if _, err := f.pass(); err == nil {
			t.Error("the pass succeeded, want it repeated")
		}
		f.wantRunners(3)
		f.cache.WithWatch = f.api
		f.settle()
		if status := f.set().Status; status.LostJobs != 1 || len(f.losses()) == 0 {
			t.Errorf("status %+v, want one lost job, told", status)
		}
	}, newSet(1))
}

// A zone is lost: every job counts, the newest hundred runners stay, and a few Events say it.
func TestManyJobsAreLostTogether(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.bringUp()
		f.publish(130)
		f.settle()
		f.lose("NodeLost", f.runners()...)
		f.publish(0)
		f.settle()
		told := f.losses()
		if others := strings.Join(controllertest.Events(f.recorder), "\n"); len(told) != 10 ||
			!strings.Contains(others, "120 more") {
			t.Errorf("%d Events, and %s", len(told), others)
		}
		if told := f.set().Status.LastLosses; len(told) != 10 {
			t.Errorf("%d losses stand in the status", len(told))
		}
		if got := f.set().Status.LostJobs; got != 130 {
			t.Errorf("%d lost jobs, want 130", got)
		}
		controllertest.Elapse(heldTimeout)
		f.settle()
		if kept := len(f.kept()); kept != lostHistoryLimit {
			t.Errorf("%d runners are kept, want %d", kept, lostHistoryLimit)
		}
	}, newSet(130))
}

// A runner set that is being deleted still counts what its last runners lose.
func TestLostJobOfASetThatIsBeingDeleted(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.bringUp()
		f.settle()
		if err := f.api.Delete(t.Context(), f.set()); err != nil {
			t.Fatal(err)
		}
		f.settle()
		f.lose("PodDeleted", f.runners()...)
		f.settle()
		if status := f.set().Status; status.LostJobs != 1 || len(f.losses()) == 0 {
			t.Errorf("status %+v, want one lost job, told", status)
		}
	}, newSet(1))
}

func TestLostJobsAreMeasuredByCause(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.configure(func(o *ephemeralrunnerset.Options) { o.PublishMetrics = true })
		set := setKey
		setmetrics.Delete(set)
		f.settle()
		f.bringUp()
		f.settle()
		series := func() int { return len(controllertest.Series(t, "gha_controller_jobs_lost_total", labelsOf(set))) }
		if got := series(); got != len(v1alpha1.LostCauses) {
			t.Errorf("%d series before the first loss, want one for each of %d causes", got, len(v1alpha1.LostCauses))
		}
		runners := f.runners()
		f.lose("Evicted", runners[:2]...)
		f.lose("SomethingInvented", runners[2])
		f.settle()
		for cause, want := range map[v1alpha1.LostCause]float64{"Evicted": 2, "Unknown": 1, "OOMKilled": 0} {
			if got := controllertest.Value(t, "gha_controller_jobs_lost_total",
				labelsOf(set, "cause", string(cause))); got != want {
				t.Errorf("%g jobs lost to %s, want %g", got, cause, want)
			}
		}
		for state, want := range map[roster.State]float64{{Name: "lost", Reason: "Evicted"}: 2,
			{Name: "failed", Reason: ""}: 0, {Name: "failed", Reason: "Evicted"}: 0} {
			if got := runnersIn(t, set, state); got != want {
				t.Errorf("%g runners %v, want %g", got, state, want)
			}
		}
		setmetrics.Delete(set)
		if got := series(); got != 0 {
			t.Errorf("%d series of a set that is gone", got)
		}
	}, newSet(3))
}
