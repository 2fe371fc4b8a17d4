package rules

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

const (
	// DefaultPendingTimeout limits the start of a pod unless the runner says otherwise.
	DefaultPendingTimeout = v1alpha1.DefaultPendingTimeout
	// A pod may lack a node, or be kept from starting on its node by an unusual reason, for ExplainGrace; then its
	// runner, and so its set, says why. A node autoscaler takes a minute or more; a scheduler with room takes less than
	// a second.
	ExplainGrace = 30 * time.Second
	// A kubelet may fail to create the runner container for CreateContainerTimeout. It waits one second for a Secret
	// and retries when it sees the pod's sandbox start, a second or two later. The retry after that may take 15 s,
	// longer than another pod would.
	CreateContainerTimeout = 5 * time.Second
	// A pod whose runner container runs may be unready for readyGrace; then the status says so. With sidecars that
	// start a second later, this saves one write per runner.
	readyGrace = 2 * time.Second
)

// PendingTimeout returns the time within which the runner's pod must run.
func PendingTimeout(runner *v1alpha1.EphemeralRunner) time.Duration {
	if runner.Spec.PendingTimeout != nil {
		return runner.Spec.PendingTimeout.Duration
	}
	return DefaultPendingTimeout
}

// planPending waits for the pod to start, for PendingTimeout at most.
func planPending(w *World) Decision {
	timeout := PendingTimeout(w.Runner)
	due := w.StartableAt.Add(timeout)
	switch {
	case w.Runner.Status.HadJob():
		// Either it runs and the pod's status is behind, or a late report is about the job of an earlier registration,
		// and the set deletes the runner.
		return Decision{}
	case w.Now.Before(due) && w.Bound:
		return planStarting(w, due)
	case w.Bound:
		late := w.Pod
		late.Reason = v1alpha1.ReasonPendingTimeout
		late.Message = fmt.Sprintf("the pod did not run within %s on its node: %s: %s", timeout, w.Pod.Reason,
			w.Pod.Message)
		// The container may start at this very moment, so GitHub is asked first, as if it had started.
		return planDeregistered(w.withPod(late))
	default:
		return planUnbound(w, due)
	}
}

// planStarting gives a pod on a node until due to start. If the kubelet gives an unusual reason, such as the
// CrashLoopBackOff of a sidecar, the status says so early: it may pass by itself, but usually somebody must act.
func planStarting(w *World, due time.Time) Decision {
	if podstatus.IsUsual(w.Pod.Reason) {
		return Decision{RequeueAt: due}
	}
	if early := w.StartableAt.Add(ExplainGrace); w.Now.Before(early) {
		return Decision{RequeueAt: kube.EarlierOf(early, due)}
	}
	return PlanReport(w, &Failure{Reason: w.Pod.Reason, Message: w.Pod.Message}, due)
}

// planUnbound keeps an unschedulable pod for as long as it takes, because a new pod would make node autoscalers start
// over. The status soon says why it waits.
func planUnbound(w *World, due time.Time) Decision {
	if early := kube.EarlierOf(w.StartableAt.Add(ExplainGrace), due); w.Now.Before(early) {
		return Decision{RequeueAt: early}
	}
	return PlanReport(w, &Failure{Reason: w.Pod.Reason, Message: w.Pod.Message}, time.Time{})
}

// planBlocked gives up a pod that its kubelet can't start: another pod, perhaps on another node, has a better chance.
// GitHub is asked first. The container may start at this very moment and take a job, and a JIT config that may have
// been used is never reused.
func planBlocked(w *World) Decision {
	due := w.blockedAt.Add(CreateContainerTimeout)
	switch {
	case w.Runner.Status.HadJob():
		return Decision{} // it runs: the pod's status is behind
	case w.Pod.Passing && w.Now.Before(due):
		return Decision{RequeueAt: due}
	default:
		return planDeregistered(w)
	}
}

// planDeleteFailedPod deletes a pod whose failure is in the status. If the pod still exists at PodDueAt, somebody's
// finalizer keeps it, and until it is gone the runner can't have another pod. So the runner has failed and another one
// replaces it; this pod's container has ended, and its registration is unused or removed. Replace would not do: a
// runner that exists and has not failed counts against maxRunners.
func planDeleteFailedPod(w *World) Decision {
	switch {
	case w.PodDueAt.IsZero():
		return Decision{Step: DeleteFailedPod}
	case w.Now.Before(w.PodDueAt):
		return Decision{Step: DeleteFailedPod, RequeueAt: w.PodDueAt}
	default:
		message := kube.WhyTerminating(w.Runner.Name, w.DeletionDueAt, w.Finalizers)
		return Decision{Step: Fail, Reason: v1alpha1.ReasonPodTerminating, Message: message}
	}
}

// planStartedLate handles a runner container that started just after its registration was removed: it will not get a
// job.
func planStartedLate(w *World) Decision {
	late := w.Pod
	late.Reason, late.Message = "StartedLate", "the runner container started after its registration had been removed"
	return planRetry(w.withPod(late), Reregister)
}

func planRunning(w *World) Decision {
	if w.deregistered() {
		return planStartedLate(w)
	}
	status := &w.Runner.Status
	reported := status.Phase == v1alpha1.EphemeralRunnerPhaseRunning
	due := w.StartedAt.Add(readyGrace)
	switch {
	case w.Pod.Sidecar != "" && !w.SidecarReported:
		return Decision{Step: ReportSidecar, Reason: "SidecarFailed", Message: w.Pod.Sidecar}
	case reported && status.Ready == w.Pod.Ready && status.RunnerID == w.RunnerID:
		return Decision{}
	case !reported && !w.Pod.Ready && w.Now.Before(due):
		return Decision{RequeueAt: due}
	case !reported && status.JobCompleted() && w.Now.Before(w.EndDueAt):
		return Decision{RequeueAt: w.EndDueAt}
	case !reported && !w.DeferredUntil.IsZero():
		return Decision{RequeueAt: w.DeferredUntil}
	default:
		return Decision{Step: ReportRunning}
	}
}

// StartableSince returns podstatus.StartableSince by our own clock if the pod was created by the last launch: the API
// server's clock may differ from ours by more than a pod may take to start.
func StartableSince(pod *corev1.Pod, launched Progress) time.Time {
	started := podstatus.StartableSince(pod)
	if !launched.Known || launched.Running {
		return started
	}
	return launched.FinishedAt.Add(started.Sub(pod.CreationTimestamp.Time))
}
