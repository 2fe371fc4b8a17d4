package ephemeralrunnerset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/capacity/limits"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/feedback"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/pool"
	"github.com/harrier-ci/harrier/internal/reconcile"
	"github.com/harrier-ci/harrier/internal/setmetrics"
)

var checksTold = setmetrics.Counter("checks_told_total",
	"Attempts to write a check run about jobs that wait or were lost, of scale sets with feedback.checks, by result: "+
		"written (Done), refused (Refused) or not answered (Failed).", "result")

// checkInterval is the shortest time between two updates of a check run.
const checkInterval = time.Minute

// checkMemory is the memory of a set's check runs. After a restart they are looked up on GitHub.
type checkMemory struct {
	// last is the call under way, about the check run with the key current: one at a time, each of which is a few
	// requests.
	last    pool.Last[feedback.Told]
	current feedback.Key
	told    map[feedback.Key]*toldCheck
	// At pausedUntil any check run may be written again.
	pausedUntil time.Time
	// cause is the reason that the check runs give for the wait of jobs, nil before the first.
	cause       *limits.Settled
	permissions feedback.Permissions
}

// toldCheck is the memory of one check run.
type toldCheck struct {
	feedback.Told
	// triedAt is the time of the last attempt, whether GitHub answered or not.
	triedAt time.Time
	// failures counts failed attempts in a row; the next is made at retryAt. dropped is set if there is none.
	failures int
	retryAt  time.Time
	dropped  bool
}

// tellAuthors writes check runs about jobs that have waited for long or were lost, if the set's user wants that. A
// check run is recorded in the status before it is made, so that the last word about it is said whatever happens
// meanwhile.
func (c *Controller) tellAuthors(ctx context.Context, w *world) error {
	story, err := c.story(ctx, w)
	if story == nil || err != nil {
		return err
	}
	m := &w.Memory.checks
	if m.told == nil {
		w.Memory.begin(checksTold, "Done", "Refused", "Failed")
	}
	c.rememberTold(ctx, w, m)
	recorded := map[feedback.Key]*v1alpha1.CheckRecord{}
	for i := range story.Told {
		recorded[feedback.KeyOf(&story.Told[i])] = &story.Told[i]
	}
	w.checks = nil
	told := map[feedback.Key]*toldCheck{}
	var due *feedback.Check
	for _, check := range story.Checks() {
		key := feedback.KeyOf(&check.CheckRecord)
		of := cmp.Or(m.told[key], &toldCheck{})
		told[key] = of
		before := recorded[key]
		said := of.said(&check, before)
		if check.Over && said && check.About == feedback.AboutWaiting {
			continue // and so is its record
		}
		w.checks = append(w.checks, recordOf(&check, before, said))
		at := m.tellAt(of, key.Run.Repository)
		switch {
		case said, before == nil: // the watch brings the record, and another pass
		case w.Now.Before(at):
			w.RequeueAt(at)
		case due == nil || of.triedAt.Before(told[feedback.KeyOf(&due.CheckRecord)].triedAt):
			due = &check
		}
	}
	m.keepLately(told, w.Now)
	if m.permissions.Trying = due != nil; due != nil {
		c.tell(w, m, due)
	}
	return nil
}

// recordOf returns the status' record of a check run. The last word is recorded only after it is said.
func recordOf(check *feedback.Check, before *v1alpha1.CheckRecord, said bool) v1alpha1.CheckRecord {
	record := check.CheckRecord
	switch record.Over = record.Over && said; {
	case said:
		record.Told = check.Digest()
	case before != nil:
		record.Told = before.Told
	}
	return record
}

// said reports whether GitHub knows what a check run is to say, or will never know it. The record shows what was told
// before a restart.
func (of *toldCheck) said(check *feedback.Check, record *v1alpha1.CheckRecord) bool {
	known := record != nil && of.At.IsZero() && ((record.Over && check.Over) || record.Told == check.Digest())
	return of.dropped || of.Says(check) || known
}

// tellAt returns the time at which a check run in a repository may be written.
func (m *checkMemory) tellAt(of *toldCheck, repository string) time.Time {
	at := kube.LaterOf(kube.LaterOf(m.pausedUntil, of.retryAt), m.permissions.RetryAt(repository))
	if of.At.IsZero() {
		return at
	}
	return kube.LaterOf(at, of.At.Add(checkInterval))
}

// keepLately forgets the check runs that are not in told, except for those written within the last minute: if there is
// something to tell about one again soon, it waits for the rest of its minute.
func (m *checkMemory) keepLately(told map[feedback.Key]*toldCheck, now time.Time) {
	for key, of := range m.told {
		if told[key] == nil && now.Before(of.At.Add(checkInterval)) {
			told[key] = of
		}
	}
	m.told = told
}

// story returns the story to tell, nil if nobody wants to be told and no check run is to be brought to its end.
func (c *Controller) story(ctx context.Context, w *world) (*feedback.Story, error) {
	story := &feedback.Story{ScaleSet: w.Memory.scaleSet.Name, Told: w.Object.Status.Checks}
	wanted := !w.deleting() && w.origin.Spec.Feedback != nil && w.origin.Spec.Feedback.Checks
	switch {
	case w.deleting() && len(story.Told) > 0:
		if until := w.Object.DeletionTimestamp.Add(lastWordsTimeout); w.Now.Before(until) {
			w.RequeueAt(until)
		}
		return story, c.leaveToOthers(ctx, w, story)
	case !wanted && len(story.Told) == 0:
		return nil, nil
	case !wanted:
		return story, nil
	}
	story.Reruns = feedback.PolicyOf(&w.origin.Spec) != nil
	for _, r := range w.views {
		if r.Lost() {
			story.Lost = append(story.Lost, r.LostJob)
		}
	}
	if listener := w.Object.Status.Listener; listener != nil && len(listener.Waiting) > 0 {
		story.Waiting, story.Why = listener.Waiting, w.settledCause(w.whyJobsWait())
	}
	return story, nil
}

