package children

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// ApplyListener keeps one AutoscalingListener as the spec wants it. It is found by its labels and changed in place: ARC
// derives the name from group and address, and a second listener would compete for the only session. Only a new one
// gets a name of ours; without mayCreate there is no new one, because it might take the session of another set's
// listener. If other listeners have all names that a new one could have, it returns these, and creates none.
func (k *Keeper) ApplyListener(ctx context.Context, w Wanted, mayCreate bool) (takenNames []string, err error) {
	if err := k.dropExtra(ctx, w); err != nil {
		return nil, err
	}
	wanted, live := k.listener(w), w.Found.Listener()
	switch {
	case live == nil && mayCreate:
		return k.createListener(ctx, w.Set, wanted)
	case live == nil || live.DeletionTimestamp != nil:
		return nil, nil // the event that it is gone brings the pass that creates a new one
	}
	wanted.Name = live.Name
	applied, err := kube.Apply(ctx, k.options.Client, wanted, live)
	if err != nil || applied {
		return nil, err
	}
	pruned := live.DeepCopy()
	pruned.Spec = wanted.Spec
	return nil, k.prune(ctx, pruned, live, wanted, kube.OfInstaller)
}

// dropExtra deletes all listeners but the first, such as those that ARC left when it renamed one.
func (k *Keeper) dropExtra(ctx context.Context, w Wanted) error {
	for i := range w.Found.Listeners {
		extra := &w.Found.Listeners[i]
		if i == 0 || extra.DeletionTimestamp != nil {
			continue
		}
		if err := k.remove(ctx, extra); err != nil {
			return err
		}
		report.RecordEvent(ctx, k.options.Recorder, w.Set, extra, report.Normal("ExtraListenerDeleted", "Reconcile",
			fmt.Sprintf("AutoscalingListener %s is deleted: a scale set has only one listener", extra.Name)))
	}
	return nil
}

// createListener creates the listener under the first name that no other object has, and returns the names if others
// have all of them. An object that has the name is not touched, whosever it is.
func (k *Keeper) createListener(
	ctx context.Context, set *v1alpha1.AutoscalingRunnerSet, wanted *v1alpha1.AutoscalingListener,
) (takenNames []string, err error) {
	names := kube.ListenerNames(set)
	for _, name := range names {
		bare := wanted.DeepCopy()
		wanted.Name, bare.Name = name, name
		bare.Labels, bare.Annotations = kube.ScaleSetLabels(set, v1alpha1.ComponentListener), nil
		// From the first moment: owners can't be in another namespace, and by it alone the listener is known as the
		// manager's own if the set is deleted before a cache shows that it has one.
		bare.Finalizers = []string{v1alpha1.FinalizerAutoscalingListener}
		err := kube.Create(ctx, k.options.Client, bare, wanted)
		if !apierrors.IsAlreadyExists(err) {
			return nil, err
		}
		if others, unread := k.isTaken(ctx, client.ObjectKeyFromObject(set), name); unread != nil || !others {
			return nil, errors.Join(unread, err) // if the listener is the set's, the cache is behind
		}
	}
	return names, nil
}

// isTaken reports whether another listener than the set's has a name. It asks the API server, because the cache of a
// manager that is restricted to a namespace doesn't have the listeners of other managers. It lists, because the manager
// may not get a listener.
func (k *Keeper) isTaken(ctx context.Context, set client.ObjectKey, name string) (bool, error) {
	var found v1alpha1.AutoscalingListenerList
	err := k.options.Reader.List(ctx, &found, client.InNamespace(k.options.Namespace),
		client.MatchingFields{metav1.ObjectNameField: name})
	if err != nil {
		return false, fmt.Errorf("look at AutoscalingListener %s, which has the name of a new one: %w", name, err)
	}
	return slices.ContainsFunc(found.Items,
		func(other v1alpha1.AutoscalingListener) bool { return kube.LabelledSet(&other) != set }), nil
}

// listener returns the AutoscalingListener as it should be, without a name. It is in the manager's namespace, so it has
// of the spec what the policy lets through.
func (k *Keeper) listener(w Wanted) *v1alpha1.AutoscalingListener {
	spec := &w.Set.Spec
	var mode v1alpha1.CapacityMode // empty for the default, so that the object is as it was before there was a choice
	if spec.PlacesJobs() {
		mode = v1alpha1.CapacityPlacement
	}
	var pullSecrets []corev1.LocalObjectReference // nil for no names, so that the field is absent
	for _, name := range k.options.ListenerImagePullSecrets {
		pullSecrets = append(pullSecrets, corev1.LocalObjectReference{Name: name})
	}
	return &v1alpha1.AutoscalingListener{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: k.options.Namespace,
			Labels: k.labels(w.Set, k.options.ListenerPolicy.Inherited(w.Set.Labels), w.Accepted.Listener,
				v1alpha1.ComponentListener),
			Annotations: w.annotations(w.Accepted.Listener),
		},
		Spec: v1alpha1.AutoscalingListenerSpec{
			GitHubConfigUrl:               spec.GitHubConfigUrl,
			GitHubConfigSecret:            spec.GitHubConfigSecret,
			RunnerScaleSetID:              w.Registration.ID,
			AutoscalingRunnerSetNamespace: w.Set.Namespace,
			AutoscalingRunnerSetName:      w.Set.Name,
			EphemeralRunnerSetName:        w.Found.RunnerSet().Name,
			MaxRunners:                    w.Numbers.Accepted(),
			MinRunners:                    w.Numbers.Min,
			CapacityMode:                  mode,
			Image:                         k.options.ListenerImage,
			ImagePullSecrets:              pullSecrets,
			Proxy:                         spec.Proxy,
			GitHubServerTLS:               spec.GitHubServerTLS,
			VaultConfig:                   spec.VaultConfig,
			Metrics:                       spec.ListenerMetrics,
			Template:                      w.Accepted.Template,
			ConfigSecretMetadata:          w.Accepted.ConfigSecret,
			ServiceAccountMetadata:        w.Accepted.ServiceAccount,
			RoleMetadata:                  spec.ListenerRoleMetadata,
			RoleBindingMetadata:           spec.ListenerRoleBindingMetadata,
		},
	}
}
