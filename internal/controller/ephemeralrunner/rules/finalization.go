package rules

import (
	"time"

	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/podstatus"
	"github.com/harrier-ci/harrier/internal/reconcile"
)

const (
	// GitHub may fail to say whether a runner is idle for AnswerTimeout. After that a runner whose container has not
	// started is deleted, and if its pod is gone, its registration is left behind: GitHub itself removes offline
	// ephemeral runners after a day.
	AnswerTimeout = 5 * time.Minute
	// SilenceTimeout is the same for a container that runs: that nobody has reported a job proves nothing, as GitHub may
	// have given it one a moment ago, and reports come from GitHub, too. It is the time after which GitHub ends a job
	// unless its workflow has another timeout-minutes. See docs/decisions/0026-what-may-have-a-job-is-waited-for.md.
	SilenceTimeout = 6 * time.Hour
	// The cache may take UnseenFinalizingTimeout to show a pod that was created while the runner was being deleted. If
	// it takes longer, garbage collection deletes the pod because its owner is gone.
	UnseenFinalizingTimeout = 10 * time.Second
)

// Deletion is what was seen of a runner that is being deleted.
type Deletion struct {
	deletingAt time.Time // when it was first seen with a deletionTimestamp
	stoppedAt  time.Time // since when it has been seen without a running container
	podGoneAt  time.Time // since when it has been seen without a pod
	HeldAt     time.Time // since when it waits for its set to count its lost job
	// ReportAwaitedAt is when it was first found to have nothing left but a report about its job that may still come.
	ReportAwaitedAt time.Time
	Forced          bool // its pod was deleted without GitHub's consent, after GitHub had its time to answer
}

// See remembers since when the runner is being deleted, its container does not run, and its pod is gone. A container
// that was about to start, or a pod that appears late, resets its clock.
func (d *Deletion) See(running, gone bool, now time.Time) {
	kube.SetIfZero(&d.deletingAt, now)
	d.stoppedAt = since(d.stoppedAt, !running, now)
	d.podGoneAt = since(d.podGoneAt, gone, now)
}

// Finalization says what a runner that is being deleted still needs. One pass may do several of these things.
type Finalization struct {
	// DeleteChildren: delete the pod, the Secret, and what container hooks created.
	DeleteChildren bool
	// OnlyUnbound restricts that to a pod without a node that has not changed since the cache showed it.
	OnlyUnbound bool
	// Deregister: ask GitHub to remove the registration.
	Deregister bool
	// ReportDraining: the pod stays because the runner has a job; write that to the status.
	ReportDraining bool
	// Forced: the pod is deleted without GitHub's consent.
	Forced bool
	// ReportKept: the pod has ended and somebody else keeps it; write that to the status.
	ReportKept bool
	// RemoveFinalizers: nothing keeps the runner any more.
	RemoveFinalizers bool
	// LeftBehind says why something may be left on GitHub; empty if nothing is.
	LeftBehind string
	RequeueAt  time.Time
}

// Leaving is what a finalization depends on.
type Leaving struct {
	Pod          Outcome
	Bound        bool // the pod has a node, whose kubelet may have started it and not yet said so
	MayHaveJob   bool // a job was reported started and not ended, or GitHub refused a removal because of one
	Completed    bool // the end of the present registration's job was reported, and the runner didn't die
	Registered   bool // GitHub may have a registration
	Provisioning bool // a registration is under way; its pod may still be created
	Unseen       bool // a pod was just created and has not been seen yet
	Removal      Progress
	// PodDueAt is the time by which the pod must be gone after it has ended, zero if it is not being deleted.
	PodDueAt     time.Time
	KeptReported bool // the status says that somebody keeps the pod
	Now          time.Time

	Deletion
}

// leavingRule is a situation of a runner that is being deleted, and what it then needs.
type leavingRule = reconcile.Rule[*Leaving, func(*Leaving) Finalization]

// departing are the situations of a runner that is being deleted; the first that applies decides. A runner that can't
// be running a job is deleted immediately, others only with GitHub's consent: they may have a job, whatever was
// reported.
var departing = []leavingRule{
	reconcile.When("its registration is under way, and its pod may still be created", (*Leaving).provisions,
		func(*Leaving) Finalization { return Finalization{} }),
	reconcile.When("it may be at work, and has a job", (*Leaving).works, planDraining),
	reconcile.When("it may be at work, and GitHub has time to answer", (*Leaving).awaitsConsent, planAsking),
	reconcile.When("it may be at work, and GitHub has not answered in its time", (*Leaving).mayWork, planForcing),
	reconcile.When("it can't be at work, and a pod is left", (*Leaving).hasPod, planPod),
	reconcile.When("its pod was created a moment ago, and is not seen", (*Leaving).unseen, planUnseenPod),
	reconcile.When("nothing is left", (*Leaving).noMoreJobs, planRemoval),
	reconcile.When("GitHub has not answered in its time", (*Leaving).unanswered, planLeftBehind),
	reconcile.Otherwise[*Leaving]("GitHub may have a registration", planRegistration),
}

// PlanFinalization decides about a runner that is being deleted.
func PlanFinalization(o *Leaving) Finalization { return reconcile.First(departing, o).Do(o) }

func (o *Leaving) provisions() bool { return o.Provisioning }
func (o *Leaving) unseen() bool     { return o.Unseen }
func (o *Leaving) hasPod() bool     { return o.Pod.Phase != podstatus.Missing }

// mayWork reports whether the runner may run a job, or get one.
func (o *Leaving) mayWork() bool { return o.mayRun() && !o.noMoreJobs() }

