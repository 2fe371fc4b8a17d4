package ephemeralrunner

import (
	"fmt"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

const (
	// defaultPendingTimeout is how long a pod may take to run.
	defaultPendingTimeout = 10 * time.Minute
	// explainAfter is how long a pod may lack a node, or something but the usual may keep it from starting on its node, before
	// its runner, and so its set, says why. A node autoscaler takes a minute and more; a scheduler with room takes no second.
	explainAfter = 30 * time.Second
	// createContainerTimeout is how long a kubelet may fail to create the runner container. It waits one second for a
	// Secret and tries again when it sees the pod's sandbox start, a second or two later; the try after that may take
	// it 15 s, which is longer than another pod takes.
	createContainerTimeout = 5 * time.Second
)

// pendingTimeout is how long the runner's pod may take to run.
func pendingTimeout(runner *v1alpha1.EphemeralRunner) time.Duration {
	if runner.Spec.PendingTimeout != nil {
		return runner.Spec.PendingTimeout.Duration
	}
	return defaultPendingTimeout
}

// planPending waits for the pod to start, for as long as pendingTimeout.
func planPending(o *observation) decision {
	timeout := pendingTimeout(o.runner)
	due := o.startableAt.Add(timeout)
	switch {
	case o.runner.Status.HadJob():
		// It runs, and the pod's status is late; or the late report of a job's end is about an earlier registration, and the
		// set deletes the runner.
		return decision{}
	case o.now.Before(due) && o.bound:
		return planStarting(o, due)
	case o.bound:
		late := o.pod
		late.reason = v1alpha1.ReasonPendingTimeout
		late.message = fmt.Sprintf("the pod did not run within %s on its node: %s: %s", timeout, o.pod.reason, o.pod.message)
		// The container may start at this very moment, so GitHub is asked first, as for one that has.
		return planDeregistered(o.withPod(late))
	default:
		return planUnbound(o, due)
	}
}

// planStarting: a pod that has a node has its time to start until due. Where its kubelet names an unusual reason, such as the
// CrashLoopBackOff of a sidecar, the status says so early: it may pass by itself, but usually somebody has to do something.
func planStarting(o *observation, due time.Time) decision {
	switch o.pod.reason {
	case "", waitingForCreation, waitingForInit, v1alpha1.ReasonPending:
		return decision{requeueAt: due}
	}
	if early := o.startableAt.Add(explainAfter); o.now.Before(early) {
		return decision{requeueAt: kube.EarlierOf(early, due)}
	}
	return planReport(o, &failure{reason: o.pod.reason, message: o.pod.message}, due)
}

// planUnbound: an unschedulable pod stays, for as long as it takes: node autoscalers would start over with a new one.
// The status says early why it waits.
func planUnbound(o *observation, due time.Time) decision {
	if early := kube.EarlierOf(o.startableAt.Add(explainAfter), due); o.now.Before(early) {
		return decision{requeueAt: early}
	}
	return planReport(o, &failure{reason: o.pod.reason, message: o.pod.message}, time.Time{})
}

// planBlocked: another pod, perhaps on another node, is the better try. As the container may start at this very
// moment, and take a job, GitHub is asked first: a JIT config that may have been used is not used again.
func planBlocked(o *observation) decision {
	due := o.blockedAt.Add(createContainerTimeout)
	switch {
	case o.runner.Status.HadJob():
		return decision{} // it runs: the pod's status is late
	case o.pod.passing && o.now.Before(due):
		return decision{requeueAt: due}
	default:
		return planDeregistered(o)
	}
}
