package ephemeralrunnerset

import (
	"errors"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/harrier-ci/harrier/internal/kube"
)

const (
	// firstCreatePause is the pause after a failed creation. It doubles with every further one in a row, up to
	// longestCreatePause, so that what refuses (a quota, a webhook) is not asked again at every event of a runner.
	firstCreatePause   = time.Second
	longestCreatePause = time.Minute
	// longestAwayPause takes the place of longestCreatePause while the API server gives no answer, or only an error of its
	// own: its return has to be noticed within seconds, because jobs wait.
	longestAwayPause = 10 * time.Second
	// expectationTimeout is how long a runner that was created may stay unseen until the API server is asked about it. Watches
	// deliver within seconds: one that is not seen for longer was deleted before it could be, or the watch is broken.
	expectationTimeout = time.Minute
	// listPeriod is the shortest time between two such questions, each a list of the set's runners: two a minute, so that a
	// scale set whose runners are replaced, which has two sets, stays within four.
	listPeriod = 30 * time.Second
)

// creations are a set's runners that were asked for and that the watch has not shown yet. A pass observes them, keeps those that
// its plan repeats, and may then begin, end and settle creations.
type creations struct {
	set types.NamespacedName
	// expected are the names asked for, of all sets: the watch's handler meets them as well.
	expected *kube.Expectations
	// unanswered are the names of runners whose creation had no answer: it is tried again under the same names. shelved are
	// those of them that nobody wants at present: the runners may exist, so they are expected for a while, but not tried again.
	unanswered, shelved []string
	// failures counts the times in a row that creations failed, err is what the last ones failed with, and retryAt is when the
	// next may be tried.
	failures int
	err      error
	retryAt  time.Time
	// closed is set when the namespace is being deleted, so that nothing can be created in it any more.
	closed bool
	// listAt is when the API server may be asked again about overdue runners, and listErr is what the last question failed
	// with, for as long as there are any. late are the names that it has though the watch does not show them.
	listAt  time.Time
	listErr error
	late    []string
}

// unseen counts the runners that are not among those of a plan: they were created, or may have been.
type unseen struct {
	expected int
	// uncertain is how many of the expected ones may not exist, because their creation had no answer.
	uncertain int
}

// try is one request to create a runner.
type try struct {
	name string
	// repeated is set where an earlier try under this name had no answer.
	repeated bool
	// asked is set when the request was made, and err is what it failed with.
	asked bool
	err   error
}

// observe forgets the runners that the watch has shown, which are the given ones. Take the runners before Pending: a name met in
// between belongs to a runner deleted since.
func (c *creations) observe(runners []*runnerView) {
	c.expected.Expect(c.set, c.unanswered...) // for as long as they are tried again
	pending := c.expected.Pending(c.set)
	for _, r := range runners {
		if _, expected := pending[r.name]; expected {
			c.expected.Met(c.set, r.name)
		}
	}
}

// overdue returns the names of the runners that should have been seen by now, if the API server may be asked about them: a missing
// watch event alone never makes us replace a runner.
func (c *creations) overdue(now time.Time) []string {
	if now.Before(c.listAt) {
		return nil
	}
	var names []string
	for name, since := range c.expected.Pending(c.set) {
		if isOverdue(since, now) {
			names = append(names, name)
		}
	}
	return names
}

func isOverdue(since, now time.Time) bool { return !now.Before(since.Add(expectationTimeout)) }

// noteListed takes in which runners the API server has, or why it did not say. Overdue runners that exist stay expected; the others are
// forgotten. An error changes nothing.
func (c *creations) noteListed(overdue []string, existing sets.Set[string], err error, now time.Time) {
	c.listAt, c.listErr = now.Add(listPeriod), err
	if err != nil {
		return
	}
	names := sets.New(overdue...)
	c.forget(names.Difference(existing))
	c.renew(names.Intersection(existing))
}

// forget stops expecting runners that do not exist.
func (c *creations) forget(names sets.Set[string]) {
	for name := range names {
		c.expected.Met(c.set, name)
	}
}

// renew has the time of runners that exist start anew, but for those whose deletion the watch has shown in the meantime. They
// are uncertain no longer.
func (c *creations) renew(names sets.Set[string]) {
	late := names.Intersection(sets.KeySet(c.expected.Pending(c.set)))
	c.expected.Expect(c.set, late.UnsortedList()...)
	c.late = append(slices.DeleteFunc(c.late, late.Has), late.UnsortedList()...)
	c.shelved = slices.DeleteFunc(c.shelved, late.Has)
}

