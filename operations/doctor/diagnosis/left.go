package diagnosis

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/operations/doctor/snapshot"
	"github.com/harrier-ci/harrier/operations/finding"
)

// Fixes of what is left, as formats with the namespace and a selector of the set's objects.
const (
	fixObjectsLeft = "if the scale set is not to come back, kubectl -n %s delete secrets,roles,rolebindings -l %s"
	fixCacheLeft   = "a scale set of the same name, GitHub address and runner group uses %s again; to give up their " +
		"content and their cost, kubectl -n %%s delete %s -l " + v1alpha1.LabelVolumeClaimTemplate + ",%%s"
)

// left reports what there is of scale sets that don't exist, in one finding for each set and reason.
func left(s *snapshot.Snapshot) (findings []finding.Finding) {
	findings = leftOf(s.LeftClaims, finding.Finding{Severity: finding.Info, Reason: "VolumeClaimsLeft",
		Message: "the scale set doesn't exist, and %s it: %s",
		Fix:     fmt.Sprintf(fixCacheLeft, "them", "persistentvolumeclaims")}, "claim")
	findings = append(findings, leftOf(s.LeftSnapshots, finding.Finding{Severity: finding.Info,
		Reason:  "VolumeSnapshotsLeft",
		Message: "the scale set doesn't exist, and %s it: %s",
		Fix:     fmt.Sprintf(fixCacheLeft, "the newest of them", "volumesnapshots")}, "snapshot")...)
	// As after a restore from a backup that has these and not the set.
	return append(findings, leftOf(s.Left, finding.Finding{Severity: finding.Warning, Reason: "ObjectsLeft",
		Message: "the scale set doesn't exist, and %s it, as after a restore from a backup: %s. The Secret of a runner " +
			"is its registration", Fix: fixObjectsLeft}, "object")...)
}

// leftOf returns a finding for each set that objects are left of. Those of several kinds are named by their kind, too.
func leftOf[T any, P interface {
	*T
	client.Object
}](objects []T, of finding.Finding, what string) (findings []finding.Finding) {
	names := map[types.NamespacedName][]string{}
	for i := range objects {
		object := P(&objects[i])
		name := object.GetName()
		if kind := object.GetObjectKind().GroupVersionKind().Kind; what == "object" {
			name = kind + " " + name
		}
		set := kube.LabelledSet(object)
		names[set] = append(names[set], name)
	}
	inOrder := func(a, b types.NamespacedName) int { return cmp.Compare(a.String(), b.String()) }
	for _, set := range slices.SortedFunc(maps.Keys(names), inOrder) {
		found := of
		found.Object = "AutoscalingRunnerSet " + set.String()
		found.Message = fmt.Sprintf(of.Message, finding.Counted(len(names[set]), what+" is left of", what+"s are left of"),
			finding.Listed(names[set], namedObjects))
		found.Fix = fmt.Sprintf(of.Fix, set.Namespace, v1alpha1.LabelScaleSetName+"="+set.Name+","+
			v1alpha1.LabelScaleSetNamespace+"="+set.Namespace)
		findings = append(findings, found)
	}
	return findings
}
