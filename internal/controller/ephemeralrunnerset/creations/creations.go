// Package creations accounts for the runners of a set that were requested and not yet seen by the watch, so that none
// is created twice and none is forgotten.
package creations

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/reconcile"
)

const (
	// firstCreateBackoff is the pause after a failed creation. It doubles with every further failure in a row, up to
	// longestCreateBackoff, so that whatever refuses (a quota, a webhook) is not asked again at every event of a
	// runner.
	firstCreateBackoff   = time.Second
	longestCreateBackoff = time.Minute
	// LongestAwayBackoff replaces longestCreateBackoff while the API server gives no answer, or only an error of its
	// own: its return must be noticed within seconds, because jobs wait.
	LongestAwayBackoff = 10 * time.Second
	// After failingThreshold failed creations in a row the set says so.
	failingThreshold = 3
	// A runner that was created may stay unseen for expectationTimeout; then the API server is asked about it. Watches
	// deliver within seconds. A runner unseen for longer was deleted before the watch showed it, or the watch is
	// broken.
	expectationTimeout = time.Minute
	// listInterval is the shortest time between two such questions, each a list of the set's runners: two a minute. A
	// scale set whose runners are being replaced has two sets, and so at most four lists a minute.
	listInterval = 30 * time.Second
)

// Memory has the set's runners that were requested and that the watch has not shown yet. A pass observes them, keeps
// those that its plan repeats, and may then begin, end and settle creations.
type Memory struct {
	clock clock.PassiveClock
	// expected has the requested names, and the time at which each was remembered. The watch's handler removes names from
	// it, too, and so it has a lock.
	mu       sync.Mutex
	expected map[string]time.Time
	// unanswered are the names of runners whose creation got no answer; they are tried again. shelved are names that
	// nobody wants at present: their runners may exist, so they are expected for a while, but not tried again.
	unanswered, shelved []string
	// failures counts the failed rounds of creations in a row, Err is the error of the last one, and the next one may
	// start at retryAt.
	failures int
	Err      error
	retryAt  time.Time
	// unlisted is set until the API server has listed the set's runners for this process: the watch of a process that
	// has just taken over may not show yet what its predecessor created last.
	unlisted bool
	// Closed is set if the namespace is being deleted, so that nothing can be created in it any more.
	Closed bool
	// At listAt the API server may be asked again about overdue runners. listErr is the error of the last time, kept
	// while any runner is overdue. late are the names of runners that exist although the watch does not show them.
	listAt  time.Time
	listErr error
	late    []string
}

// Unseen counts the set's runners that were created, or may have been, and are not among those of a plan.
type Unseen struct {
	Expected int
	// Uncertain counts the expected runners that may not exist, because their creation got no answer.
	Uncertain int
	// Beside counts the runners that may run with the scale set's labels and that none of its runner sets has.
	Beside int
}

// Try is one request to create a runner.
type Try struct {
	Name string
	// Repeated is set if an earlier try under this name got no answer.
	Repeated bool
	// Asked is set if the request was sent, and Err is its error.
	Asked bool
	Err   error
}

// New returns the memory of a set of which nothing is known yet.
func New(clk clock.PassiveClock) *Memory {
	return &Memory{clock: clk, expected: map[string]time.Time{}, unlisted: true}
}

// Expect remembers names before their creation is requested, because the watch may show a runner before the request is
// answered.
func (c *Memory) Expect(names ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range names {
		c.expected[name] = c.clock.Now()
	}
}

// Drop drops a name: the watch has shown the runner or its deletion, or the server has refused it and will not take it.
func (c *Memory) Drop(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.expected, name)
}

// Pending returns the names that are still expected, and the time at which each was remembered.
func (c *Memory) Pending() map[string]time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.expected)
}

// Expects reports whether a name is still expected.
func (c *Memory) Expects(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, expected := c.expected[name]
	return expected
}

// Listed reports whether the API server has listed the set's runners for this process.
func (c *Memory) Listed() bool { return !c.unlisted }

// Uncertain returns the names of the creations that got no answer: those that are tried again, and those that nobody
// wants at present.
func (c *Memory) Uncertain() (repeated, shelved []string) { return c.unanswered, c.shelved }

