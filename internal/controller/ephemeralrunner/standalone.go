package ephemeralrunner

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// A program may create runners itself and say so on them. Such a runner stands alone until the runner set that its labels
// name takes it in, of its own namespace only: then it is one of the set's, which counts it, and gives it a registration
// and a pod when there is room. The set does not remove it because it has too many, or another template.

// namedSet returns the runner set that takes in a runner: that of the scale set that its labels name. It returns nil if
// none lives, or if nobody says of the runner that it stands alone. What its status says of a registration or a job is of
// another time or cluster, as after a restore: then it is nobody's.
func (c *Controller) namedSet(
	ctx context.Context, runner *v1alpha1.EphemeralRunner,
) (named *v1alpha1.EphemeralRunnerSet, err error) {
	name := runner.Labels[v1alpha1.LabelScaleSetName]
	if !mayBeTakenIn(runner, name) {
		return nil, nil
	}
	var sets v1alpha1.EphemeralRunnerSetList
	if err := c.options.Client.List(ctx, &sets, client.InNamespace(runner.Namespace), client.MatchingLabels{
		v1alpha1.LabelScaleSetName: name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list EphemeralRunnerSets: %w", err)
	}
	for i := range sets.Items {
		set := &sets.Items[i]
		origin, err := c.origin(ctx, set)
		if err != nil {
			return nil, err
		}
		lives := origin != nil && origin.DeletionTimestamp.IsZero() && set.DeletionTimestamp.IsZero() &&
			origin.Name == name
		if lives && servesLike(runner, set) && (named == nil || kube.NewestFirst(set, named) < 0) {
			named = set
		}
	}
	return named, nil
}

// mayBeTakenIn reports whether a runner may be taken in by a set of the scale set of a name.
func mayBeTakenIn(runner *v1alpha1.EphemeralRunner, name string) bool {
	status := &runner.Status
	return runner.Annotations[v1alpha1.AnnotationStandalone] == "true" && len(runner.OwnerReferences) == 0 && name != "" &&
		kube.ScaleSetOf(runner) == (types.NamespacedName{Namespace: runner.Namespace, Name: name}) &&
		status.Phase == "" && status.RunnerID == 0 && !status.HadJob()
}

// servesLike reports whether a runner gets jobs of the set's scale set: otherwise those would wait beside it, as it
// counts.
func servesLike(runner *v1alpha1.EphemeralRunner, set *v1alpha1.EphemeralRunnerSet) bool {
	own, of := &runner.Spec, &set.Spec.EphemeralRunnerSpec
	return own.RunnerScaleSetID == of.RunnerScaleSetID &&
		strings.EqualFold(strings.TrimRight(own.GitHubConfigUrl, "/"), strings.TrimRight(of.GitHubConfigUrl, "/"))
}

// takeIn makes a runner one of the set that it names.
func (c *Controller) takeIn(ctx context.Context, w *world) error {
	before := w.EphemeralRunner.DeepCopy()
	after := before.DeepCopy()
	after.OwnerReferences = kube.OwnedBy(w.named)
	after.Labels[v1alpha1.LabelScaleSetNamespace] = w.Namespace
	if !slices.Contains(after.Finalizers, v1alpha1.FinalizerEphemeralRunner) {
		after.Finalizers = append(after.Finalizers, v1alpha1.FinalizerEphemeralRunner)
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.options.Client.Patch(ctx, after, patch); err != nil {
		if err = kube.IgnoreOvertaken(err); err != nil {
			return fmt.Errorf("take in the runner: %w", err)
		}
		return nil
	}
	c.record(ctx, w, report.Normal("TakenIn", "TakeIn", fmt.Sprintf(
		"the runner counts as one of EphemeralRunnerSet %s, as its annotation %s says", w.named.Name,
		v1alpha1.AnnotationStandalone)))
	w.Requeue.After(staleInterval)
	return nil
}