// leaveToOthers drops from a set's last words what is said by another set that has taken its place: their check runs
// are the same.
func (c *Controller) leaveToOthers(ctx context.Context, w *world, story *feedback.Story) error {
	var sets v1alpha1.EphemeralRunnerSetList
	if err := c.options.Client.List(ctx, &sets, client.InNamespace(w.Key.Namespace),
		client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list EphemeralRunnerSets: %w", err)
	}
	said := map[feedback.Key]bool{}
	for i := range sets.Items {
		if other := &sets.Items[i]; other.UID != w.Object.UID && other.DeletionTimestamp == nil &&
			kube.ScaleSetOf(other) == w.Memory.scaleSet {
			for k := range other.Status.Checks {
				said[feedback.KeyOf(&other.Status.Checks[k])] = true
			}
		}
	}
	story.Told = slices.DeleteFunc(slices.Clone(story.Told),
		func(r v1alpha1.CheckRecord) bool { return said[feedback.KeyOf(&r)] })
	return nil
}

// whyJobsWait says in one word what keeps jobs of the set waiting.
func (w *world) whyJobsWait() string {
	runners := w.unseen.Expected + w.unseen.Beside + w.create
	for _, r := range w.views {
		if r.Alive() {
			runners++
		}
	}
	limit := limits.Of(limits.Seen{
		Conditions: w.Object.Status.Conditions, Drained: w.origin.Drained(), Max: &w.most,
		Assigned: w.Object.Spec.AssignedJobs, Announced: w.Object.Status.Capacity, Full: runners >= w.most,
	})
	return cmp.Or(report.KnownReason(limit.Reason), feedback.CauseUnknown)
}

// settledCause returns the cause that check runs are to name for the wait of jobs, given the cause that is seen now. A
// manager that has just started goes on with what was told.
func (w *world) settledCause(seen string) string {
	m, told := &w.Memory.checks, ""
	for _, r := range w.Object.Status.Checks {
		if r.About == feedback.AboutWaiting && !r.Over {
			told = r.Cause // the newest is the last
		}
	}
	if told == "" || m.cause == nil {
		m.cause = limits.SettledOn(told)
	}
	cause, again := m.cause.Note(seen, w.Now)
	w.RequeueAt(again)
	return cause
}

// tell writes a check run in the pool, and wakes the set after that.
func (c *Controller) tell(w *world, m *checkMemory, check *feedback.Check) {
	about := feedback.KeyOf(&check.CheckRecord)
	reference, key, scaleSet, before := credentials.ForEphemeralRunnerSet(w.Object), w.Key, w.Memory.scaleSet,
		m.told[about].Told
	if m.last.Go(c.options.Pool, c.options.Clock, scaleSet.String(), func(ctx context.Context) (feedback.Told, error) {
		github, err := c.options.REST(ctx, reference)
		if err != nil {
			return before, err
		}
		return feedback.Tell(ctx, github, c.options.Budget, scaleSet, check, before)
	}, func() { c.waker.Wake(key) }) {
		m.current = about // of one that is under way already it stays
	}
}

// rememberTold remembers how the last call ended.
func (c *Controller) rememberTold(ctx context.Context, w *world, m *checkMemory) {
	call, ended := m.last.Take()
	of := m.told[m.current]
	if !ended || of == nil {
		return
	}
	of.Told = call.Result
	result, repository := "Failed", m.current.Run.Repository
	spent, isSpent := errors.AsType[*feedback.SpentError](call.Err)
	if isSpent {
		m.pausedUntil = spent.Until
		return
	}
	of.triedAt = w.Now
	switch {
	case call.Err == nil:
		of.failures, of.retryAt, result = 0, time.Time{}, "Done"
		m.permissions.NoteCheck(repository, "", w.Now)
	case feedback.LacksPermission(call.Err):
		result = "Refused"
		m.permissions.NoteCheck(repository, call.Err.Error(), w.Now)
		log.FromContext(ctx).Info("GitHub refuses check runs in a repository, trying again in an hour", "repository",
			repository, "cause", call.Err.Error())
	case feedback.IsFinal(call.Err):
		of.dropped, result = true, "Refused"
		log.FromContext(ctx).Info("GitHub takes no check run about this workflow run", "run", m.current.Run.ID, "cause",
			call.Err.Error())
	default:
		of.failures++
		of.retryAt = actions.RetryAt(call.Err,
			w.Now.Add(reconcile.Backoff(15*time.Second, 10*time.Minute, of.failures)))
		m.pausedUntil = actions.RetryAt(call.Err, m.pausedUntil) // a rate limit is everybody's
		log.FromContext(ctx).Info("GitHub did not take a check run, trying again", "run", m.current.Run.ID, "cause",
			call.Err.Error())
	}
	checksTold.WithLabelValues(w.Memory.scaleSet.Name, w.Memory.scaleSet.Namespace, result).Inc()
}
