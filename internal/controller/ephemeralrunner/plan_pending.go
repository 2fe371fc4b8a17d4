package ephemeralrunner

import (
	"fmt"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/calls"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

const (
	// defaultPendingTimeout is how long a pod may take to run unless the runner says otherwise.
	defaultPendingTimeout = 10 * time.Minute
	// explainAfter is how long a pod may lack a node, or be kept from starting on its node by an unusual reason, before its
	// runner, and so its set, says why. A node autoscaler takes a minute or more; a scheduler with room takes less than a
	// second.
	explainAfter = 30 * time.Second
	// createContainerTimeout is how long a kubelet may fail to create the runner container. It waits one second for a Secret
	// and retries when it sees the pod's sandbox start, a second or two later. The retry after that may take 15 s, longer
	// than another pod would.
	createContainerTimeout = 5 * time.Second
)

// pendingTimeout is how long the runner's pod may take to run.
func pendingTimeout(runner *v1alpha1.EphemeralRunner) time.Duration {
	if runner.Spec.PendingTimeout != nil {
		return runner.Spec.PendingTimeout.Duration
	}
	return defaultPendingTimeout
}

// planPending waits for the pod to start, for pendingTimeout at most.
func planPending(o *observation) decision {
	timeout := pendingTimeout(o.runner)
	due := o.startableAt.Add(timeout)
	switch {
	case o.runner.Status.HadJob():
		// Either it runs and the pod's status is behind, or a late report is about the job of an earlier registration, and
		// the set deletes the runner.
		return decision{}
	case o.now.Before(due) && o.bound:
		return planStarting(o, due)
	case o.bound:
		late := o.pod
		late.Reason = v1alpha1.ReasonPendingTimeout
		late.Message = fmt.Sprintf("the pod did not run within %s on its node: %s: %s", timeout, o.pod.Reason, o.pod.Message)
		// The container may start at this very moment, so GitHub is asked first, as if it had started.
		return planDeregistered(o.withPod(late))
	default:
		return planUnbound(o, due)
	}
}

// planStarting gives a pod on a node until due to start. If the kubelet gives an unusual reason, such as the CrashLoopBackOff
// of a sidecar, the status says so early: it may pass by itself, but usually somebody must act.
func planStarting(o *observation, due time.Time) decision {
	if podstatus.IsUsual(o.pod.Reason) {
		return decision{requeueAt: due}
	}
	if early := o.startableAt.Add(explainAfter); o.now.Before(early) {
		return decision{requeueAt: kube.EarlierOf(early, due)}
	}
	return planReport(o, &calls.Failure{Reason: o.pod.Reason, Message: o.pod.Message}, due)
}

// planUnbound keeps an unschedulable pod for as long as it takes, because a new pod would make node autoscalers start over.
// The status soon says why it waits.
func planUnbound(o *observation, due time.Time) decision {
	if early := kube.EarlierOf(o.startableAt.Add(explainAfter), due); o.now.Before(early) {
		return decision{requeueAt: early}
	}
	return planReport(o, &calls.Failure{Reason: o.pod.Reason, Message: o.pod.Message}, time.Time{})
}

// planBlocked gives up a pod that its kubelet can't start: another pod, perhaps on another node, has a better chance. GitHub
// is asked first. The container may start at this very moment and take a job, and a JIT config that may have been used is
// never reused.
func planBlocked(o *observation) decision {
	due := o.blockedAt.Add(createContainerTimeout)
	switch {
	case o.runner.Status.HadJob():
		return decision{} // it runs: the pod's status is behind
	case o.pod.Passing && o.now.Before(due):
		return decision{requeueAt: due}
	default:
		return planDeregistered(o)
	}
}

// planDeleteFailedPod deletes a pod whose failure is in the status. If the pod is still there at podDueAt, somebody's
// finalizer keeps it, and until it is gone the runner can't have another pod. So the runner has failed and another one
// replaces it; this pod's container has ended, and its registration is unused or removed. stepReplace would not do: a runner
// that exists and has not failed counts against maxRunners.
func planDeleteFailedPod(o *observation) decision {
	switch {
	case o.podDueAt.IsZero():
		return decision{step: stepDeleteFailedPod}
	case o.now.Before(o.podDueAt):
		return decision{step: stepDeleteFailedPod, requeueAt: o.podDueAt}
	default:
		message := kube.WhyTerminating(o.runner.Name, o.deletionDueAt, o.finalizers)
		return decision{step: stepFail, reason: v1alpha1.ReasonPodTerminating, message: message}
	}
}
