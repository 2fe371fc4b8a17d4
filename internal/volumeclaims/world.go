package volumeclaims

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/nodes"
	"github.com/harrier-ci/harrier/internal/volumeclaims/places"
)

const (
	// A bundle's name has suffixLength random characters: five of 27 make 14 million, and new ones differ from all that
	// are known.
	suffixLength = 5
	// suffixCharacters are those that rand.String uses.
	suffixCharacters = "bcdfghjklmnpqrstvwxz2456789"
	// A bundle is discarded after maxFailures runners in a row have failed to use it.
	maxFailures = 2
	// The API server may refuse a claim, a provisioner fail to make its volume, or a node fail to mount it for
	// FailureTimeout; then its runner gives way to one with other claims, or with none.
	FailureTimeout = time.Minute
	// annotationSelectedNode is where Kubernetes writes the node for which a claim's volume is made.
	annotationSelectedNode = "volume.kubernetes.io/selected-node"
	// snapshotGroup is the API group of VolumeSnapshots.
	snapshotGroup = "snapshot.storage.k8s.io"
)

// World has all that a pass sees of one scale set's claims and of who uses them.
type World struct {
	Set *v1alpha1.AutoscalingRunnerSet
	Now time.Time
	// Listed is set after the API server, and not only the cache, has listed the runners and claims that exist. Runners
	// that it named and the cache doesn't show are among Expected; claims were given to Memory.Inherit.
	Listed bool
	// Suffix returns a new suffix; RandomSuffix does, and a test may want others.
	Suffix func() string
	// Claims are those for which ClaimOf found that they belong to the set.
	Claims []Claim
	// Runners are all that name claims of the set, also those beside its runner set.
	Runners []Runner
	// Expected are the names of runners that were created, or may have been, and that the cache doesn't show.
	Expected []string
	// Mounted are the names of claims that pods mount which have not ended.
	Mounted sets.Set[string]
	// Snapshot is the suffix of the snapshots that new claims are copies of, in mode Snapshot; empty if there is none.
	Snapshot string
	// Nodes are those that a watch has shown, nil if there is none: then nothing is known of places.
	Nodes *nodes.Watched
}

// Runner has the facts about one runner on which decisions depend.
type Runner struct {
	Name      string
	CreatedAt time.Time
	// Claims is the runner's spec.volumeClaims.
	Claims map[string]string
	// Seed is the suffix of the bundle that the runner's new claims are copies of, empty if they are empty.
	Seed string
	// Done is set if the runner will not run again: its phase is final.
	Done bool
	// EndedAt is the time at which it was first seen to be done, by our own clock; zero if that is not known.
	EndedAt time.Time
	// Deleting is set if the runner's deletion was asked for; its pod may still run.
	Deleting bool
	// PlacedAt is the time at which its present pod was first seen to have a node, by our own clock; zero if it has
	// none.
	PlacedAt time.Time
	// Up is set if the container of its present pod has started. Started is set if that of any of its pods has.
	Up, Started bool
	Job         Job
	Failure     Failure
	// Node is the name of the node that its present pod has, empty if it has none.
	Node string
	// Patience is the time for which its pod may wait for a node with its claims.
	Patience time.Duration
	// UsedPercent has how full its volumes were at the end of its job, by their names, as far as that was told.
	UsedPercent map[string]int
	// Announced is set if an autoscaler has said that it makes a node for the pod, Denied if it has said that it can't.
	Announced, Denied bool
}

// Job has the known facts about a runner's job: GitHub's event and result, empty if they aren't known. That a runner had
// none, nothing can prove.
type Job struct{ Event, Result string }

// FailureKind is the kind of reason for which a runner does not start with its claims.
type FailureKind string

// Kinds of failures. The empty kind is none.
const (
	// Refused: the API server refused to create a claim.
	Refused FailureKind = "Refused"
	// Unusable: a claim that the runner names is being deleted, is somebody else's, or has no template to be made from.
	Unusable FailureKind = "Unusable"
	// Unplaced: the pod has no node.
	Unplaced FailureKind = "Unplaced"
	// Unprovisioned: the pod has no node, and a provisioner reports that it can't make a volume for it.
	Unprovisioned FailureKind = "Unprovisioned"
	// Unmounted: the pod's node reports that it can't attach or mount a volume.
	Unmounted FailureKind = "Unmounted"
)

