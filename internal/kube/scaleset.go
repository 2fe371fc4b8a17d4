package kube

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
)

// ScaleSetOf returns the scale set that the labels of a runner or runner set name. Whoever may create these in one namespace chooses
// their labels, so labels that name another namespace don't count: such an object is a scale set of its own, as one without labels is.
// It must not share another set's turn in the pool, its limit of Events or its series.
func ScaleSetOf(object client.Object) types.NamespacedName {
	labels := object.GetLabels()
	if name := labels[v1alpha1.LabelScaleSetName]; name != "" && cmp.Or(labels[v1alpha1.LabelScaleSetNamespace], object.GetNamespace()) == object.GetNamespace() {
		return types.NamespacedName{Namespace: object.GetNamespace(), Name: name}
	}
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}

// LabelledSet returns the scale set that an object's labels name, which may be in another namespace. It is for listeners and what
// belongs to them: these live in the manager's namespace, and other things must show, too, whose they are.
func LabelledSet(object client.Object) types.NamespacedName {
	labels := object.GetLabels()
	return types.NamespacedName{Namespace: labels[v1alpha1.LabelScaleSetNamespace], Name: labels[v1alpha1.LabelScaleSetName]}
}

// ScaleSetLabels returns the labels that mark an object as belonging to the scale set, in the given role.
func ScaleSetLabels(set *v1alpha1.AutoscalingRunnerSet, component string) map[string]string {
	return map[string]string{
		v1alpha1.LabelPartOf:            v1alpha1.PartOfScaleSet,
		v1alpha1.LabelComponent:         component,
		v1alpha1.LabelScaleSetName:      set.Name,
		v1alpha1.LabelScaleSetNamespace: set.Namespace,
	}
}

// ScopeLabels returns labels with the enterprise, organization or repository of an address, none for an invalid address.
func ScopeLabels(address string) map[string]string {
	url, err := actions.ParseConfigURL(address)
	if err != nil {
		return nil
	}
	labels := map[string]string{
		v1alpha1.LabelEnterprise:   LabelValue(url.Enterprise),
		v1alpha1.LabelOrganization: LabelValue(url.Organization),
		v1alpha1.LabelRepository:   LabelValue(url.Repository),
	}
	maps.DeleteFunc(labels, func(_, value string) bool { return value == "" })
	return labels
}

// NamedByLabels returns a function that maps an object to the object that two of its labels name. That may live in another
// namespace, where no owner reference can point. An object without the name maps to nothing.
func NamedByLabels(namespaceLabel, nameLabel string) handler.MapFunc {
	return func(_ context.Context, object client.Object) []reconcile.Request {
		labels := object.GetLabels()
		if labels[nameLabel] == "" {
			return nil
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{
			Namespace: labels[namespaceLabel], Name: labels[nameLabel],
		}}}
	}
}

// keyScaleSet names the scale set, as NAMESPACE/NAME, in the log lines of controllers, of calls to GitHub and of listeners, so
// that all of them can be filtered by it.
const keyScaleSet = "scaleSet"

// WithScaleSetLogger returns a context whose logger adds the scale set, and the keys and values in more, to each line.
func WithScaleSetLogger(ctx context.Context, set types.NamespacedName, more ...any) context.Context {
	return ctrl.LoggerInto(ctx, ctrl.LoggerFrom(ctx).WithValues(append([]any{keyScaleSet, set.String()}, more...)...))
}

// Registration returns where an AutoscalingRunnerSet is registered on GitHub: according to its status or, if ARC registered it, to ARC's
// annotations. It returns nil if it is registered nowhere. The result is the caller's own.
func Registration(set *v1alpha1.AutoscalingRunnerSet) *v1alpha1.ScaleSetRegistration {
	if set.Status.Registration != nil {
		return set.Status.Registration.DeepCopy()
	}
	id, err := strconv.Atoi(set.Annotations[v1alpha1.AnnotationRunnerScaleSetID])
	if err != nil || id <= 0 {
		return nil
	}
	return &v1alpha1.ScaleSetRegistration{
		URL:   set.Spec.GitHubConfigUrl,
		ID:    id,
		Group: set.Annotations[v1alpha1.AnnotationRunnerGroupName],
		Name:  set.Annotations[v1alpha1.AnnotationRunnerScaleSetName],
	}
}

// RunnerSpec returns what an AutoscalingRunnerSet says of its runners: who they are, what they run, and where they register. Its
// EphemeralRunnerSet must say the same. The id is the scale set's on GitHub.
func RunnerSpec(set *v1alpha1.AutoscalingRunnerSet, scaleSetID int) v1alpha1.EphemeralRunnerSpec {
	spec := &set.Spec
	return v1alpha1.EphemeralRunnerSpec{
		GitHubConfigUrl:                     spec.GitHubConfigUrl,
		GitHubConfigSecret:                  spec.GitHubConfigSecret,
		GitHubServerTLS:                     spec.GitHubServerTLS,
		RunnerScaleSetID:                    scaleSetID,
		Proxy:                               spec.Proxy,
		VaultConfig:                         spec.VaultConfig,
		EphemeralRunnerConfigSecretMetadata: spec.EphemeralRunnerConfigSecretMetadata,
		RunnerTimeouts:                      spec.RunnerTimeouts,
		PodMetadata:                         spec.Template.ObjectMeta,
		PodSpec:                             spec.Template.Spec,
	}
}

// RunnerSpecHash identifies what an EphemeralRunnerSet says of its runners. The AutoscalingRunnerSet keeps it in its status, which a
// listener can't write.
func RunnerSpecHash(spec *v1alpha1.EphemeralRunnerSetSpec) string {
	return Hash(struct {
		Spec     v1alpha1.EphemeralRunnerSpec
		Metadata *v1alpha1.ResourceMeta
	}{spec.EphemeralRunnerSpec, spec.EphemeralRunnerMetadata})
}

// SortListeners sorts the listeners that have the labels of a set: the first is the set's own, and no other counts. One that a
// manager has served, and so has our finalizer, precedes those that somebody else has labelled. ARC left several of its own if
// their names changed; then the name that is right today precedes.
func SortListeners(set *v1alpha1.AutoscalingRunnerSet, listeners []v1alpha1.AutoscalingListener) {
	names := append(ListenerNames(set), ARCListenerName(set))
	position := func(name string) int {
		if at := slices.Index(names, name); at >= 0 {
			return at
		}
		return len(names)
	}
	slices.SortFunc(listeners, func(a, b v1alpha1.AutoscalingListener) int {
		return cmp.Or(
			cmp.Compare(rank(!WasServed(&a)), rank(!WasServed(&b))),
			cmp.Compare(position(a.Name), position(b.Name)),
			NewestFirst(&a, &b),
		)
	})
}

// WasServed reports whether a manager, ours or ARC's, has made anything for a listener. It adds its finalizer before that.
func WasServed(listener *v1alpha1.AutoscalingListener) bool {
	return slices.Contains(listener.Finalizers, v1alpha1.FinalizerAutoscalingListener)
}
