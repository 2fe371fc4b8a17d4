package diagnosis

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/doctor/finding"
	"github.com/harrier-ci/harrier/internal/doctor/snapshot"
	"github.com/harrier-ci/harrier/internal/kube"
)

// leftObjects reports Secrets, Roles and RoleBindings of scale sets that don't exist, in one finding for each, as after
// a restore from a backup that has these and not the set. A runner's Secret is a credential until its registration is
// gone.
func leftObjects(s *snapshot.Snapshot) (findings []finding.Finding) {
	left := map[types.NamespacedName][]string{}
	for i := range s.Left {
		object := &s.Left[i]
		set := kube.LabelledSet(object)
		left[set] = append(left[set], object.Kind+" "+object.Name)
	}
	inOrder := func(a, b types.NamespacedName) int { return cmp.Compare(a.String(), b.String()) }
	for _, set := range slices.SortedFunc(maps.Keys(left), inOrder) {
		of := []string{v1alpha1.LabelScaleSetName + "=" + set.Name, v1alpha1.LabelScaleSetNamespace + "=" + set.Namespace}
		findings = append(findings, finding.Finding{Severity: finding.Warning,
			Object: "AutoscalingRunnerSet " + set.String(),
			Reason: "ObjectsLeft",
			Message: fmt.Sprintf("the scale set doesn't exist, and %s it, as after a restore from a backup: %s. The "+
				"Secret of a runner is its registration",
				finding.Counted(len(left[set]), "object is left of", "objects are left of"),
				finding.Listed(left[set], namedObjects)),
			Fix: "if the scale set is not to come back, kubectl -n " + set.Namespace +
				" delete secrets,roles,rolebindings -l " + strings.Join(of, ",")})
	}
	return findings
}
