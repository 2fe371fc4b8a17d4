package diagnosis

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/doctor/finding"
	"github.com/harrier-ci/harrier/internal/doctor/snapshot"
	"github.com/harrier-ci/harrier/internal/kube"
)

// A volume for a claim may take bindingTimeout. Provisioners need seconds, copies of large volumes minutes.
const bindingTimeout = 2 * time.Minute

// checkClaims reports the reasons for which runners wait for claims, and claims that they can't use.
func checkClaims(s set) []finding.Finding {
	severity := finding.Problem
	condition := s.condition(v1alpha1.ConditionVolumeClaimsReady, metav1.ConditionFalse)
	if condition != nil && condition.Reason == v1alpha1.ReasonVolumeClaimsExhausted {
		severity = finding.Warning // they get one when a job ends
	}
	findings := s.fromCondition(severity, condition)
	findings = append(findings, s.unboundClaims()...)
	findings = append(findings, s.stuckClaims()...)
	return append(findings, s.unreachableVolumes()...)
}

// unboundClaims reports claims without a volume that a pod has been waiting for. The others wait for a pod.
func (s set) unboundClaims() []finding.Finding {
	found := &tally{}
	for i := range s.Claims {
		claim := &s.Claims[i]
		if claim.Status.Phase != corev1.ClaimPending || claim.DeletionTimestamp != nil ||
			s.Now.Sub(claim.CreationTimestamp.Time) < bindingTimeout || !s.mounted(claim.Name) {
			continue
		}
		if found.count++; found.count == 1 {
			found.example, found.message = claim.Name, "no Event says why"
			for k := range s.Warnings {
				if event := &s.Warnings[k]; event.InvolvedObject.Kind == "PersistentVolumeClaim" &&
					event.InvolvedObject.Name == claim.Name {
					found.message = event.Reason + ": " + event.Message
				}
			}
		}
	}
	if found.count == 0 {
		return nil
	}
	return []finding.Finding{s.finding(finding.Problem, "VolumeClaimPending",
		fmt.Sprintf("%s no volume, and its runner waits, for example %s: %s",
			finding.Counted(found.count, "claim has", "claims have"), found.example, found.message),
		fmt.Sprintf("kubectl -n %s describe persistentvolumeclaim %s; its StorageClass must exist and have a "+
			"provisioner that runs, or volumes that are free", s.Namespace, found.example))}
}

// mounted reports whether a pod that has not ended mounts a claim.
func (s set) mounted(claim string) bool {
	return slices.ContainsFunc(s.Pods, func(pod corev1.Pod) bool {
		return pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed &&
			slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
				return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim
			})
	})
}

// A claim without a pod may be in deletion for deletionTimeout: Kubernetes takes its own finalizer away within seconds.
const deletionTimeout = 2 * time.Minute

// stuckClaims reports claims that are deleted and stay, and so count towards max.
func (s set) stuckClaims() []finding.Finding {
	var stuck []string
	for i := range s.Claims {
		claim := &s.Claims[i]
		if claim.DeletionTimestamp != nil && s.Now.Sub(claim.DeletionTimestamp.Time) >= deletionTimeout &&
			!s.mounted(claim.Name) {
			stuck = append(stuck, fmt.Sprintf("%s (finalizers %v)", claim.Name, claim.Finalizers))
		}
	}
	if len(stuck) == 0 {
		return nil
	}
	return []finding.Finding{s.finding(finding.Warning, "VolumeClaimTerminating",
		"claims are being deleted and stay, and count towards volumeClaimPool.max: "+finding.Listed(stuck,
			namedObjects),
		"find out why the program that set the finalizers doesn't remove them; kubernetes.io/pvc-protection goes "+
			"when no pod mounts the claim: kubectl -n "+
			s.Namespace+" get pods says which one is stuck")}
}

