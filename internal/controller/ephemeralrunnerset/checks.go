package ephemeralrunnerset

import (
	"cmp"
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/feedback"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/pool"
	"github.com/harrier-ci/harrier/internal/reconcile"
	"github.com/harrier-ci/harrier/internal/setmetrics"
)

var checksTold = setmetrics.Counter("checks_told_total",
	"Attempts to write a check run about jobs that wait or were lost, of scale sets with feedback.checks, by result: written (Done), refused (Refused) or not answered (Failed).", "result")

const (
	// checkPause is the shortest time between two updates of a check run.
	checkPause = time.Minute
	// permissionPause is how long after a refusal for lack of a permission the next check run is tried.
	permissionPause = time.Hour
)

// checkMemory is what is remembered of a set's check runs. After a restart they are looked up on GitHub.
type checkMemory struct {
	// last is the call under way, about the check run with the key current: one at a time, each of which is a few requests.
	last    pool.Last[feedback.Told]
	current feedback.Key
	told    map[feedback.Key]*toldCheck
	// pausedUntil is when any check run may be written again.
	pausedUntil time.Time
	// checksRefused and rerunsRefused are what GitHub said when a permission was missing, empty once it has let us do the same. accepted is
	// set once it has let us do anything.
	checksRefused, rerunsRefused string
	accepted                     bool
}

// toldCheck is what is remembered of one check run.
type toldCheck struct {
	feedback.Told
	// failures counts failed attempts in a row, retryAt is when to make the next. dropped is set if there is none.
	failures int
	retryAt  time.Time
	dropped  bool
}

// tellAuthors writes check runs about jobs that have waited for long or were lost, if the set's user wants that. A check run is recorded in
// the status before it is made, so that the last word about it is said whatever happens meanwhile.
func (c *Controller) tellAuthors(ctx context.Context, w *world) error {
	story := w.story()
	if story == nil {
		return nil
	}
	m := &w.Memory.checks
	c.noteTold(ctx, w, m)
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
		said := of.said(&check, recorded[key])
		if check.Over && said && check.About == feedback.AboutWaiting {
			continue // and so is its record
		}
		record := check.CheckRecord
		record.Over = record.Over && said
		w.checks = append(w.checks, record)
		at := m.tellAt(of)
		switch {
		case said, recorded[key] == nil: // the watch brings the record, and another pass
		case w.Now.Before(at):
			w.RequeueAt(at)
		case due == nil:
			due = &check
		}
	}
	m.keepLately(told, w.Now)
	if due != nil {
		c.tell(w, m, due)
	}
	return nil
}

// said reports whether GitHub knows what a check run is to say, or will never. What was told before a restart is not known, but for the last
// word, which is recorded.
func (of *toldCheck) said(check *feedback.Check, record *v1alpha1.CheckRecord) bool {
	lastWord := record != nil && record.Over && check.Over && of.At.IsZero()
	return of.dropped || of.Says(check) || lastWord
}

// tellAt returns when a check run may be written.
func (m *checkMemory) tellAt(of *toldCheck) time.Time {
	at := kube.LaterOf(m.pausedUntil, of.retryAt)
	if of.At.IsZero() {
		return at
	}
	return kube.LaterOf(at, of.At.Add(checkPause))
}

// keepLately forgets the check runs that are none of told. If there is something to tell of one again soon, it waits for its minute.
func (m *checkMemory) keepLately(told map[feedback.Key]*toldCheck, now time.Time) {
	for key, of := range m.told {
		if told[key] == nil && now.Before(of.At.Add(checkPause)) {
			told[key] = of
		}
	}
	m.told = told
}

// story returns what there is to tell, nil if nobody wants to be told and nothing is to be brought to its end.
func (w *world) story() *feedback.Story {
	wanted := w.origin.Spec.Feedback != nil && w.origin.Spec.Feedback.Checks
	if !wanted && len(w.Object.Status.Checks) == 0 {
		return nil
	}
	story := &feedback.Story{ScaleSet: w.Memory.scaleSet.Name, Told: w.Object.Status.Checks, Reruns: feedback.PolicyOf(&w.origin.Spec) != nil}
	if !wanted {
		return story
	}
	for _, r := range w.views {
		if r.Lost() {
			story.Lost = append(story.Lost, r.LostJob)
		}
	}
	if listener := w.Object.Status.Listener; listener != nil && len(listener.Waiting) > 0 {
		story.Waiting, story.Why = listener.Waiting, w.whyJobsWait()
	}
	return story
}

// whyJobsWait returns what keeps jobs of the set waiting, in one word, empty if that is not known.
func (w *world) whyJobsWait() string {
	for _, conditionType := range []string{
		v1alpha1.ConditionRunnerOutdated, v1alpha1.ConditionQuotaExceeded, v1alpha1.ConditionRunnersPending, v1alpha1.ConditionDegraded,
	} {
		if c := meta.FindStatusCondition(w.Object.Status.Conditions, conditionType); c != nil && c.Status == metav1.ConditionTrue {
			return report.KnownReason(c.Reason)
		}
	}
	alive := 0
	for _, r := range w.views {
		if !r.Ended() && !r.Deleting {
			alive++
		}
	}
	if alive >= w.most {
		return v1alpha1.ReasonMaxRunnersReached
	}
	return ""
}

// tell writes a check run in the pool, and wakes the set after that.
func (c *Controller) tell(w *world, m *checkMemory, check *feedback.Check) {
	about := feedback.KeyOf(&check.CheckRecord)
	reference, key, scaleSet, before := credentials.ForEphemeralRunnerSet(w.Object), w.Key, w.Memory.scaleSet, m.told[about].Told
	if m.last.Go(c.options.Pool, c.options.Clock, scaleSet.String(), func(ctx context.Context) (feedback.Told, error) {
		github, err := c.options.REST(ctx, reference)
		if err != nil {
			return before, err
		}
		return feedback.Tell(ctx, github, c.options.Checks, scaleSet, check, before)
	}, func() { c.waker.Wake(key) }) {
		m.current = about // of one that is under way already it stays
	}
}

// noteTold notes how the last call ended.
func (c *Controller) noteTold(ctx context.Context, w *world, m *checkMemory) {
	call, ended := m.last.Take()
	of := m.told[m.current]
	if !ended || of == nil {
		return
	}
	of.Told = call.Result
	result := "Failed"
	spent, isSpent := errors.AsType[*feedback.SpentError](call.Err)
	switch {
	case call.Err == nil:
		of.failures, of.retryAt, result = 0, time.Time{}, "Done"
		m.checksRefused, m.accepted = "", true
	case isSpent:
		m.pausedUntil = spent.Until
		return
	case feedback.LacksPermission(call.Err):
		m.checksRefused, m.pausedUntil, result = call.Err.Error(), w.Now.Add(permissionPause), "Refused"
	case feedback.IsFinal(call.Err):
		of.dropped, result = true, "Refused"
		log.FromContext(ctx).Info("GitHub takes no check run about this workflow run", "run", m.current.Run.ID, "cause", call.Err.Error())
	default:
		of.failures++
		of.retryAt = actions.RetryAt(call.Err, w.Now.Add(reconcile.Backoff(15*time.Second, 10*time.Minute, of.failures)))
		m.pausedUntil = actions.RetryAt(call.Err, m.pausedUntil) // a rate limit is everybody's
		log.FromContext(ctx).Info("GitHub did not take a check run, trying again", "run", m.current.Run.ID, "cause", call.Err.Error())
	}
	checksTold.WithLabelValues(w.Memory.scaleSet.Name, w.Memory.scaleSet.Namespace, result).Inc()
}
