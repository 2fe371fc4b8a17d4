package autoscalinglistener

import (
	"fmt"

	"github.com/harrier-ci/harrier/internal/kube"
)

// deleted is recorded when a pod is deleted, and says why. It is a warning unless the spec has changed.
func deleted(pod string, state podState) kube.Event {
	note := fmt.Sprintf("Pod %s is deleted: %s", pod, state.message)
	if state.action == actionForceDelete || state.action == actionDeleteEnded {
		return kube.Warning(state.reason, "DeletePod", note)
	}
	return kube.Normal(state.reason, "DeletePod", note)
}
