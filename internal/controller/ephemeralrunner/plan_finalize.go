package ephemeralrunner

import (
	"time"

	"github.com/harrier-ci/harrier/internal/kube"
)

const (
	// answerTimeout is how long GitHub may fail to answer whether a runner is idle. After that a runner without a
	// recorded job is deleted, and what a pod that is gone has left on GitHub is left there: GitHub removes offline
	// ephemeral runners itself after a day.
	answerTimeout = 5 * time.Minute
	// unseenFinalizingTimeout is how long the cache may take to show a pod that was created while the runner was being
	// deleted. Should it take longer, garbage collection finds the pod's owner gone.
	unseenFinalizingTimeout = 10 * time.Second
)

// finalization is what a runner that is being deleted still needs. Several can be wanted in one pass.
type finalization struct {
	// deleteChildren is set when pod, Secret and what container hooks made are to be deleted.
	deleteChildren bool
	// onlyUnbound restricts that to a pod that the API server knows as the cache does, without a node.
	onlyUnbound bool
	// deregister is set when GitHub is to be asked to remove the registration.
	deregister bool
	// reportDraining is set when the pod stays because the runner has a job: the status has to say so.
	reportDraining bool
	// forced is set when the pod is deleted without GitHub's consent.
	forced bool
	// reportKept is set when the pod has ended and somebody else keeps it: the status has to say so.
	reportKept bool
	// removeFinalizers is set when nothing keeps the runner any more.
	removeFinalizers bool
	// leftBehind says what could not be removed from GitHub; empty where nothing is left.
	leftBehind string
	requeueAt  time.Time
}

// finalizing is all that a finalization depends on.
type finalizing struct {
	pod          outcome
	bound        bool // the pod has a node, whose kubelet may have started it without having said so yet
	mayHaveJob   bool // a job was reported to have started and not to have ended, or GitHub has spoken of one
	completed    bool // the end of the job of the present registration was reported, and the runner didn't die
	registered   bool // there may be a registration
	provisioning bool // a registration is under way; its pod may still be created
	unseen       bool // a pod was created a moment ago and has not been seen yet
	removal      progress
	podDueAt     time.Time // when the pod has to be gone once it has ended, zero where it is not being deleted
	keptReported bool      // the status says that somebody keeps the pod
	now          time.Time

	deletion
}

// planFinalization decides what becomes of a runner that is being deleted: one that can't be running a job is deleted
// at once, one that may be running one only with GitHub's consent.
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
	if o.pod.state == podMissing {
		f.planRemoveFinalizers(o, noMoreJobs)
	}
	f.planReportKept(o)
	return f
}

// planReportKept: a pod that has ended stays as long as somebody's finalizer keeps it, and the runner stays with it. It must
// not count against maxRunners for that, so the status says in time that the runner has ended.
func (f *finalization) planReportKept(o *finalizing) {
	switch {
	case !o.pod.over() || o.podDueAt.IsZero() || o.keptReported:
	case o.now.Before(o.podDueAt):
		f.requeueBy(o.podDueAt)
	default:
		f.reportKept = true
	}
}

// nothingLeft reports whether the runner has neither a pod nor a registration that could have a job.
func (o *finalizing) nothingLeft() bool {
	return !o.provisioning && !o.unseen && o.pod.state == podMissing && o.noMoreJobs()
}

// noMoreJobs reports whether the runner can't get a job any more, or has had its own.
func (o *finalizing) noMoreJobs() bool {
	return o.completed || !o.registered || o.removal.succeeded()
}

// mayRun reports whether the runner may be at work, whatever its pod's status says: a kubelet reports a start some
// time after it, and the cache shows that some time later. Only a pod without a node has not started for certain, and
// only where no job is known: a job means that the cache is late.
func (o *finalizing) mayRun() bool {
	return !o.ended() && (o.pod.state != podPending || o.bound || o.mayHaveJob)
}

// ended reports whether the runner container will not run any more, or never has.
func (o *finalizing) ended() bool { return o.pod.over() || o.pod.state == podMissing }

// planRemoveFinalizers has the finalizers removed from a runner whose pod is gone: once GitHub has no registration of
// it, or has had its time to say so.
func (f *finalization) planRemoveFinalizers(o *finalizing, noMoreJobs bool) {
	deadline := o.podGoneAt.Add(answerTimeout)
	switch {
	case o.unseen:
		f.requeueBy(o.now.Add(time.Second))
	case noMoreJobs:
		f.removeFinalizers = true
	case o.forced || !o.now.Before(deadline):
		f.removeFinalizers, f.leftBehind = true, "no answer from GitHub"
		if o.removal.failure != nil {
			f.leftBehind = o.removal.failure.message
		}
	default:
		f.requeueBy(deadline)
	}
}

// planDraining: the runner may have a job, whatever was reported. GitHub is asked first.
func planDraining(o *finalizing) finalization {
	var f finalization
	f.planDeregister(o)
	switch deadline := o.deletingAt.Add(answerTimeout); {
	case o.removal.busy() || o.mayHaveJob:
		f.reportDraining = true
	case o.now.Before(deadline):
		f.requeueBy(deadline)
	default:
		f.deleteChildren, f.forced = true, true
	}
	return f
}

// planDeregister has GitHub asked to remove the registration, unless that is under way or it is too early to ask
// again. That the runner was busy while it ran says nothing once its container has stopped.
func (f *finalization) planDeregister(o *finalizing) {
	if o.removal.busy() && o.removal.finishedAt.Before(o.stoppedAt) {
		f.deregister = true
		return
	}
	ask, at := o.removal.askAgain(o.now)
	f.deregister = ask
	f.requeueBy(at)
}

// requeueBy has the runner reconciled again at t at the latest; zero is never.
func (f *finalization) requeueBy(t time.Time) { f.requeueAt = kube.EarlierOf(f.requeueAt, t) }
