// Package leases knows who uses the claims of scale sets, as the watches of runners and pods show it, and keeps what is
// remembered of each scale set's claims between passes. What to do about claims is decided in internal/volumeclaims.
package leases

import (
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
)

// A runner that no watch has shown holds its claims for heldUnseenTimeout: it may be gone already.
const heldUnseenTimeout = time.Minute

// Leases knows who uses the claims of scale sets. The watches' handlers keep it up to date, at a cost that doesn't
// depend on the number of runners or claims. Runners and pods without claims are not kept.
type Leases struct {
	clock clock.PassiveClock

	mu sync.Mutex
	// runners are those that name claims, byScaleSet their names by the scale set that their labels name, and byClaim
	// by claim.
	runners             map[types.NamespacedName]*runner
	byScaleSet, byClaim index
	// pods are those that mount claims and have not ended, and mounts their names by claim.
	pods   map[types.NamespacedName]*pod
	mounts index
	// strangers have the names of the claims that pods of nobody's set mount, and strange the names of those by claim.
	strangers map[types.NamespacedName][]string
	strange   index
	// holders have the claims that Hold has granted.
	holders map[types.NamespacedName]holder
	sets    map[types.NamespacedName]*Set
}

// index has the names of objects by the object that they have to do with.
type index map[types.NamespacedName]sets.Set[types.NamespacedName]

func (i index) insert(about, name types.NamespacedName) {
	if i[about] == nil {
		i[about] = sets.New[types.NamespacedName]()
	}
	i[about].Insert(name)
}

func (i index) delete(about, name types.NamespacedName) {
	if i[about].Delete(name); i[about].Len() == 0 {
		delete(i, about)
	}
}

// runner is a runner that names claims.
type runner struct {
	volumeclaims.Runner
	uid      types.UID
	scaleSet types.NamespacedName
}

// holder is the runner that may mount a claim.
type holder struct {
	uid   types.UID
	since time.Time
}

// New returns Leases that know of no claim.
func New(clk clock.PassiveClock) *Leases {
	return &Leases{
		clock: clk, runners: map[types.NamespacedName]*runner{}, byScaleSet: index{}, byClaim: index{},
		pods: map[types.NamespacedName]*pod{}, mounts: index{}, holders: map[types.NamespacedName]holder{},
		strangers: map[types.NamespacedName][]string{}, strange: index{},
		sets: map[types.NamespacedName]*Set{},
	}
}

// Put remembers a runner as it is now.
func (l *Leases) Put(object *v1alpha1.EphemeralRunner) {
	key := client.ObjectKeyFromObject(object)
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.runners[key]
	if before == nil && len(object.Spec.VolumeClaims) == 0 {
		return
	}
	l.removeLocked(key)
	if len(object.Spec.VolumeClaims) == 0 || len(kube.Keepers(object)) > 0 {
		return // its own controller has finalized it; only finalizers of others keep it
	}
	now := &runner{uid: object.UID, scaleSet: kube.ScaleSetOf(object), Runner: view(object)}
	if before != nil && before.uid == now.uid {
		now.Started, now.EndedAt = now.Started || before.Started, before.EndedAt
		now.UsedPercent = before.UsedPercent
		if before.Failure.Kind == now.Failure.Kind {
			now.Failure.Since = before.Failure.Since
		}
	}
	if now.Failure.Kind != "" {
		kube.SetIfZero(&now.Failure.Since, l.clock.Now())
	}
	if now.Done {
		kube.SetIfZero(&now.EndedAt, l.clock.Now())
	}
	l.runners[key] = now
	l.byScaleSet.insert(now.scaleSet, key)
	for _, name := range now.Claims {
		l.byClaim.insert(claimOf(key, name), key)
	}
	if now.Done {
		l.releaseLocked(key, now)
	}
}

// releaseLocked ends what Hold has granted to a runner. The caller holds the lock.
func (l *Leases) releaseLocked(key types.NamespacedName, of *runner) {
	for _, name := range of.Claims {
		if claim := claimOf(key, name); l.holders[claim].uid == of.uid {
			delete(l.holders, claim)
		}
	}
}

// view returns a runner as its own status shows it. One that has ended counts as started unless the status says that it
// never was.
func view(object *v1alpha1.EphemeralRunner) volumeclaims.Runner {
	status := &object.Status
	found := volumeclaims.Runner{
		Name: object.Name, CreatedAt: object.CreationTimestamp.Time,
		Claims: maps.Clone(object.Spec.VolumeClaims), Seed: object.Annotations[v1alpha1.AnnotationVolumeClaimSeed],
		Done: status.Done(), Deleting: object.DeletionTimestamp != nil,
		Up:  status.Phase == v1alpha1.EphemeralRunnerPhaseRunning,
		Job: volumeclaims.Job{Event: status.Event, Result: status.JobResult},

		Patience: v1alpha1.DefaultPendingTimeout,
	}
	if timeout := object.Spec.PendingTimeout; timeout != nil {
		found.Patience = timeout.Duration
	}
	found.Started = found.Up || status.HadJob() || (found.Done && !volumeclaims.NeverStarted(status))
	switch {
	case found.Up || found.Done:
	case status.Reason == v1alpha1.ReasonVolumeClaimRefused:
		found.Failure.Kind = volumeclaims.Refused
	case status.Reason == v1alpha1.ReasonVolumeClaimUnusable:
		found.Failure.Kind = volumeclaims.Unusable
	}
	return found
}

