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

// actionDelete is the action in Events about what is deleted.
const actionDelete = "Delete"

// partFromClaims parts the claims that are to be retained from a set that is about to go; the others go with the set.
// Usually nothing is left to do: claims that go with the set have it as their owner, and were parted from it as soon as
// they were to be retained. It returns the Event about those that could not be changed, nil if there are none.
func partFromClaims(
	ctx context.Context, api client.Client, set *v1alpha1.AutoscalingRunnerSet,
) (refused *report.Event, err error) {
	var claims corev1.PersistentVolumeClaimList
	err = api.List(ctx, &claims, client.InNamespace(set.Namespace),
		client.MatchingLabels{v1alpha1.LabelScaleSetName: set.Name})
	if err != nil {
		return nil, fmt.Errorf("list claims: %w", err)
	}
	retained := set.Spec.Retained()
	var part []*corev1.PersistentVolumeClaim
	for i := range claims.Items {
		claim := &claims.Items[i]
		if found, ours := volumeclaims.ClaimOf(set, claim); ours && !found.Deleting && found.Owned == retained {
			part = append(part, claim)
		}
	}
	var mu sync.Mutex
	count := 0
	err = kube.ForEach(ctx, kube.MaxParallelism, part,
		func(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
			err := partFrom(ctx, api, set, claim)
			if apierrors.IsForbidden(err) {
				mu.Lock()
				defer mu.Unlock()
				count++
				return nil
			}
			return client.IgnoreNotFound(err)
		})
	if err != nil || count == 0 {
		return nil, err
	}
	return new(report.Warning(v1alpha1.ReasonVolumeClaimRefused, actionDelete, fmt.Sprintf(
		"%d claims are not as persistentVolumeClaimRetentionPolicy says, because the right to change them went "+
			"with the release: look at kubectl get persistentvolumeclaims -n %s -l %s=%s",
		count, set.Namespace, v1alpha1.LabelScaleSetName, set.Name))), nil
}

// partFrom deletes a claim or, if it is to be retained, removes its owner.
func partFrom(
	ctx context.Context, api client.Client, set *v1alpha1.AutoscalingRunnerSet, claim *corev1.PersistentVolumeClaim,
) error {
	if !set.Spec.Retained() {
		return api.Delete(ctx, claim, kube.UIDPrecondition(claim))
	}
	after := claim.DeepCopy()
	volumeclaims.SetOwners(after, set)
	return api.Patch(ctx, after, client.MergeFromWithOptions(claim, client.MergeFromWithOptimisticLock{}))
}
