package volumeclaims

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

const (
	// suffixLength is how many random characters a bundle's name has: five of 27 make 14 million, and new ones differ from all that
	// are known.
	suffixLength = 5
	// suffixCharacters are those that rand.String uses.
	suffixCharacters = "bcdfghjklmnpqrstvwxz2456789"
	// snapshotGroup is the API group of VolumeSnapshots.
	snapshotGroup = "snapshot.storage.k8s.io"
)

// Claim is what decisions need to know of one PersistentVolumeClaim of a set.
type Claim struct {
	Name      string
	UID       types.UID
	Template  string
	Suffix    string // of the bundle that it belongs to
	CreatedAt time.Time
	// UsedAt is when it was last recorded to be in use; its creation counts as a use.
	UsedAt time.Time
	// Failures are the last runners in a row whose pods could not use it.
	Failures []FailedUse
	// Source is the name of the claim that it is a copy of, empty if there is none.
	Source string
	// Scope is the hash of the address and the group whose jobs have written to it.
	Scope string
	// Owned is set if the set is its owner, so that it goes with the set.
	Owned                 bool
	Bound, Lost, Deleting bool
}

// FailedUse is a runner whose pod could not use a claim, and when.
type FailedUse struct {
	Runner string
	At     time.Time
}

// ClaimOf returns what is to be known of a claim. It returns false if the claim is not of the set's pool: others may give claims
// the same labels, so its name must be one that the set gives, and nobody but the set may own it. One that nobody owns was retained
// by an earlier set of this name: it is adopted if its content is from the same GitHub address and runner group.
func ClaimOf(set *v1alpha1.AutoscalingRunnerSet, claim *corev1.PersistentVolumeClaim) (Claim, bool) {
	template := claim.Labels[v1alpha1.LabelVolumeClaimTemplate]
	suffix, named := suffixOf(set.Name, template, claim.Name)
	owner := metav1.GetControllerOfNoCopy(claim)
	owned := owner != nil && owner.UID == set.UID
	scope := claim.Labels[v1alpha1.LabelVolumeClaimScope]
	ours := named && claim.Namespace == set.Namespace && kube.LabelledSet(claim) == types.NamespacedName{Namespace: set.Namespace, Name: set.Name}
	switch {
	case !ours, owner != nil && !owned:
		return Claim{}, false
	case !owned && scope != Scope(set): // retained, and filled by jobs of others
		return Claim{}, false
	}
	found := Claim{
		Name: claim.Name, UID: claim.UID, Template: template, Suffix: suffix,
		CreatedAt: claim.CreationTimestamp.Time,
		UsedAt:    claim.CreationTimestamp.Time,
		Failures:  parseFailures(claim.Annotations[v1alpha1.AnnotationVolumeClaimFailures]),
		Scope:     scope,
		Owned:     owned,
		Bound:     claim.Status.Phase == corev1.ClaimBound,
		Lost:      claim.Status.Phase == corev1.ClaimLost,
		Deleting:  claim.DeletionTimestamp != nil,
	}
	if used, err := time.Parse(time.RFC3339, claim.Annotations[v1alpha1.AnnotationVolumeClaimUsedAt]); err == nil {
		found.UsedAt = kube.LaterOf(found.UsedAt, used)
	}
	if source := claim.Spec.DataSource; source != nil && source.Kind == "PersistentVolumeClaim" {
		found.Source = source.Name
	}
	return found, true
}

// claimName returns the name of a bundle's claim. It has at most 63 + 1 + 63 + 6 of the 253 characters that it may have.
func claimName(set, template, suffix string) string { return set + "-" + template + "-" + suffix }

// suffixOf returns the suffix of a claim's name, and false if it is none that the set gives to claims of the template.
func suffixOf(set, template, name string) (string, bool) {
	suffix, found := strings.CutPrefix(name, claimName(set, template, ""))
	return suffix, found && template != "" && len(suffix) == suffixLength && strings.Trim(suffix, suffixCharacters) == ""
}

// RandomSuffix returns a suffix for a bundle's claims.
func RandomSuffix() string { return rand.String(suffixLength) }

// Scope returns the hash by which a claim shows whose jobs have written to it: those of one GitHub address and one runner group.
// Spellings that GitHub takes for the same make one hash.
func Scope(set *v1alpha1.AutoscalingRunnerSet) string {
	return scopeOf(set.Spec.GitHubConfigUrl, set.Spec.RunnerGroup)
}

func scopeOf(address, group string) string {
	address = strings.ToLower(strings.Trim(strings.TrimSpace(address), "/"))
	group = cmp.Or(strings.ToLower(strings.TrimSpace(group)), "default")
	hash := sha256.Sum256(fmt.Appendf(nil, "%d:%s %s", len(address), address, group))
	return hex.EncodeToString(hash[:16])
}