// works reports whether the runner may run, and has a job as far as anybody knows.
func (o *Leaving) works() bool { return o.mayWork() && (o.Removal.Busy() || o.MayHaveJob) }

// awaitsConsent reports whether the runner may run, and GitHub still has time to say whether it has a job.
func (o *Leaving) awaitsConsent() bool { return o.mayWork() && o.Now.Before(o.consentDueAt()) }

// consentDueAt is the end of GitHub's time to say whether a runner that may run has a job.
func (o *Leaving) consentDueAt() time.Time { return o.deletingAt.Add(o.UnansweredFor()) }

// unanswered reports whether GitHub has had its time to remove the registration of a runner whose pod is gone.
func (o *Leaving) unanswered() bool { return o.Forced || !o.Now.Before(o.answerDueAt()) }

// answerDueAt is the end of GitHub's time to remove the registration of a runner whose pod is gone.
func (o *Leaving) answerDueAt() time.Time { return o.podGoneAt.Add(AnswerTimeout) }

// planDraining leaves a runner with a job its pod, and says so.
func planDraining(o *Leaving) Finalization {
	f := Finalization{ReportDraining: true}
	f.planDeregister(o)
	return f
}

// planAsking asks GitHub before anything is deleted.
func planAsking(o *Leaving) Finalization {
	var f Finalization
	f.planDeregister(o)
	f.RequeueBy(o.consentDueAt())
	return f
}

// planForcing deletes a runner without a known job about which GitHub has said nothing.
func planForcing(o *Leaving) Finalization {
	f := Finalization{DeleteChildren: true, Forced: true}
	f.planDeregister(o)
	return f
}

// planPod deletes the pod. A pod that hasn't ended and may still get a job goes only as long as it has no node.
func planPod(o *Leaving) Finalization {
	f := Finalization{DeleteChildren: true}
	if !o.noMoreJobs() {
		f.OnlyUnbound = !o.ended()
		f.planDeregister(o)
	}
	f.planReportKept(o)
	return f
}

// planUnseenPod looks again for a pod that the cache doesn't show yet.
func planUnseenPod(o *Leaving) Finalization {
	f := planRest(o)
	f.RequeueBy(o.Now.Add(time.Second))
	return f
}

// planRemoval releases a runner that has neither a pod nor a registration.
func planRemoval(*Leaving) Finalization {
	return Finalization{DeleteChildren: true, RemoveFinalizers: true}
}

// planLeftBehind releases a runner whose registration stays on GitHub.
func planLeftBehind(o *Leaving) Finalization {
	f := planRest(o)
	f.RemoveFinalizers, f.LeftBehind = true, "no answer from GitHub"
	if o.Removal.Failure != nil {
		f.LeftBehind = o.Removal.Failure.Message
	}
	return f
}

// planRegistration waits until GitHub has removed the registration, or its time to do that is over.
func planRegistration(o *Leaving) Finalization {
	f := planRest(o)
	f.RequeueBy(o.answerDueAt())
	return f
}

// planRest has what is left of a runner without a pod deleted, in the cluster and on GitHub.
func planRest(o *Leaving) Finalization {
	f := Finalization{DeleteChildren: true}
	if !o.noMoreJobs() {
		f.planDeregister(o)
	}
	return f
}

// planReportKept has the status say in time that the runner has ended. A pod that has ended stays as long as somebody's
// finalizer keeps it, and the runner stays with it; it must not count against maxRunners for that long.
func (f *Finalization) planReportKept(o *Leaving) {
	switch {
	case !o.Pod.Over() || o.PodDueAt.IsZero() || o.KeptReported:
	case o.Now.Before(o.PodDueAt):
		f.RequeueBy(o.PodDueAt)
	default:
		f.ReportKept = true
	}
}

// NothingLeft reports whether the runner has neither a pod nor a registration that could have a job.
func (o *Leaving) NothingLeft() bool {
	return !o.Provisioning && !o.Unseen && o.Pod.Phase == podstatus.Missing && o.noMoreJobs()
}

// noMoreJobs reports whether the runner can't get a job any more: it has had its one, or it has no registration.
func (o *Leaving) noMoreJobs() bool {
	return o.Completed || !o.Registered || o.Removal.Succeeded()
}

// mayRun reports whether the runner may be at work, whatever its pod's status says: the kubelet reports a start some
// time after it, and the cache shows it later still. Only a pod without a node has certainly not started, and only if
// no job is known: a job means that the cache is behind.
func (o *Leaving) mayRun() bool {
	return !o.ended() && (o.Pod.Phase != podstatus.Pending || o.Bound || o.MayHaveJob)
}

// ended reports whether the runner container will not run again, or never ran.
func (o *Leaving) ended() bool { return o.Pod.Over() || o.Pod.Phase == podstatus.Missing }

// UnansweredFor returns how long a runner without a known job waits for GitHub's answer.
func (o *Leaving) UnansweredFor() time.Duration {
	if o.Pod.Phase == podstatus.Running {
		return SilenceTimeout
	}
	return AnswerTimeout
}

// planDeregister asks GitHub to remove the registration, unless that is under way or it is too early to ask again.
// After the container has stopped, a refusal because of a job no longer counts.
func (f *Finalization) planDeregister(o *Leaving) {
	if o.Removal.Busy() && o.Removal.FinishedAt.Before(o.stoppedAt) {
		f.Deregister = true
		return
	}
	ask, at := o.Removal.AskAgain(o.Now)
	f.Deregister = ask
	f.RequeueBy(at)
}

// RequeueBy requeues the runner at t at the latest; zero means never.
func (f *Finalization) RequeueBy(t time.Time) { f.RequeueAt = kube.EarlierOf(f.RequeueAt, t) }
