package autoscalinglistener

import (
	"fmt"

	"github.com/harrier-ci/harrier/internal/kube"
)

// deleted says why a pod was deleted. A change of the spec is ordinary, everything else is not.
func deleted(pod string, state podState) kube.Event {
	note := fmt.Sprintf("Pod %s is deleted: %s", pod, state.message)
	if state.treatment == abandon || state.treatment == discard {
		return kube.Warning(state.reason, "DeletePod", note)
	}
	return kube.Normal(state.reason, "DeletePod", note)
}
