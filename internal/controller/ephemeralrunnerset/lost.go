package ephemeralrunnerset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/feedback"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/pool"
	"github.com/harrier-ci/harrier/internal/reconcile"
	"github.com/harrier-ci/harrier/internal/setmetrics"
)

// A runner's status.lostCause is the record of a lost job. The set counts each such runner a single time: one patch,
// conditional on the resourceVersion that was seen, raises lostJobs and adds the runners to lostRunners. A runner's
// object doesn't go before that, so neither a restart nor a stale cache makes a job count twice or never.

// If many jobs are lost together, as with a zone, lostEventsAtOnce of them have an Event of their own; another Event
// has the number of the others.
const lostEventsAtOnce = 10

// reasonJobLost is the reason of the Event about a lost job.
const reasonJobLost = "JobLost"

var jobsLost = setmetrics.Counter("jobs_lost_total",
	"Jobs that were lost, by cause: their pods ended before GitHub had a result from the runner.", "cause")

// countLost counts the lost jobs that have not been counted yet, and then tells them by metric and Event. The count
// goes on from the AutoscalingRunnerSet's, which outlives a runner set.
func (c *Controller) countLost(ctx context.Context, w *world) error {
	set, m := w.Object, w.Memory
	counted := sets.New(set.Status.LostRunners...)
	var lost []*roster.Runner
	var still []types.UID
	for _, r := range w.views {
		switch {
		case counted.Has(r.UID):
			still = append(still, r.UID)
		case r.Lost():
			lost = append(lost, r)
		}
	}
	if len(lost) == 0 && len(still) == len(set.Status.LostRunners) {
		return nil
	}
	if due := m.lostCountedAt.Add(reportInterval); w.Now.Before(due) {
		w.RequeueAt(due)
		return nil
	}
	if w.originErr != nil {
		return w.originErr
	}
	before := set.DeepCopy()
	set.Status.LostJobs += len(lost)
	if w.origin != nil {
		set.Status.LostJobs = max(before.Status.LostJobs, w.origin.Status.LostJobs) + len(lost)
	}
	for _, r := range lost {
		still = append(still, r.UID)
	}
	set.Status.LostRunners = still
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.options.Client.Status().Patch(ctx, set, patch); err != nil {
		before.DeepCopyInto(set)
		w.RequeueAt(w.Now.Add(reportInterval))
		if kube.IgnoreOvertaken(err) == nil {
			return nil
		}
		return fmt.Errorf("count lost jobs: %w", err)
	}
	m.lostCountedAt = c.options.Clock.Now()
	c.recordLost(ctx, w, lost)
	return nil
}

// recordLost tells about lost jobs that have just been counted. It does so on the AutoscalingRunnerSet, because a user
// looks there.
func (c *Controller) recordLost(ctx context.Context, w *world, lost []*roster.Runner) {
	var about runtime.Object = w.Object
	if w.origin != nil {
		about = w.origin
	}
	for i, r := range lost {
		jobsLost.WithLabelValues(w.Memory.scaleSet.Name, w.Memory.scaleSet.Namespace, string(r.LostJob.Cause)).Inc()
		runner := &v1alpha1.EphemeralRunner{}
		if i >= lostEventsAtOnce || c.options.Client.Get(ctx,
			client.ObjectKey{Namespace: w.Object.Namespace, Name: r.Name},
			runner) != nil {
			continue // the last Event counts it
		}
		report.RecordEvent(ctx, c.options.Recorder, about, runner,
			report.Warning(reasonJobLost, "RunJobs", lostNote(runner, r.LostJob.Cause)))
	}
	if more := len(lost) - lostEventsAtOnce; more > 0 {
		report.RecordEvent(ctx, c.options.Recorder, about, w.Object,
			report.Warning(reasonJobLost, "RunJobs", fmt.Sprintf(
				"%d more jobs were lost at the same time: kubectl get ephemeralrunners -n %s lists the latest with "+
					"their causes for an hour; run them again on GitHub", more, w.Object.Namespace)))
	}
}

// lostNote names a lost job, its cause and what its author can do. Every text in it comes from GitHub or a user and may
// be long; the advice must not be cut off.
func lostNote(runner *v1alpha1.EphemeralRunner, cause v1alpha1.LostCause) string {
	status := &runner.Status
	job := "a job that GitHub has not named"
	if status.HadJob() {
		job = fmt.Sprintf("job %q of %s (workflow %s, run %d, job id %s)", report.Truncate(status.JobDisplayName, 120),
			report.Truncate(status.JobRepositoryName, 140),
			report.Truncate(cmp.Or(status.JobWorkflowRef, "unknown"), 160),
			status.WorkflowRunID, report.Truncate(cmp.Or(status.JobID, fmt.Sprint(status.JobRequestID)), 60))
	}
	return fmt.Sprintf("%s was lost on runner %s: %s: %s; its author can run it again: %s", job, runner.Name, cause,
		report.Truncate(status.Message, 240), runPage(runner))
}

