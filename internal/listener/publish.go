package listener

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
)

const (
	// publishInterval is how long a new patchID alone may wait: a busy set would otherwise write with every message.
	// It is also the oldest that statistics may be when their patchID is published, because the EphemeralRunnerSet
	// takes a patchID seen 3 s after the end of a runner to count that end.
	publishInterval = 3 * time.Second
	// settleTime after the last message the statistics are read afresh: the last changes may have come without one.
	settleTime = 10 * time.Second
)

// errNoStatistics is a service that has never said how many jobs there are.
var errNoStatistics = errors.New("GitHub sent no statistics of the scale set")

// publishing is what was written into the EphemeralRunnerSet and what is due to be.
type publishing struct {
	last Publication
	// uid is that of the set, empty if it is not known.
	uid types.UID
	// lastAt is when, zero before the first time.
	lastAt   time.Time
	underWay bool
	// force publishes although nothing but the patchID changed.
	force   bool
	retryAt time.Time
	backoff backoff
	// trouble is why the last attempt failed, nil when it didn't.
	trouble *trouble
}

// due says when want has to be published; false means that it is there already.
func (p *publishing) due(want Publication) (time.Time, bool) {
	switch {
	case want == p.last && !p.lastAt.IsZero():
		return time.Time{}, false
	case p.lastAt.IsZero(), p.force, want.Replicas != p.last.Replicas, want.SessionID != p.last.SessionID:
		return p.retryAt, true
	}
	return latest(p.lastAt.Add(publishInterval), p.retryAt), true
}

// publish starts to write the desired count if it is due. After failures, when the statistics have grown old, they are
// read afresh first; when GitHub is away as well, the last known count is better than none.
func (l *loop) publish(now time.Time) {
	p := &l.published
	if p.underWay || !l.scaler.known() {
		return
	}
	want := Publication{Desired: l.scaler.desired, SessionID: l.link.sessionID}
	at, ok := p.due(want)
	if l.stopping {
		at = p.retryAt // the successor must find the number that the last reports carry
	}
	if !ok || l.later(at, now) {
		return
	}
	if p.backoff.failures > 0 && l.renewOldStatistics(now) {
		return
	}
	p.underWay, p.force = true, false
	if want.Replicas != p.last.Replicas || p.lastAt.IsZero() {
		l.log.Info("Desired runners", "replicas", want.Replicas, "assignedJobs", want.AssignedJobs, "patchID", want.PatchID)
	}
	turns := l.state.turns
	l.beside(kubernetesLimit, func(ctx context.Context) func() {
		set, err := l.cluster.Publish(ctx, want)
		return func() { l.publishedResult(want, turns, set, err) }
	})
}

// publishedResult takes over what the answer says of the set. Turns is how many there were of reports before it was asked.
func (l *loop) publishedResult(wrote Publication, turns int, set *RunnerSet, err error) {
	now := l.clock.Now()
	p := &l.published
	p.underWay = false
	if err != nil {
		p.force = true
		p.retryAt = now.Add(p.backoff.next())
		p.trouble = p.trouble.again(v1alpha1.ReasonPublishFailed, err, now)
		l.log.Error(err, "Desired runners could not be published, trying again", "replicas", wrote.Replicas, "at", p.retryAt)
		return
	}
	l.reporter.answered()
	p.last, p.lastAt, p.trouble = wrote, now, nil
	p.backoff.reset()
	l.setCapacity(set.Capacity)
	l.heard(set.Listener, turns)
	if p.uid != "" && set.UID != "" && p.uid != set.UID {
		l.log.Info("The EphemeralRunnerSet was made anew, publishing afresh", "uid", set.UID)
		l.refreshing.at = now
	}
	p.uid = cmp.Or(set.UID, p.uid)
}

// setCapacity takes over what the manager says the set can run; the next poll tells GitHub.
func (l *loop) setCapacity(capacity *int) {
	if before, after := l.capacity(), min(orElse(capacity, l.scaler.maxRunners), l.scaler.maxRunners); before != after {
		l.log.Info("Capacity", "jobs", after, "before", before)
	}
	l.setLimit = capacity
}

