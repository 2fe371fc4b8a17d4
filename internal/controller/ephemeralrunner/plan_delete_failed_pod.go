package ephemeralrunner

import (
	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// planDeleteFailedPod: the pod's failure is in the status, and the pod is deleted. One that is still there after the
// time that a pod may take to run is kept by a finalizer that nobody removes, and meanwhile no other pod of the runner
// can be made. So the runner has failed, and another is made in its place: this pod's container has ended, and its
// registration is unused or removed. stepReplace would not do: as long as the runner is there and has not failed it
// counts against maxRunners.
func planDeleteFailedPod(o *observation) decision {
	due := o.failureNotedAt.Add(pendingTimeout(o.runner))
	if over := o.deletionDueAt.Add(stuckAfter); over.After(due) {
		due = over // then it is taken for ended whatever its node says
	}
	switch {
	case o.deletionDueAt.IsZero():
		return decision{step: stepDeleteFailedPod}
	case o.now.Before(due):
		return decision{step: stepDeleteFailedPod, requeueAt: due}
	default:
		message := kube.WhyTerminating(o.runner.Name, o.deletionDueAt, o.finalizers)
		return decision{step: stepFail, reason: v1alpha1.ReasonPodTerminating, message: message}
	}
}