// Observe forgets the runners that the watch has shown, which are the given ones. Take the list of runners before
// calling Pending: a name that the watch drops in between belongs to a runner that has been deleted since.
func (c *Memory) Observe(runners []*roster.Runner) {
	c.Expect(c.unanswered...) // as long as they are tried again
	pending := c.Pending()
	for _, r := range runners {
		if _, expected := pending[r.Name]; expected {
			c.Drop(r.Name)
		}
	}
}

// Overdue returns the names of the runners that should have been seen by now, or nil if it is too early to ask the API
// server again. We never replace a runner merely because a watch event is missing.
func (c *Memory) Overdue(now time.Time) []string {
	if now.Before(c.listAt) {
		return nil
	}
	var names []string
	for name, since := range c.Pending() {
		if isOverdue(since, now) {
			names = append(names, name)
		}
	}
	return names
}

func isOverdue(since, now time.Time) bool { return !now.Before(since.Add(expectationTimeout)) }

// RememberListed remembers which runners the API server has, or why it did not say. Overdue runners that exist stay
// expected; the others are forgotten. An error changes nothing.
func (c *Memory) RememberListed(overdue []string, existing sets.Set[string], err error, now time.Time) {
	c.listAt, c.listErr = now.Add(listInterval), err
	if err != nil {
		return
	}
	names := sets.New(overdue...)
	for name := range names.Difference(existing) {
		c.Drop(name)
	}
	// The wait for those that exist begins anew, unless the watch has shown their deletion in the meantime. They are no
	// longer uncertain.
	late := names.Intersection(existing).Intersection(sets.KeySet(c.Pending()))
	c.Expect(late.UnsortedList()...)
	c.late = append(slices.DeleteFunc(c.late, late.Has), late.UnsortedList()...)
	c.shelved = slices.DeleteFunc(c.shelved, late.Has)
}

// Inherit remembers which runners the API server has before this process creates its first one, and returns the number
// of those that the watch has yet to show. These are expected as if they had been created here. If one of them appears
// and is gone while the list is under way, only the list after expectationTimeout shows that it is.
func (c *Memory) Inherit(existing sets.Set[string], runners []*roster.Runner) int {
	c.unlisted = false
	for _, r := range runners {
		existing.Delete(r.Name)
	}
	c.Expect(existing.UnsortedList()...)
	return len(existing)
}

// Unseen counts the runners that are still expected after Observe and RememberListed, and drops what is remembered of
// the others.
func (c *Memory) Unseen(now time.Time) Unseen {
	pending, overdue := c.Pending(), false
	for _, since := range pending {
		overdue = overdue || isOverdue(since, now)
	}
	if !overdue {
		c.listErr = nil
	}
	over := func(name string) bool { _, still := pending[name]; return !still }
	c.unanswered, c.shelved = slices.DeleteFunc(c.unanswered, over), slices.DeleteFunc(c.shelved, over)
	c.late = slices.DeleteFunc(c.late, over)
	return Unseen{Expected: len(pending), Uncertain: len(c.unanswered) + len(c.shelved)}
}

// ListDueAt returns the time to ask the API server about the runners that have not been seen by then, zero if none is
// expected.
func (c *Memory) ListDueAt() time.Time {
	var oldest time.Time
	for _, since := range c.Pending() {
		oldest = kube.EarlierOf(oldest, since)
	}
	if oldest.IsZero() {
		return time.Time{}
	}
	return kube.LaterOf(oldest.Add(expectationTimeout), c.listAt)
}

// Keep keeps so many of the unanswered creations to be repeated, and shelves the others.
func (c *Memory) Keep(repeat int) {
	names := slices.Concat(c.unanswered, c.shelved)
	c.unanswered, c.shelved = names[:repeat:repeat], names[repeat:]
}

// Abandon ends all repetition: runners that may exist are expected only for a while.
func (c *Memory) Abandon() { c.unanswered = nil }

// Allowed reports whether runners may be created now: not in a namespace that is being deleted, and not soon after a
// failed creation.
func (c *Memory) Allowed(now time.Time) bool { return !c.Closed && !now.Before(c.retryAt) }

// PausedUntil returns the end of the pause after a failed creation, zero if there is none or nothing to wait for.
func (c *Memory) PausedUntil(now time.Time) time.Time {
	if c.Closed || !now.Before(c.retryAt) {
		return time.Time{}
	}
	return c.retryAt
}

// Failing reports whether creations have failed too often in a row.
func (c *Memory) Failing() bool { return c.failures >= failingThreshold }

