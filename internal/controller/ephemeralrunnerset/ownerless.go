package ephemeralrunnerset

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/kube/requeue"
)

// A runner set that no AutoscalingRunnerSet owns came from a backup, which loses owners or has those of another time or cluster, or was
// made or changed by hand. If its labels name an AutoscalingRunnerSet that has no runner set, that takes it back. Otherwise it is deleted:
// its idle runners are removed, and those with a job finish it.

// abandon deletes a runner set that nobody will take back, and leaves any other as it is. While its AutoscalingRunnerSet might come, as the
// one that a restore brings next, nothing is decided.
func (c *Controller) abandon(ctx context.Context, p *pass) (ctrl.Result, error) {
	now := c.options.Clock.Now()
	why, err := c.whyAbandoned(ctx, p.set)
	if err != nil {
		return ctrl.Result{}, err
	}
	if why == "" {
		return c.hold(ctx, p, "it belongs to no AutoscalingRunnerSet")
	}
	kube.SetIfZero(&p.state.differsSince, now)
	if due := p.state.differsSince.Add(differsGrace); now.Before(due) {
		return requeue.At(due, now), nil
	}
	unchanged := kube.UnchangedPrecondition(p.set) // somebody may be giving it an owner
	err = c.options.Client.Delete(ctx, p.set.DeepCopy(), unchanged, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if kube.IgnoreOvertaken(err) != nil {
		return ctrl.Result{}, fmt.Errorf("delete EphemeralRunnerSet without an owner: %w", err)
	}
	if err == nil {
		report.RecordEvent(ctx, c.options.Recorder, p.set, nil, report.Warning(v1alpha1.ReasonOwnerless, "ScaleRunners", fmt.Sprintf(
			"EphemeralRunnerSet %s is removed: %s, as after a restore from a backup; runners with a job finish it. Only the manager creates runner sets: "+
				"leave EphemeralRunnerSets out of backups and manifests", p.set.Name, why)))
	}
	return requeue.At(now.Add(differsRecheck), now), nil
}

// whyAbandoned says why no AutoscalingRunnerSet will take the runner set back, "" if one may.
func (c *Controller) whyAbandoned(ctx context.Context, set *v1alpha1.EphemeralRunnerSet) (string, error) {
	name := kube.ScaleSetOf(set).Name
	origin := &v1alpha1.AutoscalingRunnerSet{}
	err := c.options.Client.Get(ctx, types.NamespacedName{Namespace: set.Namespace, Name: name}, origin, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err):
		return c.confirmGone(ctx, set, name)
	case err != nil:
		return "", fmt.Errorf("get AutoscalingRunnerSet %s: %w", name, err)
	case origin.DeletionTimestamp != nil:
		return fmt.Sprintf("no AutoscalingRunnerSet owns it, and AutoscalingRunnerSet %s is being deleted", name), nil
	}
	var sets v1alpha1.EphemeralRunnerSetList
	if err := c.options.Client.List(ctx, &sets, client.InNamespace(set.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return "", fmt.Errorf("list EphemeralRunnerSets: %w", err)
	}
	own := slices.IndexFunc(sets.Items, func(other v1alpha1.EphemeralRunnerSet) bool { return metav1.IsControlledBy(&other, origin) })
	if own < 0 {
		return "", nil
	}
	return fmt.Sprintf("no AutoscalingRunnerSet owns it, and AutoscalingRunnerSet %s has another, %s", name, sets.Items[own].Name), nil
}

// confirmGone asks the API server, because the cache may be late, whether the AutoscalingRunnerSet that would take the set back is gone, and
// the one that its owner reference names. It lists, because the manager may not get one.
func (c *Controller) confirmGone(ctx context.Context, set *v1alpha1.EphemeralRunnerSet, name string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	var origins metav1.PartialObjectMetadataList
	origins.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("AutoscalingRunnerSetList"))
	if err := c.options.Reader.List(ctx, &origins, client.InNamespace(set.Namespace)); err != nil {
		return "", fmt.Errorf("list AutoscalingRunnerSets: %w", err)
	}
	for i := range origins.Items {
		if origins.Items[i].Name == name || metav1.IsControlledBy(set, &origins.Items[i]) {
			return "", nil
		}
	}
	return fmt.Sprintf("no AutoscalingRunnerSet owns it, and there is no AutoscalingRunnerSet %s in namespace %s", name, set.Namespace), nil
}

// Admit reports whether a set that may have most runners has room for one of them, which then counts. A set creates no more than it may,
// but others may create runners with the set as their owner.
func (c *Controller) Admit(set types.UID, runner types.NamespacedName, most int) bool {
	if ceiling := c.options.MaxRunnersPerSet; ceiling > 0 {
		most = min(most, ceiling)
	}
	return c.roster.Admit(set, runner, most)
}
