package ephemeralrunnerset

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/kube"
)

// countUnseen counts the set's runners that the watch has not shown. It asks the API server about runners that should
// have been seen by now: if the watch is broken or refused, they would otherwise be created again every minute, without
// end.
func (c *Controller) countUnseen(ctx context.Context, w *world) {
	requested := w.Memory.Creations
	requested.Observe(w.views)
	if overdue := requested.Overdue(c.options.Clock.Now()); len(overdue) > 0 {
		var existing sets.Set[string]
		existing, w.listErr = c.existing(ctx, w)
		requested.RememberListed(overdue, existing, w.listErr, c.options.Clock.Now())
	}
	w.unseen = requested.Unseen(c.options.Clock.Now())
}

// existing returns the names of the set's runners that the API server has, including those being deleted. Runners with
// another owner or label are left out: the watch would not show them.
func (c *Controller) existing(ctx context.Context, w *world) (sets.Set[string], error) {
	// The set's own label names the scale set, too, but others may write that; it serves only a set whose
	// AutoscalingRunnerSet is gone.
	scaleSet := kube.ScaleSetOf(w.Object).Name
	if w.origin != nil {
		scaleSet = w.origin.Name
	}
	runners, err := kube.ListMetadata(ctx, c.options.Reader, "EphemeralRunner", client.InNamespace(w.Object.Namespace),
		client.MatchingLabels{v1alpha1.LabelScaleSetName: scaleSet})
	if err != nil {
		return nil, err
	}
	names := sets.New[string]()
	for i := range runners {
		if roster.OwnerOf(&runners[i]).UID == w.Object.UID {
			names.Insert(runners[i].Name)
		}
	}
	return names, nil
}

// Runners beside the set are counted again every besideInterval. They are removed within seconds, unless they have a
// job.
const besideInterval = 5 * time.Second

// countBeside counts the runners that may run with the scale set's labels and that none of its runner sets has: those
// without an owner, and those of a runner set without one. They are removed, and until then maxRunners counts them.
// What the scale set's former runner sets have, the AutoscalingRunnerSet subtracts itself.
func (c *Controller) countBeside(ctx context.Context, w *world) error {
	scaleSet := client.ObjectKeyFromObject(w.origin)
	for _, other := range c.roster.Others(scaleSet, w.Object.UID) {
		if other.Name != "" {
			set := &v1alpha1.EphemeralRunnerSet{}
			err := c.options.Client.Get(ctx, types.NamespacedName{Namespace: w.Object.Namespace, Name: other.Name}, set,
				client.UnsafeDisableDeepCopy)
			if client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("get EphemeralRunnerSet %s: %w", other.Name, err)
			}
			if err == nil && set.UID == other.UID && metav1.IsControlledBy(set, w.origin) {
				continue
			}
		}
		for _, r := range c.roster.Of(other.UID) {
			if r.Alive() && r.ScaleSet == scaleSet {
				w.unseen.Beside++
			}
		}
	}
	if w.unseen.Beside > 0 {
		w.RequeueAt(c.options.Clock.Now().Add(besideInterval))
	}
	return nil
}

// inherit asks the API server, before this process creates the set's first runner, for runners that an earlier process
// has created and the watch does not show yet: without them a leader that takes over while watches lag would create the
// same number again, beyond maxRunners. It returns their number.
func (c *Controller) inherit(ctx context.Context, w *world) (int, error) {
	requested := w.Memory.Creations
	if requested.Listed() {
		return 0, nil
	}
	existing, err := c.existing(ctx, w)
	if err != nil {
		return 0, err
	}
	unseen := requested.Inherit(existing, w.views)
	if unseen > 0 {
		log.FromContext(ctx).Info("Planning again with runners that an earlier manager created and the watch does not "+
			"show yet", "runners", unseen)
	}
	return unseen, nil
}