// capacity is how many jobs GitHub may assign to the set, running ones included.
func (l *loop) capacity() int {
	return min(orElse(l.setLimit, l.scaler.maxRunners), l.scaler.maxRunners)
}

// refreshing is about reading the statistics afresh.
type refreshing struct {
	// at is when that is due, zero for not.
	at       time.Time
	underWay bool
	// quiet says that the last poll was held and brought nothing: the last statistics still hold.
	quiet bool
	// lastAt is when it was last begun.
	lastAt time.Time
	// notBefore is until when GitHub wants no such call, whatever makes it due.
	notBefore time.Time
	backoff   backoff
}

// renewOldStatistics says that the statistics are too old to be published and will be read afresh.
func (l *loop) renewOldStatistics(now time.Time) bool {
	readable := l.link.session != nil && l.refreshing.backoff.failures == 0 && !l.stopping
	if !readable || now.Sub(l.scaler.statisticsAt) <= publishInterval {
		return false
	}
	if !l.refreshing.underWay {
		l.refreshing.at = now
	}
	return true
}

// refresh reads the statistics if that is due. At most once per publishInterval, whatever the length of polls.
func (l *loop) refresh(now time.Time) {
	r := &l.refreshing
	if r.at.IsZero() || r.underWay || l.link.session == nil || l.stopping || l.later(latest(latest(r.at, r.lastAt.Add(publishInterval)), r.notBefore), now) {
		return
	}
	r.underWay, r.lastAt, r.at = true, now, time.Time{}
	client, scaleSetID, generation, patchID := l.link.client, l.config.RunnerScaleSetID, l.link.generation, l.scaler.desired.PatchID
	l.beside(gitHubLimit, func(ctx context.Context) func() {
		set, err := client.GetRunnerScaleSetByID(ctx, scaleSetID)
		return func() {
			l.refreshing.underWay = false
			if generation == l.link.generation {
				l.refreshed(set, err, patchID)
			}
		}
	})
}

// refreshed publishes what was read in any case: that is what releases held slots. What was not read promises nothing, but for
// a service without this call, whose silence after the last message is all there is. Statistics of a message that came meanwhile are newer.
func (l *loop) refreshed(set *actions.RunnerScaleSet, err error, patchID int) {
	now := l.clock.Now()
	r := &l.refreshing
	if statisticsUnknown(err) && l.scaler.known() {
		l.log.V(1).Info("Statistics come with messages only", "cause", err.Error())
		if !r.quiet || l.scaler.awaits(now) {
			r.backoff.next() // nothing to wait for before the last known count is published
			return
		}
		set, err = &actions.RunnerScaleSet{}, nil
	}
	if err == nil && set.Statistics == nil && !l.scaler.known() {
		err = errNoStatistics
	}
	if err != nil {
		r.notBefore = now.Add(untilAllowed(err, now))
		r.at = latest(now.Add(r.backoff.next()), r.notBefore)
		l.log.Error(err, "Statistics could not be read, trying again", "at", r.at)
		return
	}
	r.backoff.reset()
	l.published.force = true
	if patchID == l.scaler.desired.PatchID {
		l.observe(set.Statistics, now)
	}
}

// statisticsUnknown says that the service has no call for statistics. That it has no such scale set it says by name.
func statisticsUnknown(err error) bool {
	answer := refusalOf(err, actions.EndpointGetScaleSet)
	return answer != nil && answer.TypeName == "" &&
		slices.Contains([]int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented}, answer.StatusCode)
}

// observe takes statistics over.
func (l *loop) observe(statistics *actions.Statistics, now time.Time) {
	l.scaler.observe(statistics, now)
	l.showDesired()
}

// showDesired puts an evaluation into the metrics.
func (l *loop) showDesired() {
	if l.scaler.known() {
		l.metrics.Statistics(&l.scaler.statistics, l.scaler.desired.Replicas)
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func orElse(value *int, otherwise int) int {
	if value == nil {
		return otherwise
	}
	return *value
}
