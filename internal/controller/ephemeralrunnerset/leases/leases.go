// Package leases knows who uses the claims of scale sets, as the watches of runners and pods show it, and keeps what is remembered of each
// scale set's claims between passes. What to do about claims is decided in internal/volumeclaims.
package leases

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/podstatus"
	"github.com/harrier-ci/harrier/internal/reconcile"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
)

// heldUnseen is how long a runner holds claims that no watch has shown: it may be gone already.
const heldUnseen = time.Minute

// Leases knows who uses the claims of scale sets. The watches' handlers keep it up to date, at a cost that doesn't depend on the number of
// runners or claims. Runners and pods without claims are not kept.
type Leases struct {
	clock clock.PassiveClock

	mu sync.Mutex
	// runners are those that name claims, byScaleSet their names by the scale set that their labels name, and byClaim by claim.
	runners             map[types.NamespacedName]*runner
	byScaleSet, byClaim index
	// pods are those that mount claims and have not ended, and mounts their names by claim.
	pods   map[types.NamespacedName]*pod
	mounts index
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

// pod is a pod that mounts claims and has not ended. Times are by our own clock.
type pod struct {
	uid, owner types.UID
	claims     []string
	placedAt   time.Time // when it was first seen to have a node
	unplacedAt time.Time // when the scheduler was first seen to find none for it
	up         bool
	// unmountedAt is when its node was first known to be unable to attach or mount a volume.
	unmountedAt time.Time
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
		pods: map[types.NamespacedName]*pod{}, mounts: index{}, holders: map[types.NamespacedName]holder{}, sets: map[types.NamespacedName]*Set{},
	}
}

