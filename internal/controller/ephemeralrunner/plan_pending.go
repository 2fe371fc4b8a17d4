package ephemeralrunner

import (
	"fmt"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

const (
	// defaultPendingTimeout is how long a pod may take to run.
	defaultPendingTimeout = 10 * time.Minute
	// explainAfter is how long a pod may lack a node before its runner, and so its set, says why. A node autoscaler takes
	// a minute and more; a scheduler with room takes no second.
	explainAfter = 30 * time.Second
	// containerPatience is how long a kubelet may fail to create the runner container. It gives a Secret one second to
	// arrive and tries again when it sees the pod's sandbox start, a second or two later; the try after that may take it
	// 15 s, which is longer than another pod takes.
	containerPatience = 5 * time.Second
)

// pendingTimeout is how long the runner's pod may take to run.
func (s *situation) pendingTimeout() time.Duration {
	if s.runner.Spec.PendingTimeout != nil {
		return s.runner.Spec.PendingTimeout.Duration
	}
	return defaultPendingTimeout
}

// planPending waits for the pod to start, for so long.
func planPending(s *situation) decision {
	timeout := s.pendingTimeout()
	due := s.started.Add(timeout)
	switch {
	case s.runner.Status.HasJob():
		// It runs, and the pod's status is late; or its end is reported, late, of an earlier registration: then the set lets it go.
		return decision{}
	case s.now.Before(due) && s.bound:
		return decision{again: due}
	case s.bound:
		late := s.pod
		late.reason = v1alpha1.ReasonPendingTimeout
		late.message = fmt.Sprintf("the pod did not run within %s on its node: %s: %s", timeout, s.pod.reason, s.pod.message)
		// The container may start at this very moment, so GitHub is asked first, as for one that has.
		return planDeregistered(s.withPod(late))
	default:
		return planUnbound(s, due)
	}
}

// planUnbound: an unschedulable pod stays, for as long as it takes: node autoscalers would start over with a new one.
// Why it waits is said early.
func planUnbound(s *situation, due time.Time) decision {
	early := s.started.Add(explainAfter)
	if due.Before(early) {
		early = due
	}
	if s.now.Before(early) {
		return decision{again: early}
	}
	return planReport(s, &failure{reason: s.pod.reason, message: s.pod.message}, time.Time{})
}

// planBlocked: another pod, perhaps on another node, is the better try. As the container may start at this very moment,
// and take a job, GitHub is asked first: a JIT config that might be used is not used again.
func planBlocked(s *situation) decision {
	due := s.blocked.Add(containerPatience)
	switch {
	case s.runner.Status.HasJob():
		return decision{} // it runs: the pod's status is late
	case s.pod.passing && s.now.Before(due):
		return decision{again: due}
	default:
		return planDeregistered(s)
	}
}
