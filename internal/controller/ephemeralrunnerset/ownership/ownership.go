// Package ownership finds out whose a runner set is, and whether it is what its AutoscalingRunnerSet gives it. What follows
// from that is done by the controller of runner sets.
package ownership

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/kube"
)

// A listener writes the demand into its EphemeralRunnerSet, and Kubernetes has no right that covers some fields only.
// So what the object says of its runners counts only as far as the AutoscalingRunnerSet says the same.

// AsGiven reports whether a runner set is as its AutoscalingRunnerSet gives it, in everything that decides who runs
// which jobs; the number of runners is cut, see scaling.Demand. Its runner spec must be the one that the
// AutoscalingRunnerSet's spec gives. While the spec asks for an address that has not proven itself yet, the runner spec
// must be the one that was given last. If an older version gave that and recorded no RunnerSpecHash, the runner spec
// may differ in its address only, which must be the one at which the set is registered.
func AsGiven(set *v1alpha1.EphemeralRunnerSet, origin *v1alpha1.AutoscalingRunnerSet) bool {
	registration := kube.Registration(origin)
	id := 0
	if registration != nil {
		id = registration.ID
	}
	wanted := kube.RunnerSpec(origin, id)
	given := func() bool {
		return equality.Semantic.DeepEqual(set.Spec.EphemeralRunnerSpec, wanted) &&
			equality.Semantic.DeepEqual(set.Spec.EphemeralRunnerMetadata, origin.Spec.EphemeralRunnerMetadata)
	}
	switch last := origin.Status.RunnerSpecHash; {
	case given():
		return true
	case last != "":
		return last == kube.RunnerSpecHash(&set.Spec)
	case registration == nil:
		return false
	case roster.ConfigURLOf(&set.Spec.EphemeralRunnerSpec) !=
		roster.ConfigURLOf(&v1alpha1.EphemeralRunnerSpec{GitHubConfigUrl: registration.URL}):
		return false
	}
	wanted.GitHubConfigUrl = set.Spec.EphemeralRunnerSpec.GitHubConfigUrl
	return given()
}

// InheritedLabels returns the labels for new runners: those of the runner set that its AutoscalingRunnerSet gave it.
// Runners pass them on to their pods, where a label can select a network policy or a cloud identity.
func InheritedLabels(set *v1alpha1.EphemeralRunnerSet, origin *v1alpha1.AutoscalingRunnerSet) map[string]string {
	fromMetadata, _ := kube.Metadata(origin.Spec.EphemeralRunnerSetMetadata)
	wanted := kube.Labels(nil, fromMetadata, origin.Labels,
		kube.ScopeLabels(set.Spec.EphemeralRunnerSpec.GitHubConfigUrl))
	maps.DeleteFunc(wanted, func(key, value string) bool { return set.Labels[key] != value })
	return kube.Labels(nil, wanted, kube.ScaleSetLabels(origin, v1alpha1.ComponentRunner))
}

// GivesOtherwise selects the changes of an AutoscalingRunnerSet that change what it gives its runner set.
var GivesOtherwise = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, isSet := e.ObjectOld.(*v1alpha1.AutoscalingRunnerSet)
		after, areSets := e.ObjectNew.(*v1alpha1.AutoscalingRunnerSet)
		return isSet && areSets && (before.Generation != after.Generation ||
			before.Status.RunnerSpecHash != after.Status.RunnerSpecHash ||
			before.Drained() != after.Drained() ||
			!equality.Semantic.DeepEqual(kube.Registration(before), kube.Registration(after)))
	},
	DeleteFunc: func(event.DeleteEvent) bool { return false },
}

// Ownership finds out whether sets without an owner have one to come.
type Ownership struct{ client, reader client.Reader }

// New returns Ownership. It reads from the manager's cache and, before it calls a set abandoned, from the API server.
func New(cache, apiServer client.Reader) *Ownership { return &Ownership{cache, apiServer} }

// WhyAbandoned says why no AutoscalingRunnerSet will take the runner set back, "" if one may.
func (o *Ownership) WhyAbandoned(ctx context.Context, set *v1alpha1.EphemeralRunnerSet) (string, error) {
	name := kube.ScaleSetOf(set).Name
	origin := &v1alpha1.AutoscalingRunnerSet{}
	err := o.client.Get(ctx, types.NamespacedName{Namespace: set.Namespace, Name: name}, origin,
		client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err):
		return o.confirmGone(ctx, set, name)
	case err != nil:
		return "", fmt.Errorf("get AutoscalingRunnerSet %s: %w", name, err)
	case origin.DeletionTimestamp != nil:
		return fmt.Sprintf("no AutoscalingRunnerSet owns it, and AutoscalingRunnerSet %s is being deleted", name), nil
	}
	var sets v1alpha1.EphemeralRunnerSetList
	if err := o.client.List(ctx, &sets, client.InNamespace(set.Namespace),
		client.UnsafeDisableDeepCopy); err != nil {
		return "", fmt.Errorf("list EphemeralRunnerSets: %w", err)
	}
	own := slices.IndexFunc(sets.Items,
		func(other v1alpha1.EphemeralRunnerSet) bool { return metav1.IsControlledBy(&other, origin) })
	if own < 0 {
		return "", nil
	}
	return fmt.Sprintf("no AutoscalingRunnerSet owns it, and AutoscalingRunnerSet %s has another, %s", name,
		sets.Items[own].Name), nil
}

// confirmGone asks the API server, because the cache may be late, whether the AutoscalingRunnerSet that would take the
// set back is gone, and the one that its owner reference names. It lists, because the manager may not get one.
func (o *Ownership) confirmGone(ctx context.Context, set *v1alpha1.EphemeralRunnerSet, name string) (string, error) {
	origins, err := kube.ListMetadata(ctx, o.reader, "AutoscalingRunnerSet", client.InNamespace(set.Namespace))
	if err != nil {
		return "", err
	}
	for i := range origins {
		if origins[i].Name == name || metav1.IsControlledBy(set, &origins[i]) {
			return "", nil
		}
	}
	return fmt.Sprintf("no AutoscalingRunnerSet owns it, and there is no AutoscalingRunnerSet %s in namespace %s", name,
		set.Namespace), nil
}
