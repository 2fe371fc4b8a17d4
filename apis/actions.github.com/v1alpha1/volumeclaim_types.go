package v1alpha1

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DefaultPendingTimeout is the pendingTimeout of runners whose spec has none.
const DefaultPendingTimeout = 10 * time.Minute

// DefaultSidecarGracePeriod is the sidecarGracePeriod of runners whose spec has none. A Docker daemon gives its containers
// 15 s (its shutdown-timeout) and needs a moment for itself; manager and kubelet need a second or two each before and
// after it, so that a pod is gone 30 s after its runner.
const DefaultSidecarGracePeriod = 20 * time.Second

// DefaultVolumeClaimIdleTTL is the idleTTL of a pool that sets none: a free claim is deleted after a week, so that what
// Friday's jobs left is still there on Monday.
const DefaultVolumeClaimIdleTTL = 168 * time.Hour

// Defaults of a pool in mode Snapshot.
const (
	// DefaultSnapshotInterval is the snapshotInterval of a pool that sets none.
	DefaultSnapshotInterval = 10 * time.Minute
	// DefaultKeepSnapshots is the keepSnapshots of a pool that sets none.
	DefaultKeepSnapshots = 3
)

// RunnerVolumeClaims are the claims that outlive the set's runners and are passed on from one to the next. Not in ARC.
// +kubebuilder:validation:XValidation:rule="!has(self.volumeClaimPool) || !has(self.volumeClaimPool.seedFrom) || !has(self.volumeClaimTemplates) || !self.volumeClaimTemplates.exists(t, has(t.spec.dataSource) || has(t.spec.dataSourceRef)) || ![has(self.volumeClaimPool.seedFrom.persistentVolumeClaim) && self.volumeClaimPool.seedFrom.persistentVolumeClaim.size() > 0, has(self.volumeClaimPool.seedFrom.volumeSnapshot) && self.volumeClaimPool.seedFrom.volumeSnapshot.size() > 0, has(self.volumeClaimPool.seedFrom.newest) && self.volumeClaimPool.seedFrom.newest].exists(named, named)",fieldPath=".volumeClaimPool.seedFrom",message="must be left out while a template in volumeClaimTemplates has a dataSource"
// +kubebuilder:validation:XValidation:rule="!has(self.volumeClaimPool) || !has(self.volumeClaimPool.seedFrom) || !has(self.volumeClaimTemplates) || self.volumeClaimTemplates.size() < 2 || ![has(self.volumeClaimPool.seedFrom.persistentVolumeClaim) && self.volumeClaimPool.seedFrom.persistentVolumeClaim.size() > 0, has(self.volumeClaimPool.seedFrom.volumeSnapshot) && self.volumeClaimPool.seedFrom.volumeSnapshot.size() > 0].exists(named, named)",fieldPath=".volumeClaimPool.seedFrom",message="may name one volume only if volumeClaimTemplates has a single template: give each template its own dataSource, or use newest"
// +kubebuilder:validation:XValidation:rule="!has(self.volumeClaimPool) || !has(self.volumeClaimPool.mode) || self.volumeClaimPool.mode != 'Snapshot' || !has(self.volumeClaimTemplates) || !self.volumeClaimTemplates.exists(t, has(t.spec.dataSource) || has(t.spec.dataSourceRef))",fieldPath=".volumeClaimTemplates",message="must have no dataSource in mode Snapshot: each claim is a copy of the newest snapshot"
type RunnerVolumeClaims struct {
	// Claims that a runner pod gets, as in a StatefulSet: metadata.name is the name of the volume, and replaces a
	// volume of that name in the template. When a runner is gone, its claims are free for later runners of this set.
	// Not in ARC.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(t, self.exists_one(u, u.metadata.name == t.metadata.name))",message="each metadata.name may be used only once"
	VolumeClaimTemplates []VolumeClaimTemplate `json:"volumeClaimTemplates,omitempty"`
	// How many claims there may be, and which of them go.
	// +optional
	VolumeClaimPool *VolumeClaimPool `json:"volumeClaimPool,omitempty"`
	// What becomes of the claims when the set is deleted.
	// +optional
	PersistentVolumeClaimRetentionPolicy *VolumeClaimRetentionPolicy `json:"persistentVolumeClaimRetentionPolicy,omitempty"`
}