// Missing returns the claims that a runner names and that don't exist, ready to be created. find returns the claim of that name,
// nil if there is none. Templates that the set no longer has make no claim.
func Missing(
	set *v1alpha1.AutoscalingRunnerSet, runner *v1alpha1.EphemeralRunner, find func(name string) *corev1.PersistentVolumeClaim,
) []*corev1.PersistentVolumeClaim {
	var missing []*corev1.PersistentVolumeClaim
	for i := range set.Spec.VolumeClaimTemplates {
		template := &set.Spec.VolumeClaimTemplates[i]
		name := runner.Spec.VolumeClaims[template.Metadata.Name]
		if _, ours := suffixOf(set.Name, template.Metadata.Name, name); !ours || find(name) != nil {
			continue
		}
		claim := newClaim(set, template, name, scopeOf(runner.Spec.GitHubConfigUrl, set.Spec.RunnerGroup))
		claim.Spec.DataSource = cmp.Or(sourceOf(set, template, runner, find), claim.Spec.DataSource)
		missing = append(missing, claim)
	}
	return missing
}

// sourceOf returns what a runner's new claim is a copy of according to seedFrom, nil if it is a copy of nothing. The bundle that
// the plan has picked counts only if it exists and has the content of the same address and group.
func sourceOf(set *v1alpha1.AutoscalingRunnerSet, template *v1alpha1.VolumeClaimTemplate, runner *v1alpha1.EphemeralRunner,
	find func(name string) *corev1.PersistentVolumeClaim,
) *corev1.TypedLocalObjectReference {
	pool := set.Spec.EffectiveVolumeClaimPool()
	from, seed := pool.SeedFrom, runner.Annotations[v1alpha1.AnnotationVolumeClaimSeed]
	switch {
	case from.PersistentVolumeClaim != "":
		return &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: from.PersistentVolumeClaim}
	case from.VolumeSnapshot != "":
		return &corev1.TypedLocalObjectReference{APIGroup: new(snapshotGroup), Kind: "VolumeSnapshot", Name: from.VolumeSnapshot}
	case !from.Newest || seed == "":
		return nil
	}
	source := find(claimName(set.Name, template.Metadata.Name, seed))
	scope := scopeOf(runner.Spec.GitHubConfigUrl, set.Spec.RunnerGroup)
	if source == nil || source.DeletionTimestamp != nil || source.Labels[v1alpha1.LabelVolumeClaimScope] != scope {
		return nil
	}
	return &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: source.Name}
}

// newClaim returns a claim of the template.
func newClaim(set *v1alpha1.AutoscalingRunnerSet, template *v1alpha1.VolumeClaimTemplate, name, scope string) *corev1.PersistentVolumeClaim {
	metadata := &template.Metadata
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: set.Namespace, Name: name,
			Labels: kube.Labels(nil, metadata.Labels, map[string]string{
				v1alpha1.LabelPartOf:              v1alpha1.PartOfScaleSet,
				v1alpha1.LabelVolumeClaimTemplate: metadata.Name,
				v1alpha1.LabelVolumeClaimScope:    scope,
				v1alpha1.LabelScaleSetName:        set.Name,
				v1alpha1.LabelScaleSetNamespace:   set.Namespace,
			}),
			Annotations:     maps.Clone(metadata.Annotations),
			OwnerReferences: Owners(set),
		},
		Spec: *template.Spec.DeepCopy(),
	}
}

// Owners returns the owner references that the set's claims should have: none if they outlive the set.
func Owners(set *v1alpha1.AutoscalingRunnerSet) []metav1.OwnerReference {
	if set.Spec.Retained() {
		return nil
	}
	return kube.OwnedBy(set)
}

// parseFailures reads what formatFailures has written. What is none of it is left out: others may write the annotation.
func parseFailures(text string) []FailedUse {
	var failures []FailedUse
	for _, field := range strings.Fields(text) {
		runner, at, found := strings.Cut(field, "@")
		if failedAt, err := time.Parse(time.RFC3339, at); found && err == nil && len(failures) < maxFailures {
			failures = append(failures, FailedUse{Runner: runner, At: failedAt})
		}
	}
	return failures
}

func formatFailures(failures []FailedUse) string {
	fields := make([]string, 0, len(failures))
	for _, failure := range failures {
		fields = append(fields, failure.Runner+"@"+failure.At.UTC().Format(time.RFC3339))
	}
	return strings.Join(fields, " ")
}

// templateNames returns the names of the set's templates, sorted.
func templateNames(set *v1alpha1.AutoscalingRunnerSet) []string {
	names := make([]string, 0, len(set.Spec.VolumeClaimTemplates))
	for i := range set.Spec.VolumeClaimTemplates {
		names = append(names, set.Spec.VolumeClaimTemplates[i].Metadata.Name)
	}
	slices.Sort(names)
	return names
}
