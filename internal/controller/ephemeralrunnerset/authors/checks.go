package authors

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
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/pass"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/feedback"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/reconcile"
	"github.com/harrier-ci/harrier/internal/setmetrics"
)

var checksTold = setmetrics.Counter("checks_told_total",
	"Attempts to write a check run about jobs that wait or were lost, of scale sets with feedback.checks, by result: "+
		"written (Done), refused (Refused) or not answered (Failed).", "result")

// checkInterval is the shortest time between two updates of a check run.
const checkInterval = time.Minute

// A deleted set without runners waits at most lastWordsTimeout after its deletion until its check runs are brought to
// their end: for the minute after the last update of one, and less than the uninstallation of a controller waits for
// its scale sets (90 s).
const lastWordsTimeout = 70 * time.Second

// HasLastWords reports whether a set that is being deleted still has check runs to bring to their end, and time for
// that.
func HasLastWords(set *v1alpha1.EphemeralRunnerSet, now time.Time) bool {
	if set.DeletionTimestamp == nil || !slices.ContainsFunc(set.Status.Checks,
		func(r v1alpha1.CheckRecord) bool { return !r.Over }) {
		return false
	}
	return now.Before(set.DeletionTimestamp.Add(lastWordsTimeout))
}

// Tell writes check runs about jobs that have waited for long or were lost, if the set's user wants that. A
// check run is recorded in the status before it is made, so that the last word about it is said whatever happens
// meanwhile. why is the reason for which jobs of the set wait at this moment.
func (a *Authors) Tell(ctx context.Context, p *pass.Pass, why string) error {
	m := a.memories.Of(p.Set.UID)
	m.records = p.Set.Status.Checks
	story, err := a.story(ctx, p, m, why)
	if story == nil || err != nil {
		return err
	}
	if m.told == nil {
		setmetrics.Begin(checksTold, p.ScaleSet, "Done", "Refused", "Failed")
	}
	m.rememberTold(ctx, p)
	recorded := map[feedback.Key]*v1alpha1.CheckRecord{}
	for i := range story.Told {
		recorded[feedback.KeyOf(&story.Told[i])] = &story.Told[i]
	}
	m.records = nil
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
		m.records = append(m.records, recordOf(&check, before, said))
		at := m.tellAt(of, key.Run.Repository)
		switch {
		case said, before == nil: // the watch brings the record, and another pass
		case p.Now.Before(at):
			p.RequeueAt(at)
		case due == nil || of.triedAt.Before(told[feedback.KeyOf(&due.CheckRecord)].triedAt):
			due = &check
		}
	}
	m.keepLately(told, p.Now)
	if m.permissions.Trying = due != nil; due != nil {
		a.write(p, m, due)
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
func (m *memory) tellAt(of *toldCheck, repository string) time.Time {
	at := kube.LaterOf(kube.LaterOf(m.pausedUntil, of.retryAt), m.permissions.RetryAt(repository))
	if of.At.IsZero() {
		return at
	}
	return kube.LaterOf(at, of.At.Add(checkInterval))
}

// keepLately forgets the check runs that are not in told, except for those written within the last minute: if there is
// something to tell about one again soon, it waits for the rest of its minute.
func (m *memory) keepLately(told map[feedback.Key]*toldCheck, now time.Time) {
	for key, of := range m.told {
		if told[key] == nil && now.Before(of.At.Add(checkInterval)) {
			told[key] = of
		}
	}
	m.told = told
}

// story returns the story to tell, nil if nobody wants to be told and no check run is to be brought to its end.
func (a *Authors) story(ctx context.Context, p *pass.Pass, m *memory, why string) (*feedback.Story, error) {
	story := &feedback.Story{ScaleSet: p.ScaleSet.Name, Told: p.Set.Status.Checks}
	wanted := !p.Deleting() && p.Origin.Spec.Feedback != nil && p.Origin.Spec.Feedback.Checks
	switch {
	case p.Deleting() && len(story.Told) > 0:
		if until := p.Set.DeletionTimestamp.Add(lastWordsTimeout); p.Now.Before(until) {
			p.RequeueAt(until)
		}
		return story, a.leaveToOthers(ctx, p, story)
	case !wanted && len(story.Told) == 0:
		return nil, nil
	case !wanted:
		return story, nil
	}
	story.Reruns = feedback.PolicyOf(&p.Origin.Spec) != nil
	for _, r := range p.Runners {
		if r.Lost() {
			story.Lost = append(story.Lost, r.LostJob)
		}
	}
	if listener := p.Set.Status.Listener; listener != nil {
		var next time.Time
		story.Waiting, next = feedback.Long(listener.Waiting, p.Origin.Spec.Feedback.EffectiveCheckAfter(), p.Now)
		p.RequeueAt(next)
	}
	if len(story.Waiting) > 0 {
		story.Why = m.settle(p, cmp.Or(why, feedback.CauseUnknown))
	}
	return story, nil
}

// leaveToOthers drops from a set's last words what is said by another set that has taken its place: their check runs
// are the same.
func (a *Authors) leaveToOthers(ctx context.Context, p *pass.Pass, story *feedback.Story) error {
	var sets v1alpha1.EphemeralRunnerSetList
	if err := a.options.Client.List(ctx, &sets, client.InNamespace(p.Set.Namespace),
		client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list EphemeralRunnerSets: %w", err)
	}
	said := map[feedback.Key]bool{}
	for i := range sets.Items {
		if other := &sets.Items[i]; other.UID != p.Set.UID && other.DeletionTimestamp == nil &&
			kube.ScaleSetOf(other) == p.ScaleSet {
			for k := range other.Status.Checks {
				said[feedback.KeyOf(&other.Status.Checks[k])] = true
			}
		}
	}
	story.Told = slices.DeleteFunc(slices.Clone(story.Told),
		func(r v1alpha1.CheckRecord) bool { return said[feedback.KeyOf(&r)] })
	return nil
}

// settle returns the cause that check runs are to name for the wait of jobs, given the cause that is seen now. A
// manager that has just started goes on with what was told.
func (m *memory) settle(p *pass.Pass, seen string) string {
	told := ""
	for _, r := range p.Set.Status.Checks {
		if r.About == feedback.AboutWaiting && !r.Over {
			told = r.Cause // the newest is the last
		}
	}
	if told == "" || m.cause == nil {
		m.cause = limits.SettledOn(told)
	}
	cause, again := m.cause.Note(seen, p.Now)
	p.RequeueAt(again)
	return cause
}

// write writes a check run in the pool, and wakes the set after that.
func (a *Authors) write(p *pass.Pass, m *memory, check *feedback.Check) {
	about := feedback.KeyOf(&check.CheckRecord)
	reference, key, scaleSet, before := credentials.ForEphemeralRunnerSet(p.Set), client.ObjectKeyFromObject(p.Set), p.ScaleSet,
		m.told[about].Told
	if m.last.Go(a.options.Pool, a.options.Clock, scaleSet.String(), func(ctx context.Context) (feedback.Told, error) {
		github, err := a.options.REST(ctx, reference)
		if err != nil {
			return before, err
		}
		return feedback.Tell(ctx, github, a.options.Budget, scaleSet, check, before)
	}, func() { a.options.Wake(key) }) {
		m.current = about // of one that is under way already it stays
	}
}

// rememberTold remembers how the last call ended.
func (m *memory) rememberTold(ctx context.Context, p *pass.Pass) {
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
	of.triedAt = p.Now
	switch {
	case call.Err == nil:
		of.failures, of.retryAt, result = 0, time.Time{}, "Done"
		m.permissions.NoteCheck(repository, "", p.Now)
	case feedback.LacksPermission(call.Err):
		result = "Refused"
		m.permissions.NoteCheck(repository, call.Err.Error(), p.Now)
		log.FromContext(ctx).Info("GitHub refuses check runs in a repository, trying again in an hour", "repository",
			repository, "cause", call.Err.Error())
	case feedback.IsFinal(call.Err):
		of.dropped, result = true, "Refused"
		log.FromContext(ctx).Info("GitHub takes no check run about this workflow run", "run", m.current.Run.ID, "cause",
			call.Err.Error())
	default:
		of.failures++
		of.retryAt = actions.RetryAt(call.Err,
			p.Now.Add(reconcile.Backoff(15*time.Second, 10*time.Minute, of.failures)))
		m.pausedUntil = actions.RetryAt(call.Err, m.pausedUntil) // a rate limit is everybody's
		log.FromContext(ctx).Info("GitHub did not take a check run, trying again", "run", m.current.Run.ID, "cause",
			call.Err.Error())
	}
	checksTold.WithLabelValues(p.ScaleSet.Name, p.ScaleSet.Namespace, result).Inc()
}