// VolumeClaimTemplate describes the claims that serve as one volume of the runner pods. It has the form of a
// PersistentVolumeClaim.
type VolumeClaimTemplate struct {
	// May be v1, as in a manifest of a claim. It has no effect.
	// +optional
	// +kubebuilder:validation:Enum=v1
	APIVersion string `json:"apiVersion,omitempty"`
	// May be PersistentVolumeClaim, as in a manifest of a claim. It has no effect.
	// +optional
	// +kubebuilder:validation:Enum=PersistentVolumeClaim
	Kind string `json:"kind,omitempty"`
	// Name of the volume; labels and annotations of the claims.
	Metadata VolumeClaimTemplateMeta `json:"metadata"`
	// Spec of new claims. Existing ones keep theirs.
	// +kubebuilder:validation:XValidation:rule="has(self.resources) && has(self.resources.requests) && 'storage' in self.resources.requests",fieldPath=".resources",message="requests.storage, the size, is required"
	// +kubebuilder:validation:XValidation:rule="has(self.accessModes) && self.accessModes.size() > 0",fieldPath=".accessModes",message="is required, such as [ReadWriteOnce]"
	// +kubebuilder:validation:XValidation:rule="!has(self.volumeName) || self.volumeName == ''",fieldPath=".volumeName",message="must be left out: each claim needs a volume of its own"
	Spec corev1.PersistentVolumeClaimSpec `json:"spec"`
}

