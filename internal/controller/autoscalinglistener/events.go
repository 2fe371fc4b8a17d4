package autoscalinglistener

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
)

// happening is an Event before it is told about an object.
type happening struct {
	kind, reason, action, note string
}

// deleted says why a pod was deleted. A change of the spec is ordinary, everything else is not.
func deleted(pod string, state podState) happening {
	kind := corev1.EventTypeNormal
	if state.treatment == abandon || state.treatment == discard {
		kind = corev1.EventTypeWarning
	}
	return happening{kind, state.reason, "DeletePod", fmt.Sprintf("Pod %s is deleted: %s", pod, state.message)}
}

// tell records an Event and logs it. note is an argument and not a format, because it quotes what others wrote.
func (c *Controller) tell(ctx context.Context, about runtime.Object, h happening) {
	ctrl.LoggerFrom(ctx).Info(h.note, "reason", h.reason)
	c.options.Recorder.Eventf(about, nil, h.kind, h.reason, h.action, "%s", truncated(h.note))
}

// maxNote is the longest note in bytes that the API server takes.
const maxNote = 1024

func truncated(note string) string {
	if len(note) <= maxNote {
		return note
	}
	return strings.ToValidUTF8(note[:maxNote-3], "") + "…"
}
