package autoscalingrunnerset

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// happening is an Event before it is told about an object.
type happening struct {
	kind, reason, action, note string
}

func registered(registration v1alpha1.ScaleSetRegistration) happening {
	return happening{corev1.EventTypeNormal, "ScaleSetRegistered", "Register",
		fmt.Sprintf("Scale set %q has id %d in runner group %q of %s", registration.Name, registration.ID, registration.Group, registration.URL)}
}

func reregistered(before, after v1alpha1.ScaleSetRegistration) happening {
	return happening{corev1.EventTypeWarning, "ScaleSetRecreated", "Register",
		fmt.Sprintf("Scale set %d is gone from %s; its place takes scale set %d", before.ID, before.URL, after.ID)}
}

func updated(registration v1alpha1.ScaleSetRegistration) happening {
	return happening{corev1.EventTypeNormal, "ScaleSetUpdated", "Register",
		fmt.Sprintf("Scale set %d is now called %q in runner group %q", registration.ID, registration.Name, registration.Group)}
}

func labelsDropped(labels []string) happening {
	return happening{corev1.EventTypeWarning, reasonLabelsDropped, "Register", droppedMessage(labels)}
}

func deregistered(registration v1alpha1.ScaleSetRegistration) happening {
	return happening{corev1.EventTypeNormal, "ScaleSetDeleted", "Deregister",
		fmt.Sprintf("Scale set %d is deleted from %s", registration.ID, registration.URL)}
}

func leftBehind(left []v1alpha1.ScaleSetRegistration, cause error) happening {
	names := make([]string, 0, len(left))
	for _, registration := range left {
		names = append(names, fmt.Sprintf("%q (id %d) at %s", registration.Name, registration.ID, registration.URL))
	}
	return happening{corev1.EventTypeWarning, "ScaleSetLeftOnGitHub", "Deregister",
		fmt.Sprintf("Left on GitHub: scale set %s; delete it there. It could not be deleted: %v", strings.Join(names, ", "), cause)}
}

func listenerReplaced(name string) happening {
	return happening{corev1.EventTypeNormal, "ExtraListenerDeleted", "Reconcile",
		fmt.Sprintf("AutoscalingListener %s is deleted: a scale set has one listener", name)}
}

func runnerSetDraining(name string) happening {
	return happening{corev1.EventTypeNormal, "OldRunnerSetDraining", "Reconcile",
		fmt.Sprintf("EphemeralRunnerSet %s is of an earlier version: its idle runners go, its busy ones finish", name)}
}

// tell records an Event and logs it. note is an argument and not a format, because it quotes what others wrote.
func (c *Controller) tell(ctx context.Context, about, related runtime.Object, h happening) {
	ctrl.LoggerFrom(ctx).Info(h.note, "reason", h.reason)
	c.options.Recorder.Eventf(about, related, h.kind, h.reason, h.action, "%s", truncated(h.note))
}

// maxNote is the longest note in bytes that the API server takes.
const maxNote = 1024

func truncated(note string) string {
	if len(note) <= maxNote {
		return note
	}
	return strings.ToValidUTF8(note[:maxNote-3], "") + "…"
}