// repositoryName matches every OWNER/REPO that GitHub allows.
var repositoryName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}$`)

// runPage returns the address of the job's workflow run, or where to look for it.
func runPage(runner *v1alpha1.EphemeralRunner) string {
	address, err := url.Parse(runner.Spec.GitHubConfigUrl)
	if err != nil || address.Host == "" || runner.Status.WorkflowRunID <= 0 ||
		!repositoryName.MatchString(runner.Status.JobRepositoryName) {
		return "on the page of its workflow run on GitHub"
	}
	return fmt.Sprintf("%s://%s/%s/actions/runs/%d", address.Scheme, address.Host, runner.Status.JobRepositoryName,
		runner.Status.WorkflowRunID)
}

// reasonJobRerun is the reason of the Event about what has become of a lost job.
const reasonJobRerun = "JobRerun"

var jobsRerun = setmetrics.Counter("jobs_rerun_total",
	"Lost jobs of scale sets with feedback.rerunLostJobs, by result: run again (Done), or not (GivenUp).", "result")

// errRunnerDeleted is the cause if a lost job is not run again because nothing is known of it any more.
var errRunnerDeleted = errors.New("its runner's object was deleted")

// visits has the memory of each workflow run with lost jobs. After a restart each is visited again, which does no harm.
type visits map[feedback.Run]*visit

type visit struct {
	last *pool.Last[*feedback.Sighting]
	// intents are the runners whose reruns the last visit has asked for, or would have.
	intents sets.Set[string]
}

// rerunLost has GitHub run lost jobs again, if the set's user wants that. What is decided is written to the runners
// first; the visit that follows asks GitHub for what is written there.
func (c *Controller) rerunLost(ctx context.Context, w *world) error {
	policy := feedback.PolicyOf(&w.origin.Spec)
	if policy == nil {
		w.Memory.visits = nil
		return nil
	}
	if w.Memory.visits == nil {
		w.Memory.begin(jobsRerun, string(v1alpha1.RerunDone), string(v1alpha1.RerunGivenUp))
	}
	runs, undecided, dropped := map[feedback.Run][]*feedback.Lost{}, []*feedback.Lost(nil), []*feedback.Lost(nil)
	for _, r := range w.views {
		switch {
		case !r.Lost():
			continue
		case r.Deleting:
			dropped = append(dropped, r.LostJob)
			continue
		}
		if r.LostJob.Undecided() {
			undecided = append(undecided, r.LostJob)
		}
		runs[r.LostJob.Run] = append(runs[r.LostJob.Run], r.LostJob)
	}
	if given := append(feedback.GiveUp(dropped, errRunnerDeleted), policy.Screen(undecided, w.Now)...); len(given) > 0 {
		return c.writeVerdicts(ctx, w, given) // the watch brings the next pass
	}
	// the oldest first, if not all may be looked at
	slices.SortStableFunc(undecided, func(a, b *feedback.Lost) int { return a.At.Compare(b.At) })
	visited := visits{}
	var errs []error
	for _, l := range undecided {
		if visited[l.Run] != nil {
			continue
		}
		of := w.Memory.visits[l.Run]
		if of == nil {
			of = &visit{last: &pool.Last[*feedback.Sighting]{}}
		}
		visited[l.Run] = of
		errs = append(errs, c.rerunIn(ctx, w, policy, l.Run, runs[l.Run], of))
	}
	w.Memory.visits = visited
	return errors.Join(errs...)
}

// rerunIn does what follows from the last visit to a run, or visits it if that is due.
func (c *Controller) rerunIn(
	ctx context.Context, w *world, policy *feedback.Policy, run feedback.Run, lost []*feedback.Lost, of *visit,
) error {
	call, known := of.last.Get()
	if known && call.Running() {
		return nil
	}
	var verdicts []feedback.Verdict
	switch {
	case !known:
	case feedback.IsFinal(call.Err):
		if feedback.LacksPermission(call.Err) {
			w.Memory.checks.permissions.NoteRerun(call.Err.Error(), call.Finished)
		}
		verdicts = feedback.GiveUp(lost, call.Err)
	case call.Err == nil:
		verdicts = policy.Decide(lost, c.roster.LostBeside(w.Key.Namespace, run, w.Object.UID), call.Result, w.Now)
	}
	if len(verdicts) > 0 {
		return c.writeVerdicts(ctx, w, verdicts)
	}
	if due := c.visitDue(w, lost, of, call); w.Now.Before(due) {
		w.RequeueAt(due)
		return nil
	}
	c.visitRun(ctx, w, run, lost, of)
	return nil
}

const (
	// firstVisitBackoff doubles with each visit that fails, up to longestVisitBackoff.
	firstVisitBackoff, longestVisitBackoff = 15 * time.Second, 10 * time.Minute
)

// visitDue returns the time to visit a run: immediately if a rerun is written down that the last visit did not ask
// GitHub for.
func (c *Controller) visitDue(
	w *world, lost []*feedback.Lost, of *visit, call pool.Call[*feedback.Sighting],
) time.Time {
	since := time.Duration(0)
	for _, l := range lost {
		if l.Rerun.State == v1alpha1.RerunAsked && call.Err == nil && !of.intents.Has(l.Runner) {
			return w.Now
		}
		since = max(since, w.Now.Sub(l.At))
	}
	if spent, isSpent := errors.AsType[*feedback.SpentError](call.Err); isSpent {
		return spent.Until
	}
	if call.Err != nil {
		return actions.RetryAt(call.Err, call.Finished.Add(reconcile.Backoff(firstVisitBackoff, longestVisitBackoff,
			call.Failures)))
	}
	return call.Finished.Add(feedback.NextLook(since, len(w.Memory.visits))) // long ago if there was none
}

// visitRun visits a run in the pool, and wakes the set after that.
func (c *Controller) visitRun(ctx context.Context, w *world, run feedback.Run, lost []*feedback.Lost, of *visit) {
	of.intents = sets.New[string]()
	for _, l := range lost {
		if l.Rerun.State == v1alpha1.RerunAsked {
			of.intents.Insert(l.Runner)
		}
	}
	reference, key, logger := credentials.ForEphemeralRunnerSet(w.Object), w.Key, log.FromContext(ctx)
	of.last.Go(c.options.Pool, c.options.Clock, kube.ScaleSetOf(w.Object).String(),
		func(ctx context.Context) (seen *feedback.Sighting, err error) {
			github, err := c.options.REST(ctx, reference)
			if err == nil {
				seen, err = feedback.Visit(ctx, github, c.options.Budget, run, lost)
			}
			if _, isSpent := errors.AsType[*feedback.SpentError](err); err != nil && !isSpent &&
				!feedback.IsFinal(err) {
				logger.Info("GitHub did not answer about a workflow run with lost jobs, asking again", "run", run.ID,
					"cause",
					err.Error())
			}
			return seen, err
		}, func() { c.waker.Wake(key) })
}

// writeVerdicts writes down what is decided, one after the other, and tells what is final.
func (c *Controller) writeVerdicts(ctx context.Context, w *world, verdicts []feedback.Verdict) error {
	for _, v := range verdicts {
		runner := &v1alpha1.EphemeralRunner{}
		if err := c.options.Client.Get(ctx, types.NamespacedName{Namespace: w.Object.Namespace, Name: v.Lost.Runner},
			runner); err != nil {
			if apierrors.IsNotFound(err) {
				continue // it is gone, and with it whatever was to be decided
			}
			return fmt.Errorf("decide about the lost job of runner %s: %w", v.Lost.Runner, err)
		}
		before := runner.DeepCopy()
		runner.Status.Rerun = &v1alpha1.RerunStatus{
			State: v.State, Attempt: v.Attempt, Since: metav1.NewTime(w.Now), Message: report.Truncate(v.Message, 1000),
		}
		if err := c.recordRerun(ctx, w, runner); err != nil {
			return err
		}
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := c.options.Client.Status().Patch(ctx, runner, patch); err != nil {
			return fmt.Errorf("write what is decided about the lost job of runner %s: %w", runner.Name, err)
		}
		if v.State == v1alpha1.RerunDone {
			w.Memory.checks.permissions.NoteRerun("", w.Now)
		}
		if v.State == v1alpha1.RerunDone || v.State == v1alpha1.RerunGivenUp {
			jobsRerun.WithLabelValues(w.Memory.scaleSet.Name, w.Memory.scaleSet.Namespace, string(v.State)).Inc()
		}
	}
	return nil
}

// recordRerun records a final decision about a lost job as an Event, before the decision is written down. This Event
// must not get lost, because nobody looks at the runner again after the decision is written.
func (c *Controller) recordRerun(ctx context.Context, w *world, runner *v1alpha1.EphemeralRunner) error {
	rerun := runner.Status.Rerun
	job := fmt.Sprintf("job %q of %s", report.Truncate(runner.Status.JobDisplayName, 120),
		report.Truncate(runner.Status.JobRepositoryName, 140))
	var event report.Event
	switch rerun.State {
	case v1alpha1.RerunDone:
		event = report.Normal(reasonJobRerun, "RunJobs", fmt.Sprintf(
			"%s, which was lost on runner %s, runs again in attempt %d of %s", job, runner.Name, rerun.Attempt,
			runPage(runner)))
	case v1alpha1.RerunGivenUp:
		event = report.Warning(reasonJobRerun, "RunJobs", fmt.Sprintf(
			"%s, which was lost on runner %s, is not run again: %s; its author can run it again: %s", job, runner.Name,
			report.Truncate(rerun.Message, 500), runPage(runner)))
	default:
		return nil
	}
	name := fmt.Sprintf("%s.rerun-%s", runner.Name, strings.ToLower(string(rerun.State)))
	if err := report.CreateEvent(ctx, c.options.Client, name, w.origin, runner, event, w.Now); err != nil {
		return fmt.Errorf("tell what becomes of the lost job of runner %s: %w", runner.Name, err)
	}
	return nil
}