// unreachableVolumes reports claims whose volumes can be mounted on no node that is there and ready.
func (s set) unreachableVolumes() []finding.Finding {
	if len(s.Nodes) == 0 {
		return nil
	}
	var unreachable []string
	for i := range s.Volumes {
		volume := &s.Volumes[i]
		reachable := func(node corev1.Node) bool { return isReady(&node) && reaches(&node, volume) }
		if volume.Spec.ClaimRef == nil || slices.ContainsFunc(s.Nodes, reachable) {
			continue
		}
		unreachable = append(unreachable, volume.Spec.ClaimRef.Name)
	}
	if len(unreachable) == 0 {
		return nil
	}
	return []finding.Finding{s.finding(finding.Warning, "VolumeUnreachable",
		fmt.Sprintf("no node that is ready can have %s: %s",
			finding.Counted(len(unreachable), "claim's volume", "claims' volumes"),
			finding.Listed(unreachable, namedObjects)),
		fmt.Sprintf("nothing, if the nodes come back: runners get other claims meanwhile; if they don't, "+
			"kubectl -n %s delete persistentvolumeclaim %s", s.Namespace, unreachable[0]))}
}

func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// reaches reports whether a volume's node affinity allows a node: one of its terms has to match.
func reaches(node *corev1.Node, volume *corev1.PersistentVolume) bool {
	if volume.Spec.NodeAffinity == nil || volume.Spec.NodeAffinity.Required == nil {
		return true
	}
	fields := labels.Set{metav1.ObjectNameField: node.Name}
	terms := volume.Spec.NodeAffinity.Required.NodeSelectorTerms
	return slices.ContainsFunc(terms, func(term corev1.NodeSelectorTerm) bool {
		return match(term.MatchExpressions, labels.Set(node.Labels)) && match(term.MatchFields, fields)
	})
}

// operators are those of node selectors. What can't be read matches, because nothing is known of it.
var operators = map[corev1.NodeSelectorOperator]selection.Operator{
	corev1.NodeSelectorOpIn: selection.In, corev1.NodeSelectorOpNotIn: selection.NotIn,
	corev1.NodeSelectorOpExists:       selection.Exists,
	corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist, corev1.NodeSelectorOpGt: selection.GreaterThan,
	corev1.NodeSelectorOpLt: selection.LessThan,
}

func match(requirements []corev1.NodeSelectorRequirement, of labels.Set) bool {
	return !slices.ContainsFunc(requirements, func(r corev1.NodeSelectorRequirement) bool {
		requirement, err := labels.NewRequirement(r.Key, operators[r.Operator], r.Values)
		return err == nil && !requirement.Matches(of)
	})
}

// leftClaims reports claims of scale sets that don't exist, in one finding for each.
func leftClaims(s *snapshot.Snapshot) (findings []finding.Finding) {
	left := map[types.NamespacedName][]string{}
	for i := range s.LeftClaims {
		claim := &s.LeftClaims[i]
		set := kube.LabelledSet(claim)
		left[set] = append(left[set], claim.Name)
	}
	inOrder := func(a, b types.NamespacedName) int { return cmp.Compare(a.String(), b.String()) }
	for _, set := range slices.SortedFunc(maps.Keys(left), inOrder) {
		findings = append(findings, finding.Finding{Severity: finding.Info,
			Object: "AutoscalingRunnerSet " + set.String(),
			Reason: "VolumeClaimsLeft",
			Message: fmt.Sprintf("the scale set doesn't exist, and %s it: %s",
				finding.Counted(len(left[set]), "claim is left of", "claims are left of"),
				finding.Listed(left[set], namedObjects)),
			Fix: "a scale set of the same name, GitHub address and runner group uses them again; to give up their " +
				"content and their cost, kubectl -n " + set.Namespace +
				" delete persistentvolumeclaims -l " + v1alpha1.LabelVolumeClaimTemplate + "," +
				v1alpha1.LabelScaleSetName + "=" +
				set.Name})
	}
	return findings
}