// Put notes a runner as it is now.
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
		now.Started = now.Started || before.Started
		if before.Failure.Kind == now.Failure.Kind {
			now.Failure.Since = before.Failure.Since
		}
	}
	if now.Failure.Kind != "" {
		kube.SetIfZero(&now.Failure.Since, l.clock.Now())
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

// view returns what a runner itself says. Of one that has ended nobody may have seen whether it had started: then it counts as started.
func view(object *v1alpha1.EphemeralRunner) volumeclaims.Runner {
	status := &object.Status
	found := volumeclaims.Runner{
		Name: object.Name, CreatedAt: object.CreationTimestamp.Time,
		Claims: maps.Clone(object.Spec.VolumeClaims), Seed: object.Annotations[v1alpha1.AnnotationVolumeClaimSeed],
		Done: status.Done(), Deleting: object.DeletionTimestamp != nil,
		Up:  status.Phase == v1alpha1.EphemeralRunnerPhaseRunning,
		Job: volumeclaims.Job{Event: status.Event, Result: status.JobResult},
	}
	found.Started = found.Up || found.Done || status.HadJob()
	if status.Reason == v1alpha1.ReasonVolumeClaimRefused && !found.Up && !found.Done {
		found.Failure.Kind = volumeclaims.Refused
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

// PodEvents returns the handler for the watch of pods. changed is called with the runner of each pod that has become of interest for
// another one's claims. It is exported for tests that simulate the watch.
func (l *Leases) PodEvents(changed func(q reconcile.Queue, runner types.NamespacedName)) handler.EventHandler {
	note := func(object client.Object, q reconcile.Queue, gone bool) {
		if pod, is := object.(*corev1.Pod); is && l.notePod(pod, gone) {
			changed(q, client.ObjectKeyFromObject(pod))
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q reconcile.Queue) { note(e.Object, q, false) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q reconcile.Queue) { note(e.ObjectNew, q, false) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q reconcile.Queue) { note(e.Object, q, true) },
	}
}

// notePod notes a pod as it is now, and reports whether that changes what a plan knows.
func (l *Leases) notePod(object *corev1.Pod, gone bool) (news bool) {
	key, claims := client.ObjectKeyFromObject(object), volumeclaims.MountedBy(object)
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.pods[key]
	if before != nil && (gone || before.uid != object.UID || len(claims) == 0) {
		for _, name := range before.claims {
			l.mounts.delete(claimOf(key, name), key)
		}
		delete(l.pods, key)
		before, news = nil, true
	}
	if gone || len(claims) == 0 {
		return news
	}
	now := pod{uid: object.UID, claims: claims}
	if owner := metav1.GetControllerOfNoCopy(object); owner != nil {
		now.owner = owner.UID
	}
	if before != nil {
		now = *before
	}
	now.see(object, l.clock.Now())
	if before != nil && before.placedAt.Equal(now.placedAt) && before.unplacedAt.Equal(now.unplacedAt) && before.up == now.up {
		return false
	}
	l.pods[key] = &now
	for _, name := range claims {
		l.mounts.insert(claimOf(key, name), key)
	}
	if owner := l.runners[key]; owner != nil && owner.uid == now.owner {
		owner.Started = owner.Started || now.up
	}
	return true
}

// see adds what is seen of the pod for the first time.
func (p *pod) see(object *corev1.Pod, now time.Time) {
	p.up = p.up || podstatus.Runs(object, v1alpha1.RunnerContainerName)
	scheduled := kube.PodCondition(object, corev1.PodScheduled)
	switch {
	case object.Spec.NodeName != "":
		kube.SetIfZero(&p.placedAt, now)
		p.unplacedAt = time.Time{}
	case scheduled != nil && scheduled.Status == corev1.ConditionFalse:
		kube.SetIfZero(&p.unplacedAt, now)
	}
}

// Hold reports whether a runner may mount the claims that it names: no other one holds or mounts any of them. From then on it holds them,
// until it has ended or is gone. This is the last word before a pod is created, and asks nobody: what was planned with an old view of
// things, or made by hand, ends here.
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
	other, held := l.holders[claim]
	if !held || other.uid == uid {
		return false
	}
	for name := range l.byClaim[claim] {
		if l.runners[name].uid == other.uid {
			return true
		}
	}
	return now.Before(other.since.Add(heldUnseen))
}

// World returns what is seen of a set's claims and of who uses them. Of claims that others have made with its labels nothing counts.
func (l *Leases) World(set *v1alpha1.AutoscalingRunnerSet, claims []corev1.PersistentVolumeClaim) volumeclaims.World {
	world := volumeclaims.World{Set: set, Now: l.clock.Now(), Suffix: volumeclaims.RandomSuffix, Mounted: sets.New[string]()}
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
		if l.mounts[key].Len() > 0 {
			world.Mounted.Insert(claim.Name)
		}
		names = names.Union(l.byClaim[key])
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
	switch {
	case found.Up:
	case !its.unplacedAt.IsZero():
		found.Failure = volumeclaims.Failure{Kind: volumeclaims.Unplaced, Since: its.unplacedAt}
	case !its.unmountedAt.IsZero():
		found.Failure = volumeclaims.Failure{Kind: volumeclaims.Unmounted, Since: its.unmountedAt}
	}
	return found
}

// Slow returns the pods of a set's runners that have had a node for so long and have not started, by UID: perhaps it can't mount their
// claims. Due is when the next one will have.
func (l *Leases) Slow(scaleSet types.NamespacedName, after time.Duration) (slow sets.Set[types.UID], due time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	slow = sets.New[types.UID]()
	for name := range l.byScaleSet[scaleSet] {
		its := l.pods[name]
		if its == nil || its.up || its.placedAt.IsZero() {
			continue
		}
		if at := its.placedAt.Add(after); at.After(l.clock.Now()) {
			due = kube.EarlierOf(due, at)
		} else {
			slow.Insert(its.uid)
		}
	}
	return slow, due
}

// NoteUnmounted notes which pods of a set's runners have volumes that their nodes can't attach or mount.
func (l *Leases) NoteUnmounted(scaleSet types.NamespacedName, unmounted sets.Set[types.UID]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name := range l.byScaleSet[scaleSet] {
		if its := l.pods[name]; its != nil && unmounted.Has(its.uid) {
			kube.SetIfZero(&its.unmountedAt, l.clock.Now())
		}
	}
}

// Of returns what is remembered of a scale set's claims, for the exclusive use of one pass until its End. It returns nil while another
// pass has it: a scale set may have several runner sets.
func (l *Leases) Of(scaleSet types.NamespacedName) *Set {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.sets[scaleSet]
	if known == nil {
		known = &Set{Memory: volumeclaims.NewMemory(scaleSet.Name), Told: sets.New[string](), awaited: sets.New[string]()}
		l.sets[scaleSet] = known
	}
	if known.taken {
		return nil
	}
	known.taken = true
	known.End = func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		known.taken = false
	}
	return known
}

// Forget drops what is remembered of a scale set that is gone.
func (l *Leases) Forget(scaleSet types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.sets, scaleSet)
}

// Set is what is remembered of one scale set's claims between passes.
type Set struct {
	*volumeclaims.Memory
	// End ends the use by a pass.
	End   func()
	taken bool

	// ListAt is when the API server may be asked again which claims there are, and EventsAt the same for what nodes say about mounting them.
	ListAt, EventsAt time.Time
	// Told are the runners about which an Event has told that they give way.
	Told sets.Set[string]
	// listed is set once the API server has said which runners and claims there are; awaited are the runners that no watch had shown then.
	listed  bool
	awaited sets.Set[string]
}

// Listed reports whether the API server has said which runners and claims there are.
func (s *Set) Listed() bool { return s.listed }

// List notes what the API server has said: the set's claims, and the runners that no watch has shown yet.
func (s *Set) List(claims []volumeclaims.Claim, unseen []string, now time.Time) {
	s.Inherit(claims, now)
	s.listed, s.awaited = true, sets.New(unseen...)
}

// Awaited returns the runners that the API server had and no watch has shown since. shown says which it has.
func (s *Set) Awaited(shown func(runner string) bool) []string {
	for name := range s.awaited {
		if shown(name) {
			s.awaited.Delete(name)
		}
	}
	return slices.Sorted(maps.Keys(s.awaited))
}
