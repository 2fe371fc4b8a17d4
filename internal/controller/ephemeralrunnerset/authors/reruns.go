package authors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/losses"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/pass"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/feedback"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/pool"
	"github.com/harrier-ci/harrier/internal/reconcile"
	"github.com/harrier-ci/harrier/internal/setmetrics"
)

// reasonJobRerun is the reason of the Event about what has become of a lost job.
const reasonJobRerun = "JobRerun"

var jobsRerun = setmetrics.Counter("jobs_rerun_total",
	"Lost jobs of scale sets with feedback.rerunLostJobs, by result: run again (Done), not, because "+
		"there is a newer run of the workflow (NewerRun), or not for another cause (GivenUp).", "result")

// resultNewerRun is the result of a job that is given up because of a newer run.
const resultNewerRun = "NewerRun"

var rerunsWaiting = setmetrics.Gauge("reruns_waiting",
	"Lost jobs about which it is not decided yet whether they run again, of scale sets with feedback.rerunLostJobs.")

// errRunnerDeleted is the cause if a lost job is not run again because nothing is known of it any more.
var errRunnerDeleted = errors.New("its runner's object was deleted")

// Rerun has GitHub run lost jobs again, if the set's user wants that. What is decided is written to the runners
// first; the visit that follows asks GitHub for what is written there.
func (a *Authors) Rerun(ctx context.Context, p *pass.Pass) error {
	m := a.memories.Of(p.Set.UID)
	policy := feedback.PolicyOf(&p.Origin.Spec)
	if policy == nil {
		m.rerunMemory = rerunMemory{}
		rerunsWaiting.DeleteLabelValues(p.ScaleSet.Name, p.ScaleSet.Namespace)
		return nil
	}
	if m.visits == nil {
		setmetrics.Begin(jobsRerun, p.ScaleSet, string(v1alpha1.RerunDone), resultNewerRun, string(v1alpha1.RerunGivenUp))
	}
	runs, undecided, dropped := map[feedback.Run][]*feedback.Lost{}, []*feedback.Lost(nil), []*feedback.Lost(nil)
	for _, r := range p.Runners {
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
	// The oldest come first, if not all may be looked at.
	slices.SortStableFunc(undecided, func(a, b *feedback.Lost) int { return a.At.Compare(b.At) })
	m.waiting = len(undecided)
	rerunsWaiting.WithLabelValues(p.ScaleSet.Name, p.ScaleSet.Namespace).Set(float64(m.waiting))
	if given := append(feedback.GiveUp(dropped, v1alpha1.RerunRunnerDeleted, errRunnerDeleted), policy.Screen(undecided, p.Now)...); len(given) > 0 {
		return a.writeVerdicts(ctx, p, m, given) // the watch brings the next pass
	}
	m.noteVisits()
	visited := visits{}
	errs := []error{a.tellWaiting(ctx, p, m, undecided)}
	for _, l := range undecided {
		if visited[l.Run] != nil {
			continue
		}
		of := m.visits[l.Run]
		if of == nil {
			of = &visit{last: &pool.Last[*feedback.Sighting]{}}
		}
		visited[l.Run] = of
		errs = append(errs, a.rerunIn(ctx, p, m, policy, l.Run, runs[l.Run], of))
	}
	m.visits = visited
	return errors.Join(errs...)
}

// rerunIn does what follows from the last visit to a run, or visits it if that is due.
func (a *Authors) rerunIn(
	ctx context.Context, p *pass.Pass, m *memory, policy *feedback.Policy, run feedback.Run, lost []*feedback.Lost, of *visit,
) error {
	call, known := of.last.Get()
	if known && call.Running() {
		return nil
	}
	var verdicts []feedback.Verdict
	beside := a.options.Roster.LostBeside(p.Set.Namespace, run, p.Set.UID)
	switch {
	case !known:
	case feedback.IsFinal(call.Err):
		if feedback.LacksPermission(call.Err) {
			m.permissions.NoteRerun(call.Err.Error(), call.Finished)
		}
		verdicts = feedback.GiveUp(lost, feedback.WhyGivenUp(call.Err), call.Err)
	case call.Err == nil:
		verdicts = policy.Decide(lost, beside, call.Result, p.Now)
	}
	if len(verdicts) > 0 {
		return a.writeVerdicts(ctx, p, m, verdicts)
	}
	switch due := kube.LaterOf(m.visitDue(p, lost, of, call), m.visitsPausedUntil); {
	case p.Now.Before(due):
		p.RequeueAt(due)
	case m.busy < mostVisits: // or a pass follows when one of them ends
		m.busy++
		a.visit(ctx, p, policy, &feedback.Question{Run: run, Lost: lost, Beside: beside, Before: call.Result}, of)
	}
	return nil
}

// mostVisits are under way at a time, so that those that come first have what the account may read first.
const mostVisits = 8

// noteVisits counts the visits that are under way, and notes when the others may go on: an account that has read enough,
// or whom GitHub limits, is every visit's.
func (m *memory) noteVisits() {
	m.busy = 0
	for _, of := range m.visits {
		call, known := of.last.Get()
		if known && call.Running() {
			m.busy++
			continue
		}
		if spent, isSpent := errors.AsType[*feedback.SpentError](call.Err); isSpent {
			m.visitsPausedUntil = kube.LaterOf(m.visitsPausedUntil, spent.Until)
		}
		if limited, isLimited := errors.AsType[*actions.RateLimitedError](call.Err); isLimited {
			m.visitsPausedUntil = kube.LaterOf(m.visitsPausedUntil, limited.Until)
		}
	}
}

// If manyWaiting jobs or more wait, an Event says so: what follows may take hours.
const manyWaiting = 100

// tellWaiting tells once how many lost jobs wait, when the losses of the same cause are known.
func (a *Authors) tellWaiting(ctx context.Context, p *pass.Pass, m *memory, undecided []*feedback.Lost) error {
	if len(undecided) == 0 {
		m.toldWaiting = false
	}
	if m.toldWaiting || len(undecided) < manyWaiting {
		return nil
	}
	if due := undecided[0].At.Add(time.Minute); p.Now.Before(due) {
		p.RequeueAt(due)
		return nil
	}
	runs := sets.New[feedback.Run]()
	for _, l := range undecided {
		runs.Insert(l.Run)
	}
	event := report.Warning(reasonJobRerun, "RunJobs", fmt.Sprintf("%d lost jobs of %d workflow runs wait to be run again, "+
		"the oldest first: as GitHub's limits allow, some %d runs an hour for all scale sets of the App; "+
		"status.rerunsWaiting of the EphemeralRunnerSet says how many are left", len(undecided), len(runs),
		feedback.RunsPerHour))
	name := fmt.Sprintf("%s.reruns-%d", p.Set.Name, p.Now.Unix())
	if err := report.CreateEvent(ctx, a.options.Client, name, p.Origin, p.Set, event, p.Now); err != nil {
		return fmt.Errorf("tell how many lost jobs wait: %w", err)
	}
	m.toldWaiting = true
	return nil
}

const (
	// firstVisitBackoff doubles with each visit that fails, up to longestVisitBackoff.
	firstVisitBackoff, longestVisitBackoff = 15 * time.Second, 10 * time.Minute
)

// visitDue returns the time to visit a run: immediately if a rerun is written down that the last visit did not ask
// GitHub for.
func (m *memory) visitDue(
	p *pass.Pass, lost []*feedback.Lost, of *visit, call pool.Call[*feedback.Sighting],
) time.Time {
	since := time.Duration(0)
	for _, l := range lost {
		if l.Rerun.State == v1alpha1.RerunAsked && call.Err == nil && !of.intents.Has(l.Runner) {
			return p.Now
		}
		since = max(since, p.Now.Sub(l.At))
	}
	if spent, isSpent := errors.AsType[*feedback.SpentError](call.Err); isSpent {
		return spent.Until
	}
	if call.Err != nil {
		return actions.RetryAt(call.Err, call.Finished.Add(reconcile.Backoff(firstVisitBackoff, longestVisitBackoff,
			call.Failures)))
	}
	return call.Finished.Add(feedback.NextLook(since, len(m.visits))) // long ago if there was none
}

// visit visits a run in the pool, and wakes the set after that.
func (a *Authors) visit(
	ctx context.Context, p *pass.Pass, policy *feedback.Policy, question *feedback.Question, of *visit,
) {
	of.intents = sets.New[string]()
	for _, l := range question.Lost {
		if l.Rerun.State == v1alpha1.RerunAsked {
			of.intents.Insert(l.Runner)
		}
	}
	reference, key, logger := credentials.ForEphemeralRunnerSet(p.Set), client.ObjectKeyFromObject(p.Set), log.FromContext(ctx)
	of.last.Go(a.options.Pool, a.options.Clock, kube.ScaleSetOf(p.Set).String(),
		func(ctx context.Context) (seen *feedback.Sighting, err error) {
			github, err := a.options.REST(ctx, reference)
			if err == nil {
				seen, err = policy.Visit(ctx, github, a.options.Budget, question)
			}
			if _, isSpent := errors.AsType[*feedback.SpentError](err); err != nil && !isSpent &&
				!feedback.IsFinal(err) {
				logger.Info("GitHub did not answer about a workflow run with lost jobs, asking again", "run", question.Run.ID,
					"cause",
					err.Error())
			}
			return seen, err
		}, func() { a.options.Wake(key) })
}

// writeVerdicts writes down what is decided, one after the other, and tells what is final.
func (a *Authors) writeVerdicts(ctx context.Context, p *pass.Pass, m *memory, verdicts []feedback.Verdict) error {
	for _, v := range verdicts {
		runner := &v1alpha1.EphemeralRunner{}
		if err := a.options.Client.Get(ctx, types.NamespacedName{Namespace: p.Set.Namespace, Name: v.Lost.Runner},
			runner); err != nil {
			if apierrors.IsNotFound(err) {
				continue // it is gone, and with it whatever was to be decided
			}
			return fmt.Errorf("decide about the lost job of runner %s: %w", v.Lost.Runner, err)
		}
		before := runner.DeepCopy()
		runner.Status.Rerun = &v1alpha1.RerunStatus{
			State: v.State, Attempt: v.Attempt, Since: metav1.NewTime(p.Now), Reason: v.Reason,
			Message: report.Truncate(v.Message, 1000), Consequences: v.Consequences,
		}
		noteLog(&runner.Status, v.On)
		if err := a.recordRerun(ctx, p, runner); err != nil {
			return err
		}
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := a.options.Client.Status().Patch(ctx, runner, patch); err != nil {
			return fmt.Errorf("write what is decided about the lost job of runner %s: %w", runner.Name, err)
		}
		if v.State == v1alpha1.RerunDone {
			m.permissions.NoteRerun("", p.Now)
		}
		if v.State == v1alpha1.RerunDone || v.State == v1alpha1.RerunGivenUp {
			result := string(v.State)
			if v.Reason == v1alpha1.RerunNewerRun {
				result = resultNewerRun
			}
			jobsRerun.WithLabelValues(p.ScaleSet.Name, p.ScaleSet.Namespace, result).Inc()
		}
	}
	return nil
}

// recordRerun records a final decision about a lost job as an Event, before the decision is written down. This Event
// must not get lost, because nobody looks at the runner again after the decision is written.
func (a *Authors) recordRerun(ctx context.Context, p *pass.Pass, runner *v1alpha1.EphemeralRunner) error {
	rerun := runner.Status.Rerun
	page := losses.RunPage(runner.Spec.GitHubConfigUrl, runner.Status.JobRepositoryName, runner.Status.WorkflowRunID)
	job := fmt.Sprintf("job %q of %s", report.Truncate(runner.Status.JobDisplayName, 120),
		report.Truncate(runner.Status.JobRepositoryName, 140))
	var event report.Event
	switch rerun.State {
	case v1alpha1.RerunDone:
		note := fmt.Sprintf("%s, which was lost on runner %s, runs again in attempt %d of %s", job, runner.Name,
			rerun.Attempt, page)
		if rerun.Consequences != nil {
			note += ": " + report.Truncate(rerun.Message, 500)
		}
		event = report.Normal(reasonJobRerun, "RunJobs", note)
	case v1alpha1.RerunGivenUp:
		event = report.Warning(reasonJobRerun, "RunJobs", fmt.Sprintf(
			"%s, which was lost on runner %s, is not run again: %s; its author can run it again: %s", job, runner.Name,
			report.Truncate(rerun.Message, 500), page))
	default:
		return nil
	}
	name := fmt.Sprintf("%s.rerun-%s", runner.Name, strings.ToLower(string(rerun.State)))
	if err := report.CreateEvent(ctx, a.options.Client, name, p.Origin, runner, event, p.Now); err != nil {
		return fmt.Errorf("tell what becomes of the lost job of runner %s: %w", runner.Name, err)
	}
	return nil
}
