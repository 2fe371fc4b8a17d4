package autoscalingrunnerset

import (
	"fmt"
	"strings"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// registered is recorded when a scale set is created or found, even if only its address is new.
func registered(registration v1alpha1.ScaleSetRegistration) report.Event {
	return report.Normal("ScaleSetRegistered", "Register",
		fmt.Sprintf("Scale set %q has id %d in runner group %q of %s", registration.Name, registration.ID, registration.Group, registration.URL))
}

// addressChanged is recorded when the scale set in use was found at another address. It is a warning, because by chance there may
// be two with the same name and id.
func addressChanged(before, after v1alpha1.ScaleSetRegistration) report.Event {
	return report.Warning("ScaleSetAddressChanged", "Register",
		fmt.Sprintf("Scale set %q with id %d was found at %s: it is treated as the one at %s under a new address, and nothing is deleted. "+
			"If these are two places, delete the scale set at the former address on GitHub", after.Name, after.ID, after.URL, before.URL))
}

// reregistered is recorded when a new scale set replaces one that is gone. It is a warning, because the jobs that were queued for
// the old one on GitHub were deleted with it.
func reregistered(before, after v1alpha1.ScaleSetRegistration) report.Event {
	return report.Warning("ScaleSetRecreated", "Register",
		fmt.Sprintf("Scale set %d no longer exists at %s; scale set %d replaces it", before.ID, before.URL, after.ID))
}

// updated is recorded when name or group changed on GitHub, whoever changed them.
func updated(registration v1alpha1.ScaleSetRegistration) report.Event {
	return report.Normal("ScaleSetUpdated", "Register",
		fmt.Sprintf("Scale set %d is now called %q in runner group %q", registration.ID, registration.Name, registration.Group))
}

// deregistered is recorded when a scale set is deleted.
func deregistered(registration v1alpha1.ScaleSetRegistration) report.Event {
	return report.Normal("ScaleSetDeleted", "Deregister",
		fmt.Sprintf("Scale set %d was deleted from %s", registration.ID, registration.URL))
}

// leftBehind is the last Event about scale sets that could not be deleted. It has everything that is needed to delete them by hand.
func leftBehind(left []v1alpha1.ScaleSetRegistration, cause error) report.Event {
	names := make([]string, 0, len(left))
	for _, registration := range left {
		names = append(names, fmt.Sprintf("%q (id %d) at %s", registration.Name, registration.ID, registration.URL))
	}
	return report.Warning("ScaleSetLeftOnGitHub", "Deregister",
		fmt.Sprintf("Left on GitHub: scale set %s; delete it there. It could not be deleted: %v", strings.Join(names, ", "), cause))
}

// perhapsLeftBehind is the last Event about a scale set that may or may not exist.
func perhapsLeftBehind(desired desiredScaleSet, cause error) report.Event {
	return report.Warning("ScaleSetLeftOnGitHub", "Deregister",
		fmt.Sprintf("Perhaps left on GitHub: scale set %q at %s, because a request to create it got no answer; if it exists, delete it there. GitHub could not be asked: %v",
			desired.Name, desired.URL, cause))
}

// unproven is recorded for a registration that is only in the status: it may be ours, or written by hand.
func unproven(registration v1alpha1.ScaleSetRegistration) report.Event {
	return report.Warning("ScaleSetLeftOnGitHub", "Deregister",
		fmt.Sprintf("Not deleted: scale set %q (id %d) at %s, which the status named. Neither the listener nor the runners of this set use that address, so no credentials "+
			"are sent there; delete it on GitHub if it was this set's", registration.Name, registration.ID, registration.URL))
}

func listenerReplaced(name string) report.Event {
	return report.Normal("ExtraListenerDeleted", "Reconcile",
		fmt.Sprintf("AutoscalingListener %s is deleted: a scale set has only one listener", name))
}

func runnerSetDraining(name string) report.Event {
	return report.Normal("OldRunnerSetDraining", "Reconcile",
		fmt.Sprintf("EphemeralRunnerSet %s is from an earlier version: its idle runners are removed, its busy ones finish their jobs", name))
}

// runnerSetRestored is recorded when the EphemeralRunnerSet said something else of its runners than the set does. Only the manager
// writes that, so somebody else has: the listener can, if its pod was taken over.
func runnerSetRestored(name string) report.Event {
	return report.Warning("RunnerSetRestored", "ScaleRunners", fmt.Sprintf("EphemeralRunnerSet %s was changed by somebody other than the manager, which has restored it. "+
		"No runner was created from the change. Change the AutoscalingRunnerSet instead; if nobody here did this, replace the listener's credentials", name))
}
