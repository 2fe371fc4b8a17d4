package volumeclaims

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// World is what is seen of one scale set's claims and of who uses them.
type World struct {
	Set *v1alpha1.AutoscalingRunnerSet
	Now time.Time
	// Listed is set after the API server, and not only the cache, has said which runners and claims exist. Runners that it named
	// and the cache doesn't show are among Expected; claims were given to Memory.Inherit.
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
}

// Runner is what decisions need to know of one runner.
type Runner struct {
	Name      string
	CreatedAt time.Time
	// Claims is the runner's spec.volumeClaims.
	Claims map[string]string
	// Seed is the suffix of the bundle that the runner's new claims are copies of, empty if they are empty.
	Seed string
	// Done is set if the runner will not run again: its phase is final.
	Done bool
	// Deleting is set if the runner's deletion was asked for; its pod may still run.
	Deleting bool
	// PlacedAt is when its present pod was first seen to have a node, by our own clock; zero if it has none.
	PlacedAt time.Time
	// Up is set if the container of its present pod has started. Started is set if that of any of its pods has.
	Up, Started bool
	Job         Job
	Failure     Failure
}

// Job is what is known of a runner's job.
type Job struct {
	// Never is set if it is proved that there was none: GitHub has removed the registration of an idle runner.
	Never bool
	// Event and Result are GitHub's, empty if they aren't known.
	Event, Result string
}

// FailureKind says why a runner does not start with its claims.
type FailureKind string

// Kinds of failures. The empty kind is none.
const (
	// Refused: the API server refused to create a claim.
	Refused FailureKind = "Refused"
	// Unplaced: the pod has no node.
	Unplaced FailureKind = "Unplaced"
	// Unmounted: the pod's node reports that it can't attach or mount a volume.
	Unmounted FailureKind = "Unmounted"
)

// Failure is what keeps a runner from starting with its claims.
type Failure struct {
	Kind FailureKind
	// Since is when it was first seen, by our own clock.
	Since time.Time
}

// living reports whether the runner's pod runs or may still run. A runner that failed and is kept for inspection has no pod.
func (r *Runner) living() bool { return !r.Done }

// Decision is what to do about a set's claims. Records and Deletions are carried out before Replacements, so that a restart in
// between neither forgets a failure nor frees a claim that must go.
type Decision struct {
	// Leases has one entry for each new runner that may be created now.
	Leases []Lease
	// Waiting is how many of the wanted runners must wait, and Wait says for what.
	Waiting int
	Wait    Wait
	// Replacements are runners that can't start with their claims. The container of none of their pods has started.
	Replacements []Replacement
	// Deletions are claims to delete, on condition of their UID.
	Deletions []Deletion
	// Records are changes of claims' metadata.
	Records []Record
	// Counts has an entry for each template and for each former one that still has claims.
	Counts map[string]Counts
	// RequeueAt is when to decide again even if nothing changes, zero is never.
	RequeueAt time.Time

	// avoid are bundles that replaced runners give up without a failure of theirs: they are leased last for a while.
	avoid []string
}

// Lease is what one new runner gets.
type Lease struct {
	// Claims is the runner's spec.volumeClaims. The names are empty if it gets an emptyDir.
	Claims map[string]string
	// Seed is the value of the runner's annotation v1alpha1.AnnotationVolumeClaimSeed, empty for none.
	Seed string
}

// Wait says, in one word, what runners wait for.
type Wait string

// Values of Wait.
const (
	// WaitForNothing: all wanted runners have a lease.
	WaitForNothing Wait = ""
	// WaitForList: the API server has not said yet which runners and claims exist, or the cache doesn't show one that does.
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
	// Runner is whose job or failure is the cause, empty if it is nobody's.
	Runner string
}

// Why says why a claim goes.
type Why string

// Causes of deletions.
const (
	// Discarded: pods of two runners in a row could not use it. The set gets an Event, VolumeClaimDiscarded.
	Discarded Why = "Discarded"
	// VolumeLost: its volume is gone.
	VolumeLost Why = "VolumeLost"
	// NotKept: keepAfter doesn't name the event or the result of its last job.
	NotKept Why = "NotKept"
	// OtherScope: its content is from another GitHub address or runner group.
	OtherScope Why = "OtherScope"
	// TemplateGone: no template of the set has its name any more.
	TemplateGone Why = "TemplateGone"
	// TooMany: there are more claims than max.
	TooMany Why = "TooMany"
	// TooOld: it is older than maxAge.
	TooOld Why = "TooOld"
	// Unused: it was free for idleTTL.
	Unused Why = "Unused"
	// NeverBound: it is a copy that nobody has used, and what it copies waits for it.
	NeverBound Why = "NeverBound"
)

// housekeeping reports whether nobody waits for the deletion.
func (w Why) housekeeping() bool { return w != Discarded && w != NotKept && w != VolumeLost }

// Record is a change of a claim's metadata.
type Record struct {
	Claim string
	UID   types.UID
	// Key is the annotation to set to Value, or to remove if that is empty. OwnersKey stands for the claim's owners instead, which
	// become those that Owners returns.
	Key   string
	Value string
}

// OwnersKey is the key of a record that changes the owners of a claim: the set's retention policy has changed, or the claim was
// adopted.
const OwnersKey = "metadata.ownerReferences"

// housekeeping reports whether nobody waits for the record.
func (r Record) housekeeping() bool { return r.Key != v1alpha1.AnnotationVolumeClaimFailures }

func (r Record) withoutValue() Record {
	r.Value = ""
	return r
}

// Counts counts the claims of one template.
type Counts struct{ Total, Leased, Free, Cloning, Deleting int }
