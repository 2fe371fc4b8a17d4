package volumesnapshots

import (
	"cmp"
	"regexp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
)

// Kind is the kind of VolumeSnapshots. A cluster has it only if somebody has installed it, so they are read without a Go
// type, and no watch waits for them.
var Kind = schema.GroupVersionKind{Group: "snapshot.storage.k8s.io", Version: "v1", Kind: "VolumeSnapshot"}

// World has all that a pass sees of one scale set's snapshots, and of what they are made of and copied to.
type World struct {
	Set *v1alpha1.AutoscalingRunnerSet
	Now time.Time
	// Snapshots are those for which Of found that they are the set's.
	Snapshots []Snapshot
	// Claims are the set's own, of which snapshots may be made.
	Claims []Claim
	// Used are the suffixes of claims that runners name which still exist, or that pods mount.
	Used sets.Set[string]
	// Copied counts, by the suffix of the snapshots, the runners that may still make claims of them, or whose claims have
	// no volume yet. Failing are those suffixes of which copies get no volume, and none has got one since.
	Copied, Failing sets.Set[string]
}

// Claim is a claim of a runner.
type Claim struct {
	Name, Template, Suffix, Scope string
	UID                           types.UID
	Bound, Deleting               bool
	// Commit is nil if no snapshot may be made of it.
	Commit *Commit
}

// ClaimOf returns a claim of the set that has a commit, and false if it is none. A commit that can't be read is none of
// ours, and no snapshot is made then: the claim only goes.
func ClaimOf(set *v1alpha1.AutoscalingRunnerSet, object *corev1.PersistentVolumeClaim) (Claim, bool) {
	text, committed := object.Annotations[v1alpha1.AnnotationVolumeClaimCommit]
	known, ours := volumeclaims.ClaimOf(set, object)
	if !ours || !committed {
		return Claim{}, false
	}
	claim := Claim{Name: known.Name, UID: known.UID, Template: known.Template, Suffix: known.Suffix,
		Scope: known.Scope, Bound: known.Bound, Deleting: known.Deleting}
	if commit, valid := ParseCommit(text); valid {
		claim.Commit = &commit
	}
	return claim, true
}

// Snapshot is one VolumeSnapshot of a set.
type Snapshot struct {
	Name, Template, Suffix, Scope string
	UID                           types.UID
	CreatedAt                     time.Time
	// Owned is set if the set is its owner, so that it goes with the set.
	Owned, Deleting bool
	// Seen is set if a snapshot controller has written its status.
	Ready, Seen bool
	// Error is the last one of the driver or the snapshot controller, empty if there is none.
	Error string
	// Size is the least size of a copy, nil if it isn't known.
	Size   *resource.Quantity
	Commit Commit
}

// sizes are those that are read: an exponent, as in 1e999999999, would be computed for minutes.
var sizes = regexp.MustCompile(`^[0-9]{1,19}([KMGTPE]i?)?$`)

// maxErrorLength bounds the text of a driver that is shown.
const maxErrorLength = 1024

// Of returns what has to be known of a VolumeSnapshot, and false if it isn't the set's: others may give the same labels,
// so its name must be one that the set gives, and nobody but the set may own it. One that nobody owns was retained by an
// earlier set of this name; it is adopted if its content is from the same GitHub address and runner group.
func Of(set *v1alpha1.AutoscalingRunnerSet, object *unstructured.Unstructured) (Snapshot, bool) {
	labels := object.GetLabels()
	found := Snapshot{
		Name: object.GetName(), UID: object.GetUID(), CreatedAt: object.GetCreationTimestamp().Time,
		Template: labels[v1alpha1.LabelVolumeClaimTemplate], Scope: labels[v1alpha1.LabelVolumeClaimScope],
		Owned: metav1.IsControlledBy(object, set), Deleting: object.GetDeletionTimestamp() != nil,
	}
	suffix, named := volumeclaims.SuffixOf(set, found.Template, found.Name)
	commit, committed := ParseCommit(object.GetAnnotations()[v1alpha1.AnnotationVolumeClaimCommit])
	of := types.NamespacedName{Namespace: set.Namespace, Name: set.Name}
	owned := found.Owned || metav1.GetControllerOfNoCopy(object) == nil
	if !named || !committed || !owned || object.GetNamespace() != set.Namespace || kube.LabelledSet(object) != of ||
		(!found.Owned && found.Scope != volumeclaims.Scope(set)) {
		return Snapshot{}, false
	}
	found.Suffix, found.Commit = suffix, commit
	found.readStatus(object.Object["status"])
	return found, true
}

// readStatus reads what a snapshot controller has written. What has another form than it should have is not there.
func (s *Snapshot) readStatus(status any) {
	fields, _ := status.(map[string]any)
	s.Seen = len(fields) > 0
	s.Ready, _ = fields["readyToUse"].(bool)
	if failure, _ := fields["error"].(map[string]any); failure != nil && !s.Ready {
		s.Error, _ = failure["message"].(string)
		s.Error = cmp.Or(s.Error, "it gives no reason")
		if shown := cut(s.Error, maxErrorLength); shown != s.Error {
			s.Error = shown + "…"
		}
	}
	if text, _ := fields["restoreSize"].(string); sizes.MatchString(text) {
		if size, err := resource.ParseQuantity(text); err == nil {
			s.Size = &size
		}
	}
}

// New returns the VolumeSnapshot that is to be made of a claim.
func New(set *v1alpha1.AutoscalingRunnerSet, claim Claim) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(Kind)
	object.SetNamespace(set.Namespace)
	object.SetName(claim.Name)
	object.SetLabels(map[string]string{
		v1alpha1.LabelPartOf:              v1alpha1.PartOfScaleSet,
		v1alpha1.LabelVolumeClaimTemplate: claim.Template,
		v1alpha1.LabelVolumeClaimScope:    claim.Scope,
		v1alpha1.LabelScaleSetName:        set.Name,
		v1alpha1.LabelScaleSetNamespace:   set.Namespace,
	})
	object.SetAnnotations(map[string]string{v1alpha1.AnnotationVolumeClaimCommit: claim.Commit.String()})
	SetOwners(object, set)
	spec := map[string]any{"source": map[string]any{"persistentVolumeClaimName": claim.Name}}
	if class := set.Spec.EffectiveVolumeClaimPool().SnapshotClassName; class != "" {
		spec["volumeSnapshotClassName"] = class
	}
	object.Object["spec"] = spec
	return object
}

// SetOwners makes the set the owner of a VolumeSnapshot, or no longer if its snapshots outlive it. Owners that others
// have added stay.
func SetOwners(object *unstructured.Unstructured, set *v1alpha1.AutoscalingRunnerSet) {
	owners := slices.DeleteFunc(object.GetOwnerReferences(),
		func(owner metav1.OwnerReference) bool { return owner.UID == set.UID })
	if !set.Spec.SnapshotsRetained() {
		owners = append(owners, kube.OwnedBy(set)...)
	}
	object.SetOwnerReferences(owners)
}
