package autoscalingrunnerset

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// observe reads the objects of the set, all of them from the cache.
func (c *Controller) observe(ctx context.Context, set *v1alpha1.AutoscalingRunnerSet) (*pass, error) {
	key := client.ObjectKeyFromObject(set)
	memory, fresh := c.memories.Of(set)
	if fresh {
		c.forgetCalls(key) // their answers may be about a former set of this name
	}
	p := &pass{key: key, set: set, memory: memory, now: c.options.Clock.Now(), ceiling: c.options.MaxRunnersPerSet, registration: registrationOf(set)}
	p.accepted = c.options.ListenerPolicy.Accept(&set.Spec)
	p.unconfirmed = p.registration != nil && set.Status.Registration == nil
	mine := client.MatchingLabels{v1alpha1.LabelScaleSetName: set.Name, v1alpha1.LabelScaleSetNamespace: set.Namespace}

	// By owner, not by label: a listener may patch its runner set's labels, and one that is not seen here would have a second beside it.
	var runnerSets v1alpha1.EphemeralRunnerSetList
	if err := c.options.Client.List(ctx, &runnerSets, client.InNamespace(set.Namespace), client.MatchingFields{indexByOwner: string(set.UID)}); err != nil {
		return nil, fmt.Errorf("list EphemeralRunnerSets: %w", err)
	}
	p.runnerSets = runnerSets.Items
	slices.SortFunc(p.runnerSets, func(a, b v1alpha1.EphemeralRunnerSet) int { return kube.NewestFirst(&a, &b) })

	var listeners v1alpha1.AutoscalingListenerList
	if err := c.options.Client.List(ctx, &listeners, client.InNamespace(c.options.Namespace), mine); err != nil {
		return nil, fmt.Errorf("list AutoscalingListeners: %w", err)
	}
	p.listeners = ownListeners(set, listeners.Items)
	return p, nil
}

// indexByOwner names the cache's index of EphemeralRunnerSets by the UID of what controls them.
const indexByOwner = "owner"

func ownerUIDs(object client.Object) []string {
	if owner := metav1.GetControllerOfNoCopy(object); owner != nil {
		return []string{string(owner.UID)}
	}
	return nil
}

// ownListeners returns the set's listener, and after it those that a manager has served, too, such as ARC before it renamed one. The
// others have the set's labels only because somebody gave them to them: the controller of listeners ignores them.
func ownListeners(set *v1alpha1.AutoscalingRunnerSet, labelled []v1alpha1.AutoscalingListener) []v1alpha1.AutoscalingListener {
	kube.SortListeners(set, labelled)
	if i := slices.IndexFunc(labelled, func(l v1alpha1.AutoscalingListener) bool { return !kube.WasServed(&l) }); i >= 0 {
		return labelled[:max(i, 1)]
	}
	return labelled
}

// rank makes bools comparable: false comes first.
func rank(later bool) int {
	if later {
		return 1
	}
	return 0
}

// registrationOf returns where the set is registered. It is nil once the deregistration is over, which an annotation says before the
// status does.
func registrationOf(set *v1alpha1.AutoscalingRunnerSet) *v1alpha1.ScaleSetRegistration {
	if isDeregistered(set) {
		return nil
	}
	return kube.Registration(set)
}
