package conditions

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/listenertemplate"
)

// templateCondition names the parts of the spec that are not used in the manager's namespace. Its operator decides
// that.
func templateCondition(refused listenertemplate.Refusals) metav1.Condition {
	const conditionType = v1alpha1.ConditionListenerTemplateAccepted
	if len(refused.First) == 0 {
		return report.True(conditionType, reasonAccepted, "")
	}
	message := fmt.Sprintf("the policy for listeners leaves out %s; the listener runs without them: remove them, "+
		"or ask the controller's operator to allow them by flags.listenerTemplatePolicy, listenerSidecarImages, "+
		"listenerMetadataKeys or listenerPriorityClasses of its chart",
		refused.List(report.MaxQuoted))
	for _, refusal := range refused.First {
		if refusal.Reason == listenertemplate.ReasonARCImage { // no policy allows it
			message += fmt.Sprintf(". Of %s: %s", refusal.Path, refusal.Reason)
		}
	}
	return report.False(conditionType, v1alpha1.ReasonFieldsRefused, message)
}

// listenerCondition says what is wrong with the listener's pod or, if nothing is, what the listener reports.
func listenerCondition(f *Findings) metav1.Condition {
	const conditionType = v1alpha1.ConditionListenerReady
	listener, runnerSet := f.Listener(), f.RunnerSet()
	if len(f.TakenNames) > 0 {
		return report.False(conditionType, v1alpha1.ReasonListenerNameTaken, fmt.Sprintf(
			"the AutoscalingListeners %s in the manager's namespace have the names that this set's listener could "+
				"get, and belong to others; whoever administers the manager finds out who created them, and deletes "+
				"one: it is tried again every minute",
			strings.Join(f.TakenNames, " and ")))
	}
	if listener == nil || runnerSet == nil {
		return report.False(conditionType, reasonWaitingForScaleSet,
			"there is no listener until the scale set is registered on GitHub; see ScaleSetRegistered")
	}
	pod := meta.FindStatusCondition(listener.Status.Conditions, v1alpha1.ConditionReady)
	reported := runnerSet.Status.Listener
	switch {
	case pod == nil:
		return report.Unknown(conditionType, reasonListenerStarting, "the listener pod is being created")
	case pod.Status == metav1.ConditionFalse && pod.Reason == v1alpha1.ReasonListenerNameTaken:
		return report.False(conditionType, pod.Reason, pod.Message) // whatever the listener says follows from it
	case pod.Status != metav1.ConditionTrue && (reported == nil || slices.Contains(untroubled, reported.State)):
		return report.False(conditionType, pod.Reason, pod.Message)
	case reported == nil:
		return report.Unknown(conditionType, reasonListenerStarting, "the listener has not reported yet")
	case reported.State == v1alpha1.ListenerStateListening:
		return report.True(conditionType, reasonListening, reported.Message)
	case reported.State == v1alpha1.ListenerStateClosed && f.Numbers.Accepted() > 0:
		return report.Unknown(conditionType, reasonListenerStarting,
			"jobs are accepted again; the listener opens its session within seconds, when its configuration has "+
				"reached it")
	case reported.State == v1alpha1.ListenerStateClosed:
		reason, message := f.whyNoJobs()
		return report.True(conditionType, reason, "the message session is closed because "+message+
			"; it is opened again when that changes")
	}
	reason := report.KnownReason(cmp.Or(reported.Reason, string(reported.State))) // a listener's reasons are all ours
	return report.False(conditionType, reason, reported.Message)
}

// untroubled are the states that say nothing about why a listener's pod isn't ready.
var untroubled = []v1alpha1.ListenerState{v1alpha1.ListenerStateListening, v1alpha1.ListenerStateClosed,
	v1alpha1.ListenerStateStopped}

// PodsForbidden reports whether the set's runners say that their pods are forbidden.
func (f *Findings) PodsForbidden() bool {
	runnerSet := f.RunnerSet()
	if runnerSet == nil {
		return false
	}
	pending := withStatus(runnerSet.Status.Conditions, v1alpha1.ConditionRunnersPending, metav1.ConditionTrue)
	return pending != nil && pending.Reason == v1alpha1.ReasonPodForbidden
}

var releaseVersion = regexp.MustCompile(`^v?(0|[1-9]\d*)\.(0|[1-9]\d*)(\.(0|[1-9]\d*))?$`)

// versionCondition compares the version of the chart that created the object with the manager's. A difference has no
// other effect: the set keeps working, and the next `helm upgrade` of it removes the difference.
func versionCondition(labels map[string]string, manager string) metav1.Condition {
	chart := labels[v1alpha1.LabelVersion]
	switch {
	case chart == "":
		return report.True(v1alpha1.ConditionVersionSupported, reasonNoVersion, "not created by a chart")
	case versionSupported(chart, manager):
		return report.True(v1alpha1.ConditionVersionSupported, reasonVersionMatches, "")
	}
	return report.False(v1alpha1.ConditionVersionSupported, reasonVersionForeign, fmt.Sprintf(
		"created by a chart of version %s, but the manager is %s; the scale set keeps working. Upgrade its "+
			"chart to the manager's version", chart, manager))
}

// versionSupported reports whether the manager is a development build, or both are the same version or releases of the
// same minor version.
func versionSupported(chart, manager string) bool {
	if manager == "dev" || manager == "NA" || strings.HasPrefix(manager, "canary-") || chart == manager {
		return true
	}
	a, b := releaseVersion.FindStringSubmatch(chart), releaseVersion.FindStringSubmatch(manager)
	return a != nil && b != nil && a[1] == b[1] && a[2] == b[2]
}
