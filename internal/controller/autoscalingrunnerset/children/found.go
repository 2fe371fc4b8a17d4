package children

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/listenertemplate"
)

// Options of a Keeper. All are required unless they say otherwise.
type Options struct {
	// Client reads from the cache and writes to the API server.
	Client client.Client
	// Reader reads from the API server what the cache may not have.
	Reader   client.Reader
	Recorder events.EventRecorder
	// Namespace is the manager's namespace, in which listeners are created.
	Namespace string
	// ListenerImage and ListenerImagePullSecrets are the image and the pull secrets of listener pods. The latter may be
	// empty.
	ListenerImage            string
	ListenerImagePullSecrets []string
	// ListenerPolicy decides what sets may choose for the objects in the manager's namespace.
	ListenerPolicy listenertemplate.Policy
	// ExcludedLabelPrefixes are prefixes of labels that are not copied from an AutoscalingRunnerSet. May be empty.
	ExcludedLabelPrefixes []string
}

// Keeper reads, applies and deletes the objects of sets. It remembers nothing.
type Keeper struct{ options Options }

// NewKeeper returns a Keeper.
func NewKeeper(options Options) *Keeper { return &Keeper{options} }

// Found are the objects of a set that there are.
type Found struct {
	// RunnerSets are the EphemeralRunnerSets that the set owns, newest first. Listeners are the set's
	// AutoscalingListeners; the first is the one to keep.
	RunnerSets []v1alpha1.EphemeralRunnerSet
	Listeners  []v1alpha1.AutoscalingListener
}

// RunnerSet returns the EphemeralRunnerSet in use, nil if there is none.
func (f *Found) RunnerSet() *v1alpha1.EphemeralRunnerSet {
	if len(f.RunnerSets) == 0 {
		return nil
	}
	return &f.RunnerSets[0]
}

// HasRunnerSet reports whether there is an EphemeralRunnerSet that creates runners. One that is being deleted creates
// none, and its successor must wait for the last of its runners: both have the same name, by which listener and runners
// refer to them.
func (f *Found) HasRunnerSet() bool {
	current := f.RunnerSet()
	return current != nil && current.DeletionTimestamp == nil
}

// Listener returns the AutoscalingListener in use, nil if there is none.
func (f *Found) Listener() *v1alpha1.AutoscalingListener {
	if len(f.Listeners) == 0 {
		return nil
	}
	return &f.Listeners[0]
}

// IndexByOwner names the cache's index of EphemeralRunnerSets by the UID of what controls them.
const IndexByOwner = "owner"

// OwnerUIDs returns the keys of an EphemeralRunnerSet for IndexByOwner.
func OwnerUIDs(object client.Object) []string {
	if owner := metav1.GetControllerOfNoCopy(object); owner != nil {
		return []string{string(owner.UID)}
	}
	return nil
}

// Find reads the objects of a set from the cache. It fails only if the cache does.
func (k *Keeper) Find(ctx context.Context, set *v1alpha1.AutoscalingRunnerSet) (found Found, err error) {
	// By owner, not by label: a listener may patch its runner set's labels, and one that is not seen here would have a
	// second beside it.
	var runnerSets v1alpha1.EphemeralRunnerSetList
	err = k.options.Client.List(ctx, &runnerSets, client.InNamespace(set.Namespace),
		client.MatchingFields{IndexByOwner: string(set.UID)})
	if err != nil {
		return found, fmt.Errorf("list EphemeralRunnerSets: %w", err)
	}
	found.RunnerSets = runnerSets.Items
	slices.SortFunc(found.RunnerSets, func(a, b v1alpha1.EphemeralRunnerSet) int { return kube.NewestFirst(&a, &b) })

	var listeners v1alpha1.AutoscalingListenerList
	mine := client.MatchingLabels{v1alpha1.LabelScaleSetName: set.Name, v1alpha1.LabelScaleSetNamespace: set.Namespace}
	if err := k.options.Client.List(ctx, &listeners, client.InNamespace(k.options.Namespace), mine); err != nil {
		return found, fmt.Errorf("list AutoscalingListeners: %w", err)
	}
	// The set's listener, and after it those that a manager has served, too, such as ARC before it renamed one. The
	// others have the set's labels only because somebody gave them to them: the controller of listeners ignores them.
	kube.SortListeners(set, listeners.Items)
	found.Listeners = listeners.Items
	if i := slices.IndexFunc(found.Listeners,
		func(l v1alpha1.AutoscalingListener) bool { return !kube.WasServed(&l) }); i >= 0 {
		found.Listeners = found.Listeners[:max(i, 1)]
	}
	return found, nil
}

// IsStopped reports whether no listener has a pod, nor will get one. A condition from before a listener's deletion
// doesn't count.
func (f *Found) IsStopped() bool {
	return !slices.ContainsFunc(f.Listeners, func(listener v1alpha1.AutoscalingListener) bool {
		condition := meta.FindStatusCondition(listener.Status.Conditions, v1alpha1.ConditionReady)
		return listener.DeletionTimestamp == nil || condition == nil ||
			condition.Reason != v1alpha1.ReasonListenerStopped
	})
}

// StopListeners deletes the listeners, which then stop.
func (k *Keeper) StopListeners(ctx context.Context, found *Found) error {
	for i := range found.Listeners {
		if err := k.remove(ctx, &found.Listeners[i]); err != nil {
			return err
		}
	}
	return nil
}

// DrainRunnerSets deletes the EphemeralRunnerSets, which are gone when no runner is left: busy ones may finish their
// jobs.
func (k *Keeper) DrainRunnerSets(ctx context.Context, found *Found) error {
	for i := range found.RunnerSets {
		if err := k.remove(ctx, &found.RunnerSets[i]); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes an object, unless it is being deleted, with background propagation: its finalizer keeps it until the
// objects that belong to it are gone.
func (k *Keeper) remove(ctx context.Context, object client.Object) error {
	if object.GetDeletionTimestamp() != nil {
		return nil
	}
	err := k.options.Client.Delete(ctx, object, kube.UIDPrecondition(object),
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %s: %w", report.NameOf(k.options.Client, object), err)
	}
	return nil
}
