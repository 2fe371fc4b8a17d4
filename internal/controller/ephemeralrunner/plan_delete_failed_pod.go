package ephemeralrunner

import (
	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

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
