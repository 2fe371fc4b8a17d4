package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/meaning"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
	"github.com/harrier-ci/harrier/operations/finding"
)

// A volume for a claim may take bindingTimeout. Provisioners need seconds, copies of large volumes minutes. A provisioner
// that says why it makes none is believed after failingTimeout.
const (
	bindingTimeout = 2 * time.Minute
	failingTimeout = time.Minute
)

// checkClaims reports the reasons for which runners wait for claims, and claims that they can't use.
func checkClaims(s set) []finding.Finding {
	severity := finding.Problem
	condition := s.condition(v1alpha1.ConditionVolumeClaimsReady, metav1.ConditionFalse)
	if condition != nil && condition.Reason == v1alpha1.ReasonVolumeClaimsExhausted {
		severity = finding.Warning // they get one when a job ends
	}
	if condition != nil && condition.Reason == v1alpha1.ReasonVolumeClaimsAwaitPlace {
		severity = finding.Warning // a node may come, or they get others
	}
	findings := s.fromCondition(severity, condition)
	// runners start, but from an older snapshot or from nothing
	findings = append(findings, s.fromCondition(finding.Warning,
		s.condition(v1alpha1.ConditionSnapshotsReady, metav1.ConditionFalse))...)
	findings = append(findings, s.storageMissing()...)
	findings = append(findings, s.unboundClaims()...)
	findings = append(findings, s.stuckClaims()...)
	findings = append(findings, s.unreachableVolumes()...)
	findings = append(findings, s.fullClaims()...)
	findings = append(findings, s.unmountedClaims()...)
	return append(findings, s.retainedVolumes()...)
}

// From fullPercent on a cache is about to be of no use: builds that find no room fail.
const fullPercent = 90

// fullClaims reports that the fullest claim, as far as that is told, is full.
func (s set) fullClaims() []finding.Finding {
	counts := s.Status.VolumeClaims
	if counts == nil || counts.FullestPercent < fullPercent {
		return nil
	}
	fix := "set volumeClaimPool.maxUsedPercent, which replaces a claim that is fuller when its job has ended; or have a " +
		"job clean up, or ask for a larger size and delete the claims that exist"
	if pool := s.Spec.VolumeClaimPool; pool != nil && pool.MaxUsedPercent != nil {
		fix = "nothing, if it is below volumeClaimPool.maxUsedPercent; a larger size in volumeClaimTemplates holds for new " +
			"claims"
	}
	return []finding.Finding{s.finding(finding.Warning, "VolumeClaimsFull",
		fmt.Sprintf("the fullest claim was %d %% full at the end of its last job", counts.FullestPercent), fix)}
}

// unmountedClaims reports claims that are made for runners whose containers don't mount them.
func (s set) unmountedClaims() []finding.Finding {
	unmounted := volumeclaims.UnmountedTemplates(&s.Spec)
	if len(unmounted) == 0 {
		return nil
	}
	return []finding.Finding{s.finding(finding.Warning, "VolumeClaimUnmounted",
		"no container mounts what volumeClaimTemplates makes, and it is paid for: "+finding.Listed(unmounted,
			namedObjects),
		"add volumeMounts with that name to the container that needs it, or remove the template")}
}

// retainedVolumes reports volumes that stay, with their cost, when their claims are deleted.
func (s set) retainedVolumes() []finding.Finding {
	var retained []string
	for i := range s.Volumes {
		if s.Volumes[i].Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain {
			retained = append(retained, s.Volumes[i].Name)
		}
	}
	if len(retained) == 0 {
		return nil
	}
	return []finding.Finding{s.finding(finding.Info, "VolumesRetained",
		fmt.Sprintf("%s when the pool deletes its claims, because of the reclaim policy of the StorageClass: %s",
			finding.Counted(len(retained), "volume stays", "volumes stay"), finding.Listed(retained, namedObjects)),
		"name a StorageClass with reclaimPolicy Delete in volumeClaimTemplates; kubectl get persistentvolumes shows those "+
			"that are Released")}
}

// storageMissing reports new claims that will have no volume, before a runner waits for one: their StorageClass doesn't
// exist, or they name none and the cluster has no default.
func (s set) storageMissing() []finding.Finding {
	pending := s.condition(v1alpha1.ConditionRunnersPending, metav1.ConditionTrue)
	if s.StorageClasses == nil || pending != nil && pending.Reason == v1alpha1.ReasonVolumeUnbound {
		return nil
	}
	missing := volumeclaims.WithoutClass(&s.Spec, s.StorageClasses.Items)
	if len(missing) == 0 {
		return nil
	}
	return []finding.Finding{s.finding(finding.Problem, v1alpha1.ReasonVolumeUnbound,
		"runners will wait for volumes that nobody makes: "+finding.Listed(missing, namedObjects),
		meaning.OfRunner(v1alpha1.ReasonVolumeUnbound))}
}

// unboundClaims reports claims without a volume that a pod has been waiting for. The others wait for a pod.
func (s set) unboundClaims() []finding.Finding {
	found := &tally{}
	copies := false
	for i := range s.Claims {
		claim := &s.Claims[i]
		why, timeout := s.warningAbout(claim), bindingTimeout
		if why != "" {
			timeout = failingTimeout
		}
		if claim.Status.Phase != corev1.ClaimPending || claim.DeletionTimestamp != nil ||
			s.Now.Sub(claim.CreationTimestamp.Time) < timeout || !s.mounted(claim.Name) {
			continue
		}
		if found.count++; found.count == 1 {
			found.example, found.message = claim.Name, cmp.Or(why, "no Event says why")
			copies = claim.Spec.DataSource != nil
		}
	}
	if found.count == 0 {
		return nil
	}
	fix := fmt.Sprintf("kubectl -n %s describe persistentvolumeclaim %s; its StorageClass must exist and have a "+
		"provisioner that runs, or volumes that are free", s.Namespace, found.example)
	if copies {
		fix += ". It is to be a copy: if the driver can't clone or restore, or what is copied is of another StorageClass, " +
			"remove volumeClaimPool.seedFrom, or the template's dataSource"
	}
	return []finding.Finding{s.finding(finding.Problem, "VolumeClaimPending",
		fmt.Sprintf("%s no volume, and its runner waits, for example %s: %s",
			finding.Counted(found.count, "claim has", "claims have"), found.example, found.message), fix)}
}

// warningAbout returns what the last warning about a claim says, empty if there is none.
func (s set) warningAbout(claim *corev1.PersistentVolumeClaim) (why string) {
	for k := range s.Warnings {
		if event := &s.Warnings[k]; event.InvolvedObject.Kind == "PersistentVolumeClaim" &&
			event.InvolvedObject.Name == claim.Name {
			why = event.Reason + ": " + event.Message
		}
	}
	return why
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
