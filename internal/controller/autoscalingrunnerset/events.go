package autoscalingrunnerset

import (
	"fmt"
	"strings"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

func registered(registration v1alpha1.ScaleSetRegistration) kube.Event {
	return kube.Normal("ScaleSetRegistered", "Register",
		fmt.Sprintf("Scale set %q has id %d in runner group %q of %s", registration.Name, registration.ID, registration.Group, registration.URL))
}

func reregistered(before, after v1alpha1.ScaleSetRegistration) kube.Event {
	return kube.Warning("ScaleSetRecreated", "Register",
		fmt.Sprintf("Scale set %d is gone from %s; its place takes scale set %d", before.ID, before.URL, after.ID))
}

func updated(registration v1alpha1.ScaleSetRegistration) kube.Event {
	return kube.Normal("ScaleSetUpdated", "Register",
		fmt.Sprintf("Scale set %d is now called %q in runner group %q", registration.ID, registration.Name, registration.Group))
}

func labelsDropped(labels []string) kube.Event {
	return kube.Warning(reasonLabelsDropped, "Register", droppedMessage(labels))
}

func deregistered(registration v1alpha1.ScaleSetRegistration) kube.Event {
	return kube.Normal("ScaleSetDeleted", "Deregister",
		fmt.Sprintf("Scale set %d is deleted from %s", registration.ID, registration.URL))
}

func leftBehind(left []v1alpha1.ScaleSetRegistration, cause error) kube.Event {
	names := make([]string, 0, len(left))
	for _, registration := range left {
		names = append(names, fmt.Sprintf("%q (id %d) at %s", registration.Name, registration.ID, registration.URL))
	}
	return kube.Warning("ScaleSetLeftOnGitHub", "Deregister",
		fmt.Sprintf("Left on GitHub: scale set %s; delete it there. It could not be deleted: %v", strings.Join(names, ", "), cause))
}

func listenerReplaced(name string) kube.Event {
	return kube.Normal("ExtraListenerDeleted", "Reconcile",
		fmt.Sprintf("AutoscalingListener %s is deleted: a scale set has one listener", name))
}

func runnerSetDraining(name string) kube.Event {
	return kube.Normal("OldRunnerSetDraining", "Reconcile",
		fmt.Sprintf("EphemeralRunnerSet %s is of an earlier version: its idle runners go, its busy ones finish", name))
}
