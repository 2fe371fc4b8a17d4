package autoscalinglistener

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalinglistener/ownership"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/listenertemplate"
)

// owned is an object as it should be, and an empty one of the same kind to read into.
type owned struct{ wanted, live client.Object }

// access returns the objects that let the listener write: a ServiceAccount in its own namespace, and rights in the
// runners' namespace. Role and RoleBinding are owned by the AutoscalingRunnerSet, in whose namespace they live, so that
// garbage collection deletes them if the manager has lost the right to.
func (c *Controller) access(w *world) []owned {
	listener, spec, set := w.Object, &w.Object.Spec, w.set
	if set == nil { // only its name is known
		set = &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{
			Namespace: w.setKey.Namespace,
			Name:      w.setKey.Name,
		}}
	}
	account := &corev1.ServiceAccount{
		ObjectMeta:                   metaHere(listener, c.options.Policy, spec.ServiceAccountMetadata),
		AutomountServiceAccountToken: new(false), // which policies ask of all; the listener's container mounts its token
	}
	role := &rbacv1.Role{
		ObjectMeta: metaThere(listener, spec.RoleMetadata),
		Rules:      rules(spec.EphemeralRunnerSetName),
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metaThere(listener, spec.RoleBindingMetadata),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: listener.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: listener.Namespace,
			Name: listener.Name}},
	}
	account.OwnerReferences = kube.OwnedBy(listener)
	role.OwnerReferences, binding.OwnerReferences = kube.OwnedBy(set), kube.OwnedBy(set)
	return []owned{{account, &corev1.ServiceAccount{}}, {role, &rbacv1.Role{}}, {binding, &rbacv1.RoleBinding{}}}
}

// rules returns the fewest rights that a listener can work with: it writes the demand to its own EphemeralRunnerSet and
// reads the answer, and it writes jobs to the status of runners, whose names are not known in advance.
func rules(runnerSet string) []rbacv1.PolicyRule {
	groups := []string{v1alpha1.GroupVersion.Group}
	return []rbacv1.PolicyRule{
		{APIGroups: groups, Resources: []string{"ephemeralrunnersets"}, ResourceNames: []string{runnerSet},
			Verbs: []string{"get", "patch"}},
		{APIGroups: groups, Resources: []string{"ephemeralrunnersets/status"}, ResourceNames: []string{runnerSet},
			Verbs: []string{"patch"}},
		{APIGroups: groups, Resources: []string{"ephemeralrunners/status"}, Verbs: []string{"patch"}},
	}
}

// metaHere returns the metadata of an object in the manager's namespace: what the policy lets through of the user's
// metadata and of the listener's labels, overridden by those of ownership.Labels.
func metaHere(
	listener *v1alpha1.AutoscalingListener, policy listenertemplate.Policy, meta *v1alpha1.ResourceMeta,
) metav1.ObjectMeta {
	labels, annotations := kube.Metadata(policy.Object(meta))
	return metav1.ObjectMeta{
		Namespace:   listener.Namespace,
		Name:        listener.Name,
		Labels:      kube.Labels(nil, labels, policy.Inherited(listener.Labels), ownership.Labels(listener)),
		Annotations: kube.Annotations(annotations),
	}
}

// metaThere returns the metadata of an object in the runners' namespace. The listener's labels override those of the
// user's metadata. The labels by which listenerOfAccess finds the listener override both, and ownership.Labels
// overrides everything.
func metaThere(listener *v1alpha1.AutoscalingListener, meta *v1alpha1.ResourceMeta) metav1.ObjectMeta {
	labels, annotations := kube.Metadata(meta)
	leadBack := map[string]string{
		v1alpha1.LabelListenerName:      listener.Name,
		v1alpha1.LabelListenerNamespace: listener.Namespace,
	}
	return metav1.ObjectMeta{
		Namespace:   listener.Spec.AutoscalingRunnerSetNamespace,
		Name:        listener.Name,
		Labels:      kube.Labels(nil, labels, listener.Labels, leadBack, ownership.Labels(listener)),
		Annotations: kube.Annotations(annotations),
	}
}

// applyAccess keeps the listener's ServiceAccount and rights as they should be.
func (c *Controller) applyAccess(ctx context.Context, w *world) error {
	for _, object := range c.access(w) {
		if err := c.applyOwned(ctx, w, object.wanted, object.live); err != nil {
			return err
		}
		if account, ok := object.live.(*corev1.ServiceAccount); ok {
			w.accountSince = account.CreationTimestamp.Time
		}
	}
	return nil
}

// applyOwned applies an object of a kind that the cache has. live is an empty object of the same type.
func (c *Controller) applyOwned(ctx context.Context, w *world, wanted, live client.Object) error {
	err := c.options.Client.Get(ctx, client.ObjectKeyFromObject(wanted), live)
	switch {
	case apierrors.IsNotFound(err):
		return w.objects.Create(ctx, wanted)
	case err != nil:
		return fmt.Errorf("get %T %s: %w", wanted, client.ObjectKeyFromObject(wanted), err)
	}
	gone, err := w.objects.Claim(ctx, wanted, live)
	switch {
	case err != nil:
		return err
	case gone:
		return w.objects.Create(ctx, wanted)
	}
	if !equality.Semantic.DeepEqual(grants(wanted), grants(live)) {
		// applied in any case: both lists are replaced as a whole
		kube.SetAnnotation(live, v1alpha1.AnnotationIntegrityHash, "")
	}
	if _, err = kube.Apply(ctx, c.options.Client, wanted, live); err != nil {
		return err
	}
	unwanted := kube.ForPruning // in the runners' namespace
	if wanted.GetNamespace() == w.Key.Namespace {
		unwanted = kube.OfInstaller
	}
	return kube.DropInherited(ctx, c.options.Client, live, wanted, unwanted)
}

// grants returns the rules of a Role or the subjects of a RoleBinding. kube.Apply accepts what others have added to a
// list, but here that would be a right that nobody meant to grant.
func grants(object client.Object) any {
	switch object := object.(type) {
	case *rbacv1.Role:
		return object.Rules
	case *rbacv1.RoleBinding:
		return object.Subjects
	}
	return nil
}