// Remove forgets a runner that is gone. What it held is free.
func (l *Leases) Remove(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if gone := l.runners[key]; gone != nil {
		l.releaseLocked(key, gone)
		l.removeLocked(key)
	}
}

func (l *Leases) removeLocked(key types.NamespacedName) {
	gone := l.runners[key]
	if gone == nil {
		return
	}
	delete(l.runners, key)
	l.byScaleSet.delete(gone.scaleSet, key)
	for _, name := range gone.Claims {
		l.byClaim.delete(claimOf(key, name), key)
	}
}

// claimOf returns the key of a claim that an object in the same namespace names.
func claimOf(by types.NamespacedName, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: by.Namespace, Name: name}
}

// Hold reports whether a runner may mount the claims that it names: no other one holds or mounts any of them. From then
// on it holds them, until it has ended or is gone. This is the last word before a pod is created, and asks nobody: what
// was planned with an old view of things, or made by hand, ends here.
func (l *Leases) Hold(object *v1alpha1.EphemeralRunner) bool {
	key := client.ObjectKeyFromObject(object)
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	for _, name := range object.Spec.VolumeClaims {
		if name != "" && l.heldByAnother(claimOf(key, name), object.UID, now) {
			return false
		}
	}
	for _, name := range object.Spec.VolumeClaims {
		if name != "" {
			l.holders[claimOf(key, name)] = holder{object.UID, now}
		}
	}
	return true
}

func (l *Leases) heldByAnother(claim types.NamespacedName, uid types.UID, now time.Time) bool {
	for name := range l.mounts[claim] {
		if l.pods[name].owner != uid {
			return true
		}
	}
	if l.strange[claim].Len() > 0 {
		return true
	}
	other, held := l.holders[claim]
	if !held || other.uid == uid {
		return false
	}
	for name := range l.byClaim[claim] {
		if l.runners[name].uid == other.uid {
			return true
		}
	}
	return now.Before(other.since.Add(heldUnseenTimeout))
}

// World has what is seen of a set's claims and of their users. Claims that others have made with its labels don't
// count.
func (l *Leases) World(set *v1alpha1.AutoscalingRunnerSet, claims []corev1.PersistentVolumeClaim) volumeclaims.World {
	world := volumeclaims.World{
		Set:     set,
		Now:     l.clock.Now(),
		Suffix:  volumeclaims.RandomSuffix,
		Mounted: sets.New[string](),
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	names := l.byScaleSet[client.ObjectKeyFromObject(set)].Clone()
	for i := range claims {
		claim, ours := volumeclaims.ClaimOf(set, &claims[i])
		if !ours {
			continue
		}
		world.Claims = append(world.Claims, claim)
		key := client.ObjectKeyFromObject(&claims[i])
		if l.mounts[key].Len()+l.strange[key].Len() > 0 {
			world.Mounted.Insert(claim.Name)
		}
		for name := range l.byClaim[key] {
			names.Insert(name)
		}
	}
	for name := range names {
		world.Runners = append(world.Runners, l.viewLocked(name))
	}
	return world
}

// viewLocked returns a runner with what is known of its pod. The caller holds the lock.
func (l *Leases) viewLocked(name types.NamespacedName) volumeclaims.Runner {
	known := l.runners[name]
	found := known.Runner
	its := l.pods[name]
	if its == nil || its.owner != known.uid {
		return found
	}
	found.PlacedAt, found.Up, found.Failure = its.placedAt, found.Up || its.up, volumeclaims.Failure{}
	found.Node, found.Announced, found.Denied = its.node, its.announced, its.denied
	switch {
	case found.Up:
	case !its.unplacedAt.IsZero() && !its.unprovisionedAt.IsZero():
		found.Failure = volumeclaims.Failure{Kind: volumeclaims.Unprovisioned, Since: its.unprovisionedAt}
	case !its.unplacedAt.IsZero():
		found.Failure = volumeclaims.Failure{Kind: volumeclaims.Unplaced, Since: its.unplacedAt}
	case !its.unmountedAt.IsZero():
		found.Failure = volumeclaims.Failure{Kind: volumeclaims.Unmounted, Since: its.unmountedAt}
	}
	return found
}
