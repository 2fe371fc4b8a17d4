package autoscalingrunnerset

import (
	"fmt"
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

const (
	reasonVersionMatches = "VersionMatches"
	reasonVersionForeign = "VersionDiffers"
	reasonNoVersion      = "NoVersionLabel"
)

var releaseVersion = regexp.MustCompile(`^v?(0|[1-9]\d*)\.(0|[1-9]\d*)(\.(0|[1-9]\d*))?$`)

// versionCondition compares the version of the chart that created the object with the manager's. A difference has no other effect:
// the set keeps working, and the next `helm upgrade` of it removes the difference.
func versionCondition(labels map[string]string, manager string) metav1.Condition {
	chart := labels[v1alpha1.LabelVersion]
	switch {
	case chart == "":
		return report.True(v1alpha1.ConditionVersionSupported, reasonNoVersion, "not created by a chart")
	case versionSupported(chart, manager):
		return report.True(v1alpha1.ConditionVersionSupported, reasonVersionMatches, "")
	}
	return report.False(v1alpha1.ConditionVersionSupported, reasonVersionForeign, fmt.Sprintf(
		"created by a chart of version %s, but the manager is %s; the scale set keeps working. Upgrade its chart to the manager's version", chart, manager))
}

// versionSupported reports whether the manager is a development build, or both are the same version or releases of the same
// minor version.
func versionSupported(chart, manager string) bool {
	if manager == "dev" || manager == "NA" || strings.HasPrefix(manager, "canary-") || chart == manager {
		return true
	}
	a, b := releaseVersion.FindStringSubmatch(chart), releaseVersion.FindStringSubmatch(manager)
	return a != nil && b != nil && a[1] == b[1] && a[2] == b[2]
}
