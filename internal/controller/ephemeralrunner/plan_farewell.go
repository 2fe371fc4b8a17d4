package ephemeralrunner

import (
	"time"
)

const (
	// unansweredAtMost is how long GitHub may fail to answer whether a runner is idle. Then one without a recorded job
	// goes, and what a pod that is gone has left on GitHub is left there: GitHub removes offline ephemeral runners
	// itself after a day.
	unansweredAtMost = 5 * time.Minute
	// unseenInFarewell is how long the cache may take to show a pod that was created while the runner was being deleted.
	// Should it take longer, garbage collection finds the pod's owner gone.
	unseenInFarewell = 10 * time.Second
)

// farewell is what a runner that is being deleted still needs. Several can be wanted in one pass.
type farewell struct {
	// stop: pod and Secret go.
	stop bool
	// unbound: the pod goes only if the API server knows it as the cache does, without a node.
	unbound bool
	// deregister: GitHub is asked to remove the registration.
	deregister bool
	// drain: the pod stays because the runner has a job; the status is to say so.
	drain bool
	// forced: the pod goes without GitHub's leave.
	forced bool
	// release: the finalizer goes.
	release bool
	// leftBehind says what could not be removed from GitHub; empty where nothing is left.
	leftBehind string
	again      time.Time
}

// ending is all that a farewell depends on.
type ending struct {
	pod        outcome
	bound      bool // the pod has a node, whose kubelet may have started it without having said so yet
	hasJob     bool // a job was reported to have started and not to have ended, or GitHub has spoken of one
	completed  bool // the end of the job of the present registration was reported
	registered bool // there may be a registration
	// provisioning: a registration is under way; its pod may still be created.
	provisioning bool
	// unseen: a pod was created a moment ago and has not been seen yet.
	unseen   bool
	removal  progress
	forced   bool      // the pod was deleted without GitHub's leave: it had its time to answer
	deleting time.Time // first seen to be deleted
	stopped  time.Time // first seen without a running container while being deleted
	podGone  time.Time // first seen without a pod while being deleted
	now      time.Time
}

// planFarewell decides how a runner goes: one that can't be running a job at once, one that may only with GitHub's leave.
func planFarewell(e *ending) farewell {
	agreed := e.agreed()
	switch {
	case e.provisioning:
		return farewell{}
	case e.mayRun() && !agreed:
		return planDraining(e)
	}
	f := farewell{stop: true}
	if !agreed {
		f.unbound = !e.ended()
		f.ask(e)
	}
	if e.pod.state == podMissing {
		f.letGo(e, agreed)
	}
	return f
}

// nothingLeft says that the runner has no pod, and no registration that could have a job.
func (e *ending) nothingLeft() bool {
	return !e.provisioning && !e.unseen && e.pod.state == podMissing && e.agreed()
}

// agreed says that the runner can't get a job any more, or has had its own.
func (e *ending) agreed() bool {
	return e.completed || !e.registered || e.removal.known && !e.removal.running && e.removal.failure == nil
}

// mayRun says that the runner may be at work, whatever its pod's status says: a kubelet tells of a start some time after
// it, and the cache some time after that. Only a pod without a node has not started for certain, and that without a job
// only: a job means that the cache is late.
func (e *ending) mayRun() bool {
	return !e.ended() && (e.pod.state != podPending || e.bound || e.hasJob)
}

// ended says that the runner container will not run any more, or never has.
func (e *ending) ended() bool { return e.pod.over() || e.pod.state == podMissing }

// letGo releases a runner whose pod is gone: once GitHub has no registration of it, or has had its time to say so.
func (f *farewell) letGo(e *ending, agreed bool) {
	deadline := e.podGone.Add(unansweredAtMost)
	switch {
	case e.unseen:
		f.wake(e.now.Add(time.Second))
	case agreed:
		f.release = true
	case e.forced || !e.now.Before(deadline):
		f.release, f.leftBehind = true, "no answer from GitHub"
		if e.removal.failure != nil {
			f.leftBehind = e.removal.failure.message
		}
	default:
		f.wake(deadline)
	}
}

// planDraining: the runner may have a job, whatever was reported. GitHub is asked first.
func planDraining(e *ending) farewell {
	var f farewell
	f.ask(e)
	if e.removal.failure != nil && e.removal.failure.kind == failureBusy {
		f.drain = true
		return f
	}
	deadline := e.deleting.Add(unansweredAtMost)
	if e.hasJob {
		f.drain = true
		return f
	}
	if !e.now.Before(deadline) {
		f.stop, f.forced = true, true
		return f
	}
	f.wake(deadline)
	return f
}

// ask asks GitHub to remove the registration unless that is under way or it is too early to ask again. That the runner
// was busy while it ran says nothing any more once it has stopped.
func (f *farewell) ask(e *ending) {
	wasBusy := e.removal.failure != nil && e.removal.failure.kind == failureBusy
	switch {
	case e.removal.running:
	case wasBusy && e.removal.finished.Before(e.stopped):
		f.deregister = true
	case e.now.Before(e.removal.due):
		f.wake(e.removal.due)
	default:
		f.deregister = true
	}
}

// wake makes sure that the runner is looked at again at t.
func (f *farewell) wake(t time.Time) {
	if f.again.IsZero() || t.Before(f.again) {
		f.again = t
	}
}
