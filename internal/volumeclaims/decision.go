package volumeclaims

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/volumeclaims/places"
)

// Decision has what to do about a set's claims. Records and Deletions are carried out before Replacements, so that a
// restart in between neither forgets a failure nor frees a claim that must go.
type Decision struct {
	// Leases has one entry for each new runner that may be created now.
	Leases []Lease
	// Waiting counts the wanted runners that must wait, and Wait is what they wait for.
	Waiting int
	Wait    Wait
	// Replacements are runners that can't start with their claims, or that must not get a job with them. Those that
	// have a job keep it.
	Replacements []Replacement
	// Deletions are claims to delete, on condition of their UID.
	Deletions []Deletion
	// Records are changes of claims' metadata.
	Records []Record
	// Counts has an entry for each template and for each former one that still has claims.
	Counts map[string]Counts
	// At RequeueAt the pass decides again even if nothing changes; zero means never.
	RequeueAt time.Time

	// AwaitPlace are the runners whose pods wait for a node where there is none: they say nothing about the room that the
	// cluster has.
	AwaitPlace sets.Set[string]
	// PlaceLost names one of them that has waited for half of its pendingTimeout, empty if none has.
	PlaceLost string

	// Unprovisioned names a runner for whose claims a provisioner has been unable to make a volume for FailureTimeout, empty
	// if there is none.
	Unprovisioned string

	// follow is what Memory.Follow remembers besides.
	follow follow
}

// follow is what a decision has to be remembered for.
type follow struct {
	// blamed are the places that runners give up, and what is known of them. swaps counts those that do so because others
	// have got nodes, and tried is set if one does so in hope.
	blamed map[string]places.State
	swaps  int
	tried  bool
	// discarded is set if a bundle goes because a pod could not mount it.
	discarded bool
	// storageFailed is set if a runner gives up a claim that is refused or gets no volume; owed is the change of
	// Memory.owed.
	storageFailed bool
	owed          int
}

// Lease has the claims that one new runner gets.
type Lease struct {
	// Claims is the runner's spec.volumeClaims. The names are empty if it gets an emptyDir.
	Claims map[string]string
	// Seed is the value of the runner's annotation v1alpha1.AnnotationVolumeClaimSeed, empty for none.
	Seed string
	// Content is what its job finds in them.
	Content Content
}

// Content is what the job of a new runner finds in its claims.
type Content string

// Values of Content.
const (
	// Used: what earlier jobs have left.
	Used Content = "used"
	// Empty: nothing, the claims are new.
	Empty Content = "empty"
	// Copied: a copy, as seedFrom says.
	Copied Content = "copied"
	// Directory: nothing, there are empty directories in the place of claims.
	Directory Content = "directory"
)

// Contents has all values of Content.
var Contents = []string{string(Used), string(Empty), string(Copied), string(Directory)}

// Wait is one word for what runners wait for.
type Wait string

// Values of Wait.
const (
	// WaitForNothing: all wanted runners have a lease.
	WaitForNothing Wait = ""
	// WaitForList: the API server has not said yet which runners and claims exist, or the cache doesn't show one that
	// does.
	WaitForList Wait = "Unlisted"
	// WaitForFreeClaim: as many claims exist as there may be, and none is free.
	WaitForFreeClaim Wait = v1alpha1.ReasonVolumeClaimsExhausted
	// WaitForNewClaim: the API server refuses new claims, and none is free.
	WaitForNewClaim Wait = v1alpha1.ReasonVolumeClaimRefused
)

// Replacement is a runner that should make room for one with other claims.
type Replacement struct {
	Runner          string
	Reason, Message string
}

// Deletion is a claim that goes.
type Deletion struct {
	Name string
	UID  types.UID
	Why  Why
	// Message says so in a sentence that names the claim.
	Message string
	// Runner is the name of the runner whose job or failure is the cause, empty if there is none.
	Runner string
}

// Why is the cause for which a claim goes.
type Why string

// Causes of deletions.
const (
	// Discarded: pods of two runners in a row could not mount it, or it is of no use where it is and takes the place of
	// another. The set gets an Event, VolumeClaimDiscarded.
	Discarded Why = "Discarded"
	// OneRunner: its runner is gone, and in mode Snapshot it was for that one alone.
	OneRunner Why = "OneRunner"
	// VolumeLost: its volume is gone.
	VolumeLost Why = "VolumeLost"
	// NotKept: keepAfter doesn't name the event or the result of its last job, or a volume is fuller than maxUsedPercent.
	NotKept Why = "NotKept"
	// OtherScope: its content is from another GitHub address or runner group.
	OtherScope Why = "OtherScope"
	// TemplateGone: no template of the set has its name any more.
	TemplateGone Why = "TemplateGone"
	// TooMany: there are more claims than max.
	TooMany Why = "TooMany"
	// TooOld: it is older than maxAge.
	TooOld Why = "TooOld"
	// NodeGone: its volume is on a node that is no more.
	NodeGone Why = "NodeGone"
	// Unused: it was free for idleTTL.
	Unused Why = "Unused"
	// NeverBound: it is a copy that nobody has used, and what it copies waits for it.
	NeverBound Why = "NeverBound"
	// Outdated: it has no volume, and its template is another one now.
	Outdated Why = "Outdated"
)

// housekeeping reports whether nobody waits for the deletion.
func (w Why) housekeeping() bool {
	return w != Discarded && w != NotKept && w != VolumeLost && w != Outdated && w != OneRunner
}

// Record is a change of a claim's metadata.
type Record struct {
	Claim string
	UID   types.UID
	// Key is the annotation to set to Value, or to remove if that is empty. OwnersKey stands for the claim's owners
	// instead, which become those that Owners returns.
	Key   string
	Value string
}

// OwnersKey is the key of a record that changes the owners of a claim: the set's retention policy has changed, or the
// claim was adopted.
const OwnersKey = "metadata.ownerReferences"

// housekeeping reports whether nobody waits for the record. Whose a claim is must be written before its set may be
// deleted: the rights to do so go with the release.
func (r Record) housekeeping() bool { return r.Key == v1alpha1.AnnotationVolumeClaimUsedAt }

// WriteTo writes the record to a claim of the set.
func (r Record) WriteTo(claim *corev1.PersistentVolumeClaim, set *v1alpha1.AutoscalingRunnerSet) {
	switch {
	case r.Key == OwnersKey:
		SetOwners(claim, set)
	case r.Value == "":
		delete(claim.Annotations, r.Key)
	default:
		kube.SetAnnotation(claim, r.Key, r.Value)
	}
}

func (r Record) withoutValue() Record {
	r.Value = ""
	return r
}

// Counts counts the claims of one template. FullestPercent is how full the fullest of them was at the end of its last job,
// 0 if that isn't known.
type Counts struct{ Total, Leased, Free, Cloning, Deleting, FullestPercent int }

// requeueBy decides again at t at the latest; zero means never.
func (d *Decision) requeueBy(t time.Time) { d.RequeueAt = kube.EarlierOf(d.RequeueAt, t) }
