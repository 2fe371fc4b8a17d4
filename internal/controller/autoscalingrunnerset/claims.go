package autoscalingrunnerset

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
)

// partFromClaims parts the claims that are to be retained from a set that is about to go; the others go with the set.
// Usually nothing is left to do: claims that go with the set have it as their owner, and were parted from it as soon as
// they were to be retained.
func (c *Controller) partFromClaims(ctx context.Context, w *world) error {
	var claims corev1.PersistentVolumeClaimList
	err := c.options.Client.List(ctx, &claims, client.InNamespace(w.Set.Namespace),
		client.MatchingLabels{v1alpha1.LabelScaleSetName: w.Set.Name})
	if err != nil {
		return fmt.Errorf("list claims: %w", err)
	}
	retained := w.Set.Spec.Retained()
	var part []*corev1.PersistentVolumeClaim
	for i := range claims.Items {
		claim := &claims.Items[i]
		if found, ours := volumeclaims.ClaimOf(w.Set, claim); ours && !found.Deleting && found.Owned == retained {
			part = append(part, claim)
		}
	}
	var mu sync.Mutex
	refused := 0
	err = kube.ForEach(ctx, kube.MaxParallelism, part,
		func(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
			err := c.partFrom(ctx, w.Set, claim)
			if apierrors.IsForbidden(err) {
				mu.Lock()
				defer mu.Unlock()
				refused++
				return nil
			}
			return client.IgnoreNotFound(err)
		})
	if err != nil || refused == 0 {
		return err
	}
	c.recordFarewell(ctx, w, report.Warning(v1alpha1.ReasonVolumeClaimRefused, "Delete", fmt.Sprintf(
		"%d claims are not as persistentVolumeClaimRetentionPolicy says, because the right to change them went "+
			"with the release: look at kubectl get persistentvolumeclaims -n %s -l %s=%s",
		refused, w.Set.Namespace, v1alpha1.LabelScaleSetName, w.Set.Name)))
	return nil
}

// partFrom deletes a claim or, if it is to be retained, removes its owner.
func (c *Controller) partFrom(
	ctx context.Context, set *v1alpha1.AutoscalingRunnerSet, claim *corev1.PersistentVolumeClaim,
) error {
	if !set.Spec.Retained() {
		return c.options.Client.Delete(ctx, claim, kube.UIDPrecondition(claim))
	}
	after := claim.DeepCopy()
	volumeclaims.SetOwners(after, set)
	return c.options.Client.Patch(ctx, after, client.MergeFromWithOptions(claim, client.MergeFromWithOptimisticLock{}))
}