// Failure is the reason why a runner can't start with its claims.
type Failure struct {
	Kind FailureKind
	// Since is the time at which it was first seen, by our own clock.
	Since time.Time
}

// living reports whether the runner's pod runs or may still run. A runner that failed and is kept for inspection has no
// pod.
func (r *Runner) living() bool { return !r.Done }

// Claim has the facts about one PersistentVolumeClaim of a set on which decisions depend.
type Claim struct {
	Name      string
	UID       types.UID
	Template  string
	Suffix    string // of the bundle that it belongs to
	CreatedAt time.Time
	// UsedAt is the time of the last recorded use; its creation counts as a use.
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
	// Committed is set if a snapshot may be made of it: whoever makes it deletes the claim.
	Committed bool
	// Outdated is set if it would be another one if it were created today: its template has changed.
	Outdated bool
	// Place is where its volume can be used. ClaimOf knows the node for which it was made; who has read the volume knows
	// better. SelectedNode is that node, empty if it isn't known.
	Place        places.Place
	SelectedNode string
}

// outdated reports whether the claim has no volume, and would be another one if it were created today.
func (c *Claim) outdated() bool { return c.Outdated && !c.Bound && !c.Lost }

// FailedUse is a runner whose pod could not use a claim, and when.
type FailedUse struct {
	Runner string
	At     time.Time
}

// ClaimOf returns what the pool has to know of a claim. It returns false if the claim is not of the set's pool: others
// may give claims the same labels, so its name must be one that the set gives, and nobody but the set may own it. One
// that nobody owns was retained by an earlier set of this name: it is adopted if its content is from the same GitHub
// address and runner group.
func ClaimOf(set *v1alpha1.AutoscalingRunnerSet, claim *corev1.PersistentVolumeClaim) (Claim, bool) {
	template, scope := claim.Labels[v1alpha1.LabelVolumeClaimTemplate], claim.Labels[v1alpha1.LabelVolumeClaimScope]
	owned := metav1.IsControlledBy(claim, set)
	if !Belongs(set, claim) || (!owned && scope != Scope(set)) { // retained, and filled by jobs of others
		return Claim{}, false
	}
	suffix, _ := suffixOf(set.Name, template, claim.Name)
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

		SelectedNode: claim.Annotations[annotationSelectedNode],
	}
	if found.Bound {
		found.Place = places.OfSelectedNode(found.SelectedNode)
	}
	if used, err := time.Parse(time.RFC3339, claim.Annotations[v1alpha1.AnnotationVolumeClaimUsedAt]); err == nil {
		found.UsedAt = kube.LaterOf(found.UsedAt, used)
	}
	_, found.Committed = claim.Annotations[v1alpha1.AnnotationVolumeClaimCommit]
	if source := claim.Spec.DataSource; source != nil && source.Kind == "PersistentVolumeClaim" {
		found.Source = source.Name
	}
	found.Outdated = differs(&set.Spec, template, &claim.Spec)
	return found, true
}

// Belongs reports whether a claim has a name and labels that the set gives, and nobody but the set owns it, whatever
// its content.
func Belongs(set *v1alpha1.AutoscalingRunnerSet, claim *corev1.PersistentVolumeClaim) bool {
	_, named := suffixOf(set.Name, claim.Labels[v1alpha1.LabelVolumeClaimTemplate], claim.Name)
	of := types.NamespacedName{Namespace: set.Namespace, Name: set.Name}
	owned := metav1.GetControllerOfNoCopy(claim) == nil || metav1.IsControlledBy(claim, set)
	return named && owned && claim.Namespace == set.Namespace && kube.LabelledSet(claim) == of
}

// differs reports whether a claim is not what its template makes today. Nothing counts that the API server fills in.
func differs(set *v1alpha1.AutoscalingRunnerSetSpec, template string, claim *corev1.PersistentVolumeClaimSpec) bool {
	at := slices.IndexFunc(set.VolumeClaimTemplates,
		func(t v1alpha1.VolumeClaimTemplate) bool { return t.Metadata.Name == template })
	if at < 0 {
		return false // whatever becomes of claims without a template
	}
	today := &set.VolumeClaimTemplates[at].Spec
	class := today.StorageClassName
	size, now := claim.Resources.Requests[corev1.ResourceStorage], today.Resources.Requests[corev1.ResourceStorage]
	switch {
	case class != nil && *class != ptr.Deref(claim.StorageClassName, ""), size.Cmp(now) != 0,
		!slices.Equal(claim.AccessModes, today.AccessModes):
		return true
	case today.DataSourceRef != nil, set.EffectiveVolumeClaimPool().SeedFrom.Newest, set.OfSnapshots():
		return false // the API server or the plan says what is copied
	}
	return !equality.Semantic.DeepEqual(cmp.Or(fixedSource(set), today.DataSource), claim.DataSource)
}

