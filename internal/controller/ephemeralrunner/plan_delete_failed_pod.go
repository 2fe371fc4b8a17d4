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
