// Package bystanders watches the pods that are no scale set's, in the namespaces whose sets have claims: somebody may
// look into a claim with a pod of his own. The watch of runners' pods selects them by their labels, and shows none of
// these.
//
// A watch of all pods of a cluster would cost a large one more than everything else that the manager does. So there is
// one for each namespace with such a set, of pods that have not ended, and of each its name and its claims are kept.
package bystanders

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
)

// If a watch hasn't shown the pods after shownTimeout, as without the right to it, claims are leased without it.
const shownTimeout = 15 * time.Second

// Source returns what lists and watches the pods of a namespace that the options select.
type Source func(namespace string, options func(*metav1.ListOptions)) cache.ListerWatcher

// Options are what pods are watched with.
type Options struct {
	// Source is nil if there is none: then nothing is known of such pods.
	Source Source
	// Tell is told about each pod, and that it has ended or is gone.
	Tell func(pod *corev1.Pod, gone bool)
	// Wake has a runner set planned anew.
	Wake func(set types.NamespacedName)
}

// Bystanders are the watches of all namespaces.
type Bystanders struct {
	options Options

	mu         sync.Mutex
	namespaces map[string]*namespace
	sets       map[types.UID]types.NamespacedName
}

// namespace is one that is watched.
type namespace struct {
	since time.Time
	stop  context.CancelFunc
	shown bool
	sets  sets.Set[types.UID]
}

// New returns Bystanders that watch nothing.
func New(options Options) *Bystanders {
	return &Bystanders{options: options, namespaces: map[string]*namespace{},
		sets: map[types.UID]types.NamespacedName{}}
}

// Shown reports whether the pods beside a runner set have been told. From then on those of its namespace are watched,
// until Forget. It returns true if they can't be had.
func (b *Bystanders) Shown(set *v1alpha1.EphemeralRunnerSet, now time.Time) bool {
	if b.options.Source == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	watched := b.namespaces[set.Namespace]
	if watched == nil {
		watched = &namespace{since: now, sets: sets.New[types.UID]()}
		b.namespaces[set.Namespace] = watched
		b.beginLocked(set.Namespace, watched)
	}
	watched.sets.Insert(set.UID)
	b.sets[set.UID] = types.NamespacedName{Namespace: set.Namespace, Name: set.Name}
	return watched.shown || !now.Before(watched.since.Add(shownTimeout))
}

// Forget ends the watch of a runner set's namespace if no other set needs it.
func (b *Bystanders) Forget(set types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key, known := b.sets[set]
	if !known {
		return
	}
	delete(b.sets, set)
	watched := b.namespaces[key.Namespace]
	if watched.sets.Delete(set); watched.sets.Len() == 0 {
		watched.stop()
		delete(b.namespaces, key.Namespace)
	}
}

// selection selects the pods that are no scale set's and have not ended.
func selection(options *metav1.ListOptions) {
	options.LabelSelector = "!" + v1alpha1.LabelScaleSetName
	options.FieldSelector = "status.phase!=" + string(corev1.PodSucceeded) + ",status.phase!=" + string(corev1.PodFailed)
}

// beginLocked watches the pods of a namespace. The caller holds the lock.
func (b *Bystanders) beginLocked(name string, watched *namespace) {
	ctx, stop := context.WithCancel(context.Background())
	watched.stop = stop
	tell := func(gone bool) func(any) {
		return func(object any) {
			if pod, ok := object.(*corev1.Pod); ok {
				b.options.Tell(pod, gone)
			}
		}
	}
	changed, gone := tell(false), tell(true)
	pods, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: b.options.Source(name, selection), ObjectType: &corev1.Pod{}, Transform: strip,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: changed, UpdateFunc: func(_, now any) { changed(now) },
			DeleteFunc: func(object any) {
				if last, missed := object.(cache.DeletedFinalStateUnknown); missed {
					object = last.Obj
				}
				gone(object)
			},
		},
	})
	go func() {
		informer.RunWithContext(ctx)
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.namespaces[name] != nil {
			return // a later watch tells of them
		}
		for _, pod := range pods.List() {
			gone(pod)
		}
	}()
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			b.wake(watched)
		}
	}()
}

// wake says that all pods of a namespace have been told, and has the sets planned that waited for it.
func (b *Bystanders) wake(watched *namespace) {
	b.mu.Lock()
	watched.shown = true
	var waiting []types.NamespacedName
	for set := range watched.sets {
		waiting = append(waiting, b.sets[set])
	}
	b.mu.Unlock()
	for _, set := range waiting {
		b.options.Wake(set)
	}
}

// strip keeps the name of a pod and the claims that it mounts.
func strip(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil // a tombstone
	}
	kept := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
	}}
	for _, claim := range volumeclaims.MountedBy(pod) {
		kept.Spec.Volumes = append(kept.Spec.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}})
	}
	return kept, nil
}