// unseen counts the runners that are expected after observe and noteListed, and drops what is remembered of others.
func (c *creations) unseen(now time.Time) unseen {
	pending, overdue := c.expected.Pending(c.set), false
	for _, since := range pending {
		overdue = overdue || isOverdue(since, now)
	}
	if !overdue {
		c.listErr = nil
	}
	over := func(name string) bool { _, still := pending[name]; return !still }
	c.unanswered, c.shelved = slices.DeleteFunc(c.unanswered, over), slices.DeleteFunc(c.shelved, over)
	c.late = slices.DeleteFunc(c.late, over)
	return unseen{expected: len(pending), uncertain: len(c.unanswered) + len(c.shelved)}
}

// listDueAt returns when the API server is to be asked about the runners that have not been seen until then; zero where none is
// expected.
func (c *creations) listDueAt() time.Time {
	var oldest time.Time
	for _, since := range c.expected.Pending(c.set) {
		oldest = kube.EarlierOf(oldest, since)
	}
	if oldest.IsZero() {
		return time.Time{}
	}
	return kube.LaterOf(oldest.Add(expectationTimeout), c.listAt)
}

// keep has so many of the creations without an answer repeated, and shelves the others.
func (c *creations) keep(repeat int) {
	names := slices.Concat(c.unanswered, c.shelved)
	c.unanswered, c.shelved = names[:repeat:repeat], names[repeat:]
}

// abandon has nothing tried again any more: what may exist is expected for a while only.
func (c *creations) abandon() { c.unanswered = nil }

// allowed reports whether runners may be created now: none in a namespace that is being deleted, or soon after a creation
// that failed.
func (c *creations) allowed(now time.Time) bool { return !c.closed && !now.Before(c.retryAt) }

// pausedUntil returns when the pause after a creation that failed is over; zero where there is none, or nothing to wait for.
func (c *creations) pausedUntil(now time.Time) time.Time {
	if c.closed || !now.Before(c.retryAt) {
		return time.Time{}
	}
	return c.retryAt
}

// failing reports whether creations have failed too often in a row.
func (c *creations) failing() bool { return c.failures >= degradedThreshold }

// begin returns n tries, whose names are expected from now on: first those that repeat one without an answer, so that there is
// one runner whichever succeeds, then new ones under names from pick. No runner has these already: a creation under a name that
// is in use is answered with AlreadyExists, which counts as success, and while jobs end all the time nothing would show that a
// runner is missing.
func (c *creations) begin(n int, runners []*runnerView, pick func() string) []*try {
	used := sets.KeySet(c.expected.Pending(c.set))
	for _, r := range runners {
		used.Insert(r.name)
	}
	tries := make([]*try, 0, n)
	add := func(name string, repeated bool) {
		used.Insert(name)
		c.expected.Expect(c.set, name)
		tries = append(tries, &try{name: name, repeated: repeated})
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

// end takes in what became of the tries, which are all that begin returned. Some may not have been asked, because the context
// ended: of these no more is known than before, and a new one that nobody asked for is not expected.
func (c *creations) end(tries []*try) {
	c.unanswered = nil
	for _, t := range tries {
		switch {
		case t.asked && made(t.err): // the watch will show it
		case t.asked && notCreated(t.err) && t.repeated:
			// An earlier try may have succeeded all the same, and be what fills the quota. The watch will show it, or not.
		case t.asked && !notCreated(t.err), t.repeated: // no answer, now or before
			c.unanswered = append(c.unanswered, t.name)
		default: // there is no such runner
			c.expected.Met(c.set, t.name)
		}
	}
}

// settle notes how the creations of a pass went, after end. After an error the next ones wait, longer after each in a row.
func (c *creations) settle(err error, now time.Time) {
	c.closed = kube.IsNamespaceTerminating(err)
	switch {
	case c.closed:
	case err == nil:
		c.failures, c.err = 0, nil
	default:
		longest := longestCreatePause
		if len(c.unanswered) > 0 {
			longest = longestAwayPause
		}
		c.failures, c.err = c.failures+1, err
		c.retryAt = now.Add(kube.ExponentialBackoff(firstCreatePause, longest, c.failures))
	}
}

// made reports whether there is a runner of the name for which a creation was answered with err.
func made(err error) bool { return err == nil || apierrors.IsAlreadyExists(err) }

// notCreated reports whether err is the API server's answer that it did not create the object. After any other error the
// object may exist.
func notCreated(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusRequestTimeout
}
