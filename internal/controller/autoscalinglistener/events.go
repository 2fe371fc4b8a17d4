package autoscalinglistener

import (
	"fmt"

	"github.com/harrier-ci/harrier/internal/kube/report"
)

// deleted returns the Event that says why a pod is deleted. It is a warning if the pod had ended, or its node does not answer.
func deleted(pod string, state podState) report.Event {
	note := fmt.Sprintf("Pod %s is deleted: %s", pod, state.message)
	if state.action == actionForceDelete || state.action == actionDeleteEnded {
		return report.Warning(state.reason, "DeletePod", note)
	}
	return report.Normal(state.reason, "DeletePod", note)
}
