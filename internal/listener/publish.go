package listener

import (
	"cmp"
	"context"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/listener/cluster"
)

// maxHold is longer than the outage of an API server during an upgrade. If only the set can't be written, ends of jobs
// are reported after it.
const maxHold = 5 * time.Minute

// After fewer runners are wanted, a newer patchID may be waited for until surplusGrace has passed: surplus is
// acted on 30 s after it was first seen, by the first patchID after that, and the set may see it some seconds late.
const surplusGrace = 45 * time.Second

// due returns the time at which want must be published, or false if it was published already or nobody waits for what
// is new in it.
func (p *publicationState) due(want cluster.Publication, now time.Time) (time.Time, bool) {
	newPatchID := p.last
	newPatchID.PatchID = want.PatchID
	switch {
	case want == p.last && !p.lastAt.IsZero():
		return time.Time{}, false
	case p.lastAt.IsZero(), p.force, want.Replicas != p.last.Replicas, want.SessionID != p.last.SessionID:
		return p.NotBefore, true
	case want == newPatchID && !p.awaitsPatchID(now):
		return time.Time{}, false
	}
	return latest(p.lastAt.Add(publishInterval), p.NotBefore), true
}

// awaitsPatchID reports whether a newer patchID may change what the set does: free a slot, or confirm that a runner is
// surplus. Each publication is a write of an object with a pod template, and the set would tell of it in its status.
func (p *publicationState) awaitsPatchID(now time.Time) bool {
	return p.owed > p.last.PatchID || p.runners > p.last.Replicas || now.Sub(p.fellAt) < surplusGrace
}

// unpublished returns the publication that is due, and its time, or false if none is.
func (l *loop) unpublished() (want cluster.Publication, at time.Time, ok bool) {
	if l.stopping {
		l.publication.force = true // the successor must find the patchID that the last reports carry
	}
	want = cluster.Publication{Desired: l.scaler.Desired, SessionID: l.session.sessionID}
	at, ok = l.publication.due(want, l.clock.Now())
	return want, at, ok
}

// publish starts to write the desired count if it is due. If the statistics have become old during failures, they are
// read again first, unless GitHub can't be reached either: then the last known count is better than none.
func (l *loop) publish(now time.Time) {
	p := &l.publication
	if p.UnderWay || !l.scaler.Known() {
		return
	}
	want, at, ok := l.unpublished()
	if !ok || l.mustWait(at, now) {
		return
	}
	readable := l.session.current != nil && l.refreshing.Failure == nil && !l.stopping
	if p.Failure != nil && readable && now.Sub(l.scaler.StatisticsAt) > publishInterval {
		if !l.refreshing.UnderWay {
			l.refreshing.dueAt = now
		}
		return
	}
	p.Begin()
	p.force = false
	if want.Replicas != p.last.Replicas || p.lastAt.IsZero() {
		l.log.Info(
			"Desired runners changed", "replicas", want.Replicas, "assignedJobs", want.AssignedJobs,
			"patchID", want.PatchID,
		)
	}
	epoch := l.status.epoch
	l.runAsync(cluster.RequestTimeout, func(ctx context.Context) func() {
		runnerSet, err := l.cluster.Publish(ctx, want)
		return func() { l.published(want, epoch, runnerSet, err) }
	})
}

// published handles the result of a publication. epoch is the status's epoch when the publication began.
func (l *loop) published(wrote cluster.Publication, epoch int, runnerSet *cluster.RunnerSet, err error) {
	now := l.clock.Now()
	p := &l.publication
	p.End()
	if err != nil {
		p.force = true
		p.RememberAs(v1alpha1.ReasonPublishFailed, err, now)
		p.Pause(now)
		l.reporter.Hold(l.work, now.Sub(p.Failure.FirstAt) < maxHold)
		l.log.Error(
			err, "Desired runners could not be published, trying again", "replicas", wrote.Replicas, "at", p.NotBefore,
		)
		return
	}
	l.reporter.Answered()
	l.reporter.Hold(l.work, false)
	if wrote.Replicas < p.last.Replicas {
		p.fellAt = now
	}
	p.last, p.lastAt, p.runners = wrote, now, runnerSet.Runners.Pending+runnerSet.Runners.Running
	p.Succeed()
	l.setSeen(runnerSet, epoch, now)
	l.strays.Observe(&l.scaler.Statistics, runnerSet.Runners, now)
	if p.uid != "" && runnerSet.UID != "" && p.uid != runnerSet.UID {
		l.log.Info("The EphemeralRunnerSet was recreated, publishing again", "uid", runnerSet.UID)
		l.refreshing.dueAt = now
	}
	p.uid = cmp.Or(runnerSet.UID, p.uid)
}

// readRoom starts to read the set if the number of jobs for which it has room is due to be read: before the first poll
// of a session, and while GitHub has assigned as many jobs as it was told of. At other times what publications bring is
// enough.
func (l *loop) readRoom(now time.Time) {
	r := &l.room
	if r.UnderWay || l.session.current == nil || l.stopping || !l.takesJobs() {
		return
	}
	at := r.ReadAt(l.scaler, now)
	if at.IsZero() || l.mustWait(latest(at, r.NotBefore), now) {
		return
	}
	r.Begin()
	r.Ask(now)
	epoch := l.status.epoch
	l.runAsync(cluster.RequestTimeout, func(ctx context.Context) func() {
		runnerSet, err := l.cluster.RunnerSet(ctx)
		return func() {
			now := l.clock.Now()
			r.End()
			if err != nil {
				r.Pause(now)
				l.log.Error(
					err, "The EphemeralRunnerSet could not be read for its capacity, trying again", "at", r.NotBefore,
				)
				return
			}
			r.ResetPauses()
			l.setSeen(runnerSet, epoch, now)
		}
	})
}

// setSeen takes in what the set says. epoch is the status's epoch when the request began.
func (l *loop) setSeen(runnerSet *cluster.RunnerSet, epoch int, now time.Time) {
	before := l.capacity()
	l.room.Observe(runnerSet.Capacity, now)
	if after := l.capacity(); before != after { // the next poll passes it on to GitHub
		l.log.Info("Capacity changed", "jobs", after, "before", before)
	}
	l.scaler.Doubted = runnerSet.DoubtedJobs
	l.statusSeen(runnerSet.Listener, epoch)
}

// statusSeen remembers the status that was read from the set, unless a write may be newer than the epoch in which the
// read began. A set that was recreated has no status yet.
func (l *loop) statusSeen(status *v1alpha1.ListenerStatus, epoch int) {
	switch {
	case l.status.UnderWay || epoch != l.status.epoch: // the write may be newer
	case status == nil:
		l.status.lastWritten = v1alpha1.ListenerStatus{}
	default:
		l.status.lastWritten = *status
	}
}