// VolumeClaimTemplateMeta is the metadata of a claim template.
type VolumeClaimTemplateMeta struct {
	// Name of the volume that the claims serve as; containers mount it by this name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// Labels of new claims.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations of new claims.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// VolumeClaimPool says what a runner's claims are made from, limits their number, and chooses those that go.
// +kubebuilder:validation:XValidation:rule="!has(self.mode) || self.mode != 'Snapshot' || !has(self.max)",fieldPath=".max",message="must be left out in mode Snapshot: each runner has claims of its own"
// +kubebuilder:validation:XValidation:rule="!has(self.mode) || self.mode != 'Snapshot' || !has(self.idleTTL)",fieldPath=".idleTTL",message="must be left out in mode Snapshot: claims go with their runner"
// +kubebuilder:validation:XValidation:rule="!has(self.mode) || self.mode != 'Snapshot' || !has(self.maxAge)",fieldPath=".maxAge",message="must be left out in mode Snapshot: claims go with their runner"
// +kubebuilder:validation:XValidation:rule="!has(self.mode) || self.mode != 'Snapshot' || !has(self.keepAfter)",fieldPath=".keepAfter",message="must be left out in mode Snapshot: use commitAfter"
// +kubebuilder:validation:XValidation:rule="!has(self.mode) || self.mode != 'Snapshot' || !has(self.seedFrom)",fieldPath=".seedFrom",message="must be left out in mode Snapshot: each claim is a copy of the newest snapshot"
// +kubebuilder:validation:XValidation:rule="!has(self.mode) || self.mode != 'Snapshot' || !has(self.maxUsedPercent)",fieldPath=".maxUsedPercent",message="must be left out in mode Snapshot: claims go with their runner"
// +kubebuilder:validation:XValidation:rule="!has(self.commitAfter) || (has(self.mode) && self.mode == 'Snapshot')",fieldPath=".commitAfter",message="needs mode Snapshot; in mode Claims use keepAfter"
// +kubebuilder:validation:XValidation:rule="!has(self.snapshotInterval) || (has(self.mode) && self.mode == 'Snapshot')",fieldPath=".snapshotInterval",message="needs mode Snapshot"
// +kubebuilder:validation:XValidation:rule="!has(self.keepSnapshots) || (has(self.mode) && self.mode == 'Snapshot')",fieldPath=".keepSnapshots",message="needs mode Snapshot"
// +kubebuilder:validation:XValidation:rule="!has(self.snapshotClassName) || (has(self.mode) && self.mode == 'Snapshot')",fieldPath=".snapshotClassName",message="needs mode Snapshot"
type VolumeClaimPool struct {
	// What a runner's claims are. Claims: those that an earlier runner has left, passed on from one to the next.
	// Snapshot: copies of the newest VolumeSnapshot, which is made after jobs that are trusted; they go with their runner.
	// Default Claims.
	// +optional
	// +kubebuilder:validation:Enum=Claims;Snapshot
	Mode ClaimMode `json:"mode,omitempty"`
	// How many claims of each template there may be. Absent means as many as there are runners.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	Max *int `json:"max,omitempty"`
	// What a runner does if there are max claims and none is free: Wait for one, or start immediately with an emptyDir
	// instead (Ephemeral), and after a minute if its claim is refused, gets no volume or can't be mounted. Default Wait.
	// +optional
	// +kubebuilder:validation:Enum=Wait;Ephemeral
	WhenExhausted ClaimExhaustion `json:"whenExhausted,omitempty"`
	// How long a claim may be free before it is deleted; 0s means for ever. Default 168h.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('87600h')",message="must be at most 87600h, ten years"
	IdleTTL *metav1.Duration `json:"idleTTL,omitempty"`
	// A claim that is older gets no further runner, and is deleted as soon as it is free; 0s means never. Default 0s.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('87600h')",message="must be at most 87600h, ten years"
	MaxAge *metav1.Duration `json:"maxAge,omitempty"`
	// A claim whose volume was fuller at the end of a job, in percent, is deleted with it, and a new one takes its place.
	// It takes feedback.jobLog, whose hook tells that of the volumes which the runner's container mounts. Absent means that
	// none is.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=99
	MaxUsedPercent *int `json:"maxUsedPercent,omitempty"`
	// After which jobs claims are kept. Absent means after all jobs.
	// +optional
	KeepAfter *KeepClaimsAfter `json:"keepAfter,omitempty"`
	// What new claims are copies of. Absent means that they are empty.
	// +optional
	SeedFrom *VolumeClaimSeed `json:"seedFrom,omitempty"`
	// In mode Snapshot: after which jobs a snapshot is made of the runner's claims. Others read what is there, and what
	// they write goes with their claims.
	// +optional
	CommitAfter *CommitClaimsAfter `json:"commitAfter,omitempty"`
	// In mode Snapshot: the shortest time between two snapshots. Default 10m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m')",message="must be at least 1m"
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('87600h')",message="must be at most 87600h, ten years"
	SnapshotInterval *metav1.Duration `json:"snapshotInterval,omitempty"`
	// In mode Snapshot: how many snapshots are kept, of each template. Default 3.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	KeepSnapshots *int `json:"keepSnapshots,omitempty"`
	// In mode Snapshot: the VolumeSnapshotClass of new snapshots. Absent means the default class of the claims' driver.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SnapshotClassName string `json:"snapshotClassName,omitempty"`
}

// ClaimMode is what a runner's claims are.
type ClaimMode string

// Values of ClaimMode.
const (
	PassedOnClaims ClaimMode = "Claims"
	SnapshotClaims ClaimMode = "Snapshot"
)

// CommitClaimsAfter says after which jobs a snapshot is made of a runner's claims. None is made after others, and if it
// isn't known what job it was, or how it ended.
type CommitClaimsAfter struct {
	// Events that start such jobs' workflow runs. Empty means push and schedule.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	Events []string `json:"events,omitempty"`
	// Results of such jobs, as GitHub reports them: succeeded, failed, canceled. Empty means succeeded.
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:Enum=succeeded;failed;canceled
	Results []string `json:"results,omitempty"`
}

// ClaimExhaustion is what a runner does if there is no claim for it.
type ClaimExhaustion string

// Values of ClaimExhaustion.
const (
	WaitForClaim    ClaimExhaustion = "Wait"
	EphemeralVolume ClaimExhaustion = "Ephemeral"
)

// KeepClaimsAfter says after which jobs a runner's claims are passed on. They are deleted after all others, and if it
// isn't known what job it was, or how it ended.
type KeepClaimsAfter struct {
	// Events that start such jobs' workflow runs, such as push or schedule. Empty means any event.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	Events []string `json:"events,omitempty"`
	// Results of such jobs, as GitHub reports them: succeeded, failed, canceled. Empty means any result.
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:Enum=succeeded;failed;canceled
	Results []string `json:"results,omitempty"`
}

// VolumeClaimSeed names what new claims are copies of.
// +kubebuilder:validation:XValidation:rule="[has(self.persistentVolumeClaim) && self.persistentVolumeClaim.size() > 0, has(self.volumeSnapshot) && self.volumeSnapshot.size() > 0, has(self.newest) && self.newest].filter(chosen, chosen).size() <= 1",message="has at most one of persistentVolumeClaim, volumeSnapshot and newest"
type VolumeClaimSeed struct {
	// Name of a claim in the set's namespace. It is never given to a runner.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PersistentVolumeClaim string `json:"persistentVolumeClaim,omitempty"`
	// Name of a VolumeSnapshot in the set's namespace.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	VolumeSnapshot string `json:"volumeSnapshot,omitempty"`
	// Whether to copy the free claim that was used last.
	// +optional
	Newest bool `json:"newest,omitempty"`
}

// VolumeClaimRetentionPolicy is what becomes of the claims of a set that is deleted.
type VolumeClaimRetentionPolicy struct {
	// Delete or Retain. A later set of the same name uses retained claims if it is for the same GitHub address and
	// runner group. In mode Snapshot it is the snapshots that are retained. Default Delete. A StatefulSet's default is
	// Retain.
	// +optional
	// +kubebuilder:validation:Enum=Delete;Retain
	WhenDeleted VolumeClaimRetention `json:"whenDeleted,omitempty"`
}

// VolumeClaimRetention is what becomes of a claim.
type VolumeClaimRetention string

// Values of VolumeClaimRetention.
const (
	DeleteVolumeClaims VolumeClaimRetention = "Delete"
	RetainVolumeClaims VolumeClaimRetention = "Retain"
)

// VolumeClaimCounts counts a set's claims, of all templates.
type VolumeClaimCounts struct {
	// Claims that exist.
	// +optional
	// +kubebuilder:default=0
	Total int `json:"total"`
	// Claims that runners or their pods have.
	// +optional
	// +kubebuilder:default=0
	Leased int `json:"leased"`
	// Claims that the next runner may get.
	// +optional
	// +kubebuilder:default=0
	Free int `json:"free"`
	// Runners whose pods wait for a node although there is none where their claims' volumes can be used.
	// +optional
	AwaitPlace int `json:"awaitPlace,omitempty"`
	// How full the fullest claim is, in percent, as the hook of feedback.jobLog has told at the end of its last job.
	// Absent means that it isn't known.
	// +optional
	FullestPercent int `json:"fullestPercent,omitempty"`
}

// VolumeSnapshotStatus describes the snapshot that new claims are copies of, in mode Snapshot.
type VolumeSnapshotStatus struct {
	// Names of the VolumeSnapshots, one for each template.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Names []string `json:"names,omitempty"`
	// When it was made.
	CreatedAt metav1.Time `json:"createdAt"`
	// The job after which it was made.
	// +optional
	Job SnapshotJob `json:"job"`
}

// SnapshotJob is the job after which a snapshot was made, as far as it is known.
type SnapshotJob struct {
	// Event that started its workflow run.
	// +optional
	Event string `json:"event,omitempty"`
	// Its result.
	// +optional
	Result string `json:"result,omitempty"`
	// Its repository, as OWNER/NAME.
	// +optional
	Repository string `json:"repository,omitempty"`
	// Id of its workflow run.
	// +optional
	WorkflowRunID int64 `json:"workflowRunId,omitempty"`
	// Its name, as GitHub shows it.
	// +optional
	Name string `json:"name,omitempty"`
	// Name of its runner.
	// +optional
	Runner string `json:"runner,omitempty"`
}

// OfSnapshots reports whether each runner's claims are copies of the newest snapshot.
func (c *RunnerVolumeClaims) OfSnapshots() bool {
	return c.VolumeClaimPool != nil && c.VolumeClaimPool.Mode == SnapshotClaims
}

// Retained reports whether the claims outlive the set. In mode Snapshot none does.
func (c *RunnerVolumeClaims) Retained() bool { return c.retains() && !c.OfSnapshots() }

// SnapshotsRetained reports whether the snapshots outlive the set.
func (c *RunnerVolumeClaims) SnapshotsRetained() bool { return c.retains() && c.OfSnapshots() }

func (c *RunnerVolumeClaims) retains() bool {
	policy := c.PersistentVolumeClaimRetentionPolicy
	return policy != nil && policy.WhenDeleted == RetainVolumeClaims
}

// EffectiveVolumeClaimPool is volumeClaimPool with its defaults. Max stays nil if it is unset; idleTTL, maxAge,
// keepAfter and seedFrom are never nil. In mode Snapshot keepAfter is what commitAfter says, because both ask the same
// question about a job, and snapshotInterval and keepSnapshots are not nil; what that mode refuses counts as unset.
func (c *RunnerVolumeClaims) EffectiveVolumeClaimPool() VolumeClaimPool {
	var pool VolumeClaimPool
	if c.VolumeClaimPool != nil {
		pool = *c.VolumeClaimPool
	}
	if pool.WhenExhausted == "" {
		pool.WhenExhausted = WaitForClaim
	}
	if c.OfSnapshots() {
		return pool.ofSnapshots()
	}
	if pool.IdleTTL == nil {
		pool.IdleTTL = &metav1.Duration{Duration: DefaultVolumeClaimIdleTTL}
	}
	if pool.MaxAge == nil {
		pool.MaxAge = &metav1.Duration{}
	}
	if pool.KeepAfter == nil {
		pool.KeepAfter = &KeepClaimsAfter{}
	}
	if pool.SeedFrom == nil {
		pool.SeedFrom = &VolumeClaimSeed{}
	}
	return pool
}

// ofSnapshots returns the pool with the defaults of mode Snapshot.
func (p VolumeClaimPool) ofSnapshots() VolumeClaimPool {
	p.Max, p.IdleTTL, p.MaxAge, p.SeedFrom = nil, &metav1.Duration{}, &metav1.Duration{}, &VolumeClaimSeed{}
	p.MaxUsedPercent = nil
	p.KeepAfter = &KeepClaimsAfter{Events: []string{"push", "schedule"}, Results: []string{"succeeded"}}
	if trusted := p.CommitAfter; trusted != nil && len(trusted.Events) > 0 {
		p.KeepAfter.Events = trusted.Events
	}
	if trusted := p.CommitAfter; trusted != nil && len(trusted.Results) > 0 {
		p.KeepAfter.Results = trusted.Results
	}
	if p.SnapshotInterval == nil {
		p.SnapshotInterval = &metav1.Duration{Duration: DefaultSnapshotInterval}
	}
	if p.KeepSnapshots == nil {
		keep := DefaultKeepSnapshots
		p.KeepSnapshots = &keep
	}
	return p
}
