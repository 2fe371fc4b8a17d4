package ephemeralrunner

import (
	"time"

	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/calls"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

const (
	// answerTimeout is how long GitHub may fail to say whether a runner is idle. After that a runner without a recorded job
	// is deleted, and if its pod is gone, its registration is left behind: GitHub itself removes offline ephemeral runners
	// after a day.
	answerTimeout = 5 * time.Minute
	// unseenFinalizingTimeout is how long the cache may take to show a pod that was created while the runner was being
	// deleted. If it takes longer, garbage collection deletes the pod because its owner is gone.
	unseenFinalizingTimeout = 10 * time.Second
)

// deletion is what was seen of a runner that is being deleted.
type deletion struct {
	deletingAt time.Time // when it was first seen with a deletionTimestamp
	stoppedAt  time.Time // since when it has been seen without a running container
	podGoneAt  time.Time // since when it has been seen without a pod
	heldAt     time.Time // since when it waits for its set to count its lost job
	forced     bool      // its pod was deleted without GitHub's consent, after GitHub had its time to answer
}

// see notes since when the runner is being deleted, its container does not run, and its pod is gone. A container that was
// about to start, or a pod that appears late, resets its clock.
func (d *deletion) see(running, gone bool, now time.Time) {
	kube.SetIfZero(&d.deletingAt, now)
	d.stoppedAt = since(d.stoppedAt, !running, now)
	d.podGoneAt = since(d.podGoneAt, gone, now)
}

// since returns when a condition that holds began: now if it is new, zero if it does not hold.
func since(began time.Time, holds bool, now time.Time) time.Time {
	switch {
	case !holds:
		return time.Time{}
	case began.IsZero():
		return now
	default:
		return began
	}
}

// finalization is what a runner that is being deleted still needs. One pass may do several of these things.
type finalization struct {
	// deleteChildren: delete the pod, the Secret, and what container hooks created.
	deleteChildren bool
	// onlyUnbound restricts that to a pod without a node that has not changed since the cache showed it.
	onlyUnbound bool
	// deregister: ask GitHub to remove the registration.
	deregister bool
	// reportDraining: the pod stays because the runner has a job; write that to the status.
	reportDraining bool
	// forced: the pod is deleted without GitHub's consent.
	forced bool
	// reportKept: the pod has ended and somebody else keeps it; write that to the status.
	reportKept bool
	// removeFinalizers: nothing keeps the runner any more.
	removeFinalizers bool
	// leftBehind says why something may be left on GitHub; empty if nothing is.
	leftBehind string
	requeueAt  time.Time
}

// finalizing is all that a finalization depends on.
type finalizing struct {
	pod          outcome
	bound        bool // the pod has a node, whose kubelet may have started it and not yet said so
	mayHaveJob   bool // a job was reported started and not ended, or GitHub refused a removal because of one
	completed    bool // the end of the present registration's job was reported, and the runner didn't die
	registered   bool // GitHub may have a registration
	provisioning bool // a registration is under way; its pod may still be created
	unseen       bool // a pod was just created and has not been seen yet
	removal      calls.Progress
	podDueAt     time.Time // when the pod must be gone once it has ended, zero if it is not being deleted
	keptReported bool      // the status says that somebody keeps the pod
	now          time.Time

	deletion
}

// planFinalization decides about a runner that is being deleted. If it can't be running a job it is deleted at once;
// otherwise only with GitHub's consent.
func planFinalization(o *finalizing) finalization {
	noMoreJobs := o.noMoreJobs()
	switch {
	case o.provisioning:
		return finalization{}
	case o.mayRun() && !noMoreJobs:
		return planDraining(o)
	}
	f := finalization{deleteChildren: true}
	if !noMoreJobs {
		f.onlyUnbound = !o.ended()
		f.planDeregister(o)
	}
	if o.pod.Phase == podstatus.Missing {
		f.planRemoveFinalizers(o, noMoreJobs)
	}
	f.planReportKept(o)
	return f
}

// planReportKept has the status say in time that the runner has ended. A pod that has ended stays as long as somebody's
// finalizer keeps it, and the runner stays with it; it must not count against maxRunners for that long.
func (f *finalization) planReportKept(o *finalizing) {
	switch {
	case !o.pod.Over() || o.podDueAt.IsZero() || o.keptReported:
	case o.now.Before(o.podDueAt):
		f.requeueBy(o.podDueAt)
	default:
		f.reportKept = true
	}
}

// nothingLeft reports whether the runner has neither a pod nor a registration that could have a job.
func (o *finalizing) nothingLeft() bool {
	return !o.provisioning && !o.unseen && o.pod.Phase == podstatus.Missing && o.noMoreJobs()
}

// noMoreJobs reports whether the runner can't get a job any more: it has had its one, or it has no registration.
func (o *finalizing) noMoreJobs() bool {
	return o.completed || !o.registered || o.removal.Succeeded()
}

// mayRun reports whether the runner may be at work, whatever its pod's status says: the kubelet reports a start some time
// after it, and the cache shows it later still. Only a pod without a node has certainly not started, and only if no job is
// known: a job means that the cache is behind.
func (o *finalizing) mayRun() bool {
	return !o.ended() && (o.pod.Phase != podstatus.Pending || o.bound || o.mayHaveJob)
}

// ended reports whether the runner container will not run again, or never ran.
func (o *finalizing) ended() bool { return o.pod.Over() || o.pod.Phase == podstatus.Missing }

// planRemoveFinalizers removes the finalizers of a runner whose pod is gone, once GitHub has no registration of it or has had
// its time to answer.
func (f *finalization) planRemoveFinalizers(o *finalizing, noMoreJobs bool) {
	deadline := o.podGoneAt.Add(answerTimeout)
	switch {
	case o.unseen:
		f.requeueBy(o.now.Add(time.Second))
	case noMoreJobs:
		f.removeFinalizers = true
	case o.forced || !o.now.Before(deadline):
		f.removeFinalizers, f.leftBehind = true, "no answer from GitHub"
		if o.removal.Failure != nil {
			f.leftBehind = o.removal.Failure.Message
		}
	default:
		f.requeueBy(deadline)
	}
}

// planDraining asks GitHub before anything is deleted: the runner may have a job, whatever was reported.
func planDraining(o *finalizing) finalization {
	var f finalization
	f.planDeregister(o)
	switch deadline := o.deletingAt.Add(answerTimeout); {
	case o.removal.Busy() || o.mayHaveJob:
		f.reportDraining = true
	case o.now.Before(deadline):
		f.requeueBy(deadline)
	default:
		f.deleteChildren, f.forced = true, true
	}
	return f
}

// planDeregister asks GitHub to remove the registration, unless that is under way or it is too early to ask again. A refusal
// because of a job no longer counts once the container has stopped.
func (f *finalization) planDeregister(o *finalizing) {
	if o.removal.Busy() && o.removal.FinishedAt.Before(o.stoppedAt) {
		f.deregister = true
		return
	}
	ask, at := o.removal.AskAgain(o.now)
	f.deregister = ask
	f.requeueBy(at)
}

// requeueBy requeues the runner at t at the latest; zero is never.
func (f *finalization) requeueBy(t time.Time) { f.requeueAt = kube.EarlierOf(f.requeueAt, t) }