// fixedSource returns the source that every new claim is a copy of according to seedFrom, nil if it names none.
func fixedSource(set *v1alpha1.AutoscalingRunnerSetSpec) *corev1.TypedLocalObjectReference {
	switch from := set.EffectiveVolumeClaimPool().SeedFrom; {
	case from.PersistentVolumeClaim != "":
		return &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: from.PersistentVolumeClaim}
	case from.VolumeSnapshot != "":
		return ofSnapshot(from.VolumeSnapshot)
	}
	return nil
}

// ofSnapshot returns the source of a claim that is a copy of a VolumeSnapshot.
func ofSnapshot(name string) *corev1.TypedLocalObjectReference {
	return &corev1.TypedLocalObjectReference{APIGroup: new(snapshotGroup), Kind: "VolumeSnapshot", Name: name}
}

// NameOf returns the name that a set gives to the claim of a template in a bundle, and to a snapshot of it.
func NameOf(set *v1alpha1.AutoscalingRunnerSet, template, suffix string) string {
	return claimName(set.Name, template, suffix)
}

// SuffixOf returns the suffix of a claim's name, or a snapshot's, and false if it is none that the set gives.
func SuffixOf(set *v1alpha1.AutoscalingRunnerSet, template, name string) (string, bool) {
	return suffixOf(set.Name, template, name)
}

// claimName returns the name of a bundle's claim. It has at most 63 + 1 + 63 + 6 of the 253 characters that it may
// have.
func claimName(set, template, suffix string) string { return set + "-" + template + "-" + suffix }

// suffixOf returns the suffix of a claim's name, and false if it is none that the set gives to claims of the template.
func suffixOf(set, template, name string) (string, bool) {
	suffix, found := strings.CutPrefix(name, claimName(set, template, ""))
	return suffix, found && template != "" && len(suffix) == suffixLength &&
		strings.Trim(suffix, suffixCharacters) == ""
}

// RandomSuffix returns a suffix for a bundle's claims.
func RandomSuffix() string { return rand.String(suffixLength) }

// Scope returns the hash by which a claim shows whose jobs have written to it: those of one GitHub address and one
// runner group, at which the set is registered. What its spec asks for may not be so, or not yet: there may be no such
// group. Only the spec of a set that has never been registered counts, because it has had no job. Spellings that GitHub
// takes for the same make one hash.
func Scope(set *v1alpha1.AutoscalingRunnerSet) string {
	if now := kube.Registration(set); now != nil {
		return scopeOf(now.URL, now.Group)
	}
	return SpecScope(set)
}

// SpecScope returns the scope that the set will have when GitHub has done what its spec asks for.
func SpecScope(set *v1alpha1.AutoscalingRunnerSet) string {
	return scopeOf(set.Spec.GitHubConfigUrl, set.Spec.RunnerGroup)
}

// scopeAt returns the scope of a claim that a runner creates now: the runner's own address, and the group in which the
// set is.
func scopeAt(set *v1alpha1.AutoscalingRunnerSet, runner *v1alpha1.EphemeralRunner) string {
	group := set.Spec.RunnerGroup
	if now := kube.Registration(set); now != nil {
		group = now.Group
	}
	return scopeOf(runner.Spec.GitHubConfigUrl, group)
}

func scopeOf(address, group string) string {
	address = strings.ToLower(strings.Trim(strings.TrimSpace(address), "/"))
	group = cmp.Or(strings.ToLower(strings.TrimSpace(group)), "default")
	hash := sha256.Sum256(fmt.Appendf(nil, "%d:%s %s", len(address), address, group))
	return hex.EncodeToString(hash[:16])
}

// parseFailures reads RUNNER@TIME, separated by spaces. What is none of it is left out: others may write the
// annotation.
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