// Begin returns n tries, whose names are expected from now on. Unanswered ones come first and are repeated, so that
// there is one runner whichever try succeeds; then come new names from pick. No runner has these names already: a
// creation under a used name is answered with AlreadyExists, which counts as success, and as long as jobs keep ending
// nothing would show that a runner is missing.
func (c *Memory) Begin(n int, runners []*roster.Runner, pick func() string) []*Try {
	used := sets.KeySet(c.Pending())
	for _, r := range runners {
		used.Insert(r.Name)
	}
	tries := make([]*Try, 0, n)
	add := func(name string, repeated bool) {
		used.Insert(name)
		c.Expect(name)
		tries = append(tries, &Try{Name: name, Repeated: repeated})
	}
	for _, name := range c.unanswered {
		add(name, true)
	}
	for len(tries) < n {
		if name := pick(); !used.Has(name) {
			add(name, false)
		}
	}
	return tries
}

// End remembers the results of all tries that Begin returned. Some may not have been sent, because the context ended:
// nothing new is known about a repeated try, and a new one is no longer expected.
func (c *Memory) End(tries []*Try) {
	c.unanswered = nil
	for _, t := range tries {
		switch {
		case t.Asked && Made(t.Err): // the watch will show it
		case t.Asked && notCreated(t.Err) && t.Repeated:
			// An earlier try may have succeeded after all and fill the quota. The watch will show it, or not.
		case t.Asked && !notCreated(t.Err), t.Repeated: // no answer, now or before
			c.unanswered = append(c.unanswered, t.Name)
		default: // there is no such runner
			c.Drop(t.Name)
		}
	}
}

// Settle remembers the error of a pass' creations, nil if there was none; call it after End. After an error the next
// creations wait, longer after each error in a row.
func (c *Memory) Settle(err error, now time.Time) {
	c.Closed = kube.IsNamespaceTerminating(err)
	switch {
	case c.Closed:
	case err == nil:
		c.failures, c.Err = 0, nil
	default:
		longest := longestCreateBackoff
		if len(c.unanswered) > 0 || !notCreated(err) {
			longest = LongestAwayBackoff
		}
		c.failures, c.Err = c.failures+1, err
		c.retryAt = now.Add(reconcile.Backoff(firstCreateBackoff, longest, c.failures))
	}
}

// Made reports whether the runner exists after its creation was answered with err.
func Made(err error) bool { return err == nil || apierrors.IsAlreadyExists(err) }

// notCreated reports whether err is the API server's answer that it did not do what was asked, such as creating an
// object. After any other error the object may exist.
func notCreated(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusRequestTimeout
}

// HasUnseen reports whether overdue runners exist, or may exist.
func (c *Memory) HasUnseen() bool { return c.listErr != nil || len(c.late) > 0 }

// UnseenCondition returns the condition that says so, and why these runners are not replaced.
func (c *Memory) UnseenCondition(namespace string) metav1.Condition {
	if c.listErr != nil {
		return report.True(v1alpha1.ConditionDegraded, v1alpha1.ReasonRunnersUnseen, fmt.Sprintf(
			"runners created in namespace %s more than %s ago have not appeared, and the API server can't be asked "+
				"whether they exist, so they are not replaced: %s",
			namespace, expectationTimeout, report.WithAdvice(c.listErr)))
	}
	return report.True(v1alpha1.ConditionDegraded, v1alpha1.ReasonRunnersUnseen, fmt.Sprintf(
		"%d runners created in namespace %s more than %s ago exist, but the manager's watch of EphemeralRunners "+
			"does not show them, so they are neither served nor replaced; the manager's log says why the watch fails",
		len(c.late), namespace, expectationTimeout))
}

// UnseenWhileDeleted returns the condition for a set that is being deleted. Of all causes of Degraded, only this one
// keeps a deleted set waiting, so only this one is set and cleared.
func (c *Memory) UnseenWhileDeleted(set *v1alpha1.EphemeralRunnerSet) []metav1.Condition {
	if c.HasUnseen() {
		return []metav1.Condition{c.UnseenCondition(set.Namespace)}
	}
	reported := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionDegraded)
	if reported == nil || reported.Reason != v1alpha1.ReasonRunnersUnseen {
		return nil
	}
	return []metav1.Condition{report.False(v1alpha1.ConditionDegraded, "RunnersSeen",
		"the runners created last have been seen, or do not exist")}
}
