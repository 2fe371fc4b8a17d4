// Package cleanupprotection removes the finalizer with which ARC's chart protects its objects until its own controller
// removes it. It does so when ARC's controller no longer runs: at each release of a chart that may be ARC's, and again
// when the set is deleted.
package cleanupprotection

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// Remover removes the finalizer. It remembers nothing.
type Remover struct {
	// Client reads from the cache and writes to the API server.
	Client client.Client
	// Version is the manager's version. A chart of the same version is ours, and protects nothing.
	Version string
	// Permitted says whether it may remove anything: flags.stripForeignFinalizers of the controller's chart.
	Permitted bool
}

// Release is a release of a set's chart from whose objects ARC's finalizer was removed. The zero value is none.
type Release struct {
	name    string
	objects []client.Object
}

// Strip removes ARC's cleanup-protection from the objects of a chart that may be ARC's, because its version is not the
// manager's. It does so a single time for each release of the chart, without waiting for the set's deletion: an upgrade
// can drop an object together with the annotation that names it, and then nobody would know whose finalizer to remove.
// The objects that the previous release named are stripped again, because ARC's chart may have put the finalizer back.
// Whatever the chart's version, Strip looks for objects that an upgrade may have dropped before this manager saw the
// annotations. The set works without any of this. last is the last release that was stripped, and Strip replaces it
// unless it fails: then the release is tried again.
func (r *Remover) Strip(ctx context.Context, set *v1alpha1.AutoscalingRunnerSet, last *Release) error {
	version := set.Labels[v1alpha1.LabelVersion]
	now := Release{name: string(set.UID) + " " + version + " " + set.Annotations[v1alpha1.AnnotationValuesHash]}
	if set.DeletionTimestamp != nil || last.name == now.name {
		return nil
	}
	if version != r.Version {
		now.objects = named(set)
	}
	dropped, err := r.leftByARC(ctx, set)
	if err != nil {
		return err
	}
	seen := sets.New[string]()
	each := slices.DeleteFunc(slices.Concat(now.objects, last.objects, dropped), func(object client.Object) bool {
		name := report.NameOf(r.Client, object)
		again := seen.Has(name)
		seen.Insert(name)
		return again
	})
	if _, err := r.removeFrom(ctx, each); err != nil {
		return err
	}
	*last = now
	return nil
}

// StripLast removes it from the objects of a set that is about to be gone, and returns those on which it is left:
// nobody will know of them any more. Refusals are no failure: the manager's Role may be gone first, and a policy may
// protect Helm's objects.
func (r *Remover) StripLast(ctx context.Context, set *v1alpha1.AutoscalingRunnerSet) (left []client.Object, err error) {
	return r.removeFrom(ctx, named(set))
}

// LeftEvent is recorded about the objects that StripLast returns, at least one.
func (r *Remover) LeftEvent(left []client.Object) report.Event {
	names := make([]string, 0, len(left))
	for _, object := range left {
		names = append(names, report.NameOf(r.Client, object))
	}
	kind, key := strings.ToLower(report.KindOf(r.Client, left[0])), client.ObjectKeyFromObject(left[0])
	return report.Warning(v1alpha1.ReasonForeignFinalizers, "Delete",
		fmt.Sprintf("ARC's chart left the finalizer %s on %s, which this controller may not remove "+
			"(flags.stripForeignFinalizers of its chart, its Role, or a policy). If they stay after the release is "+
			"uninstalled, run for each: "+
			`kubectl patch %s %s --namespace %s --type merge --patch '{"metadata":{"finalizers":null}}'`,
			v1alpha1.FinalizerCleanupProtection, report.SomeOf(names), kind, key.Name, key.Namespace))
}

// leftByARC returns the objects of a set's chart that have ARC's finalizer according to the cache: if both charts are
// upgraded together, this manager never sees the annotations of ARC's. The cache has no Secrets; ARC's chart has a
// Secret of another name if the name would have more than the 63 characters that ours takes.
func (r *Remover) leftByARC(
	ctx context.Context, set *v1alpha1.AutoscalingRunnerSet,
) (found []client.Object, err error) {
	name := set.Labels[v1alpha1.LabelScaleSetName]
	if name == "" || !r.Permitted {
		return nil, nil
	}
	for _, list := range []client.ObjectList{&rbacv1.RoleBindingList{}, &rbacv1.RoleList{},
		&corev1.ServiceAccountList{}} {
		if err := r.Client.List(ctx, list, client.InNamespace(set.Namespace),
			client.MatchingLabels{v1alpha1.LabelScaleSetName: name}); err != nil {
			return nil, fmt.Errorf("look for what ARC's chart has left: %w", err)
		}
		_ = meta.EachListItem(list, func(item runtime.Object) error { // the function never fails
			if object, ok := item.(client.Object); ok &&
				slices.Contains(object.GetFinalizers(), v1alpha1.FinalizerCleanupProtection) {
				found = append(found, object)
			}
			return nil
		})
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: set.Namespace,
		Name:      set.Name + "-gha-rs-github-secret",
	}}
	if name := set.Annotations[v1alpha1.AnnotationCleanupPrefix+"github-secret-name"]; name != "" &&
		len(secret.Name) > validation.LabelValueMaxLength {
		found = append(found, secret)
	}
	return found, nil
}

// removeFrom removes the finalizer from the objects, as far as the API server permits, and returns those that still
// have it. A manager that is told to leave them tries none: it has not been granted the right to patch the Roles of all
// namespaces, and each refusal would be in somebody's audit log. Helm takes the manager's Role away before it deletes
// the set, so that with our own chart, whose objects never have the finalizer, every removal is refused.
func (r *Remover) removeFrom(ctx context.Context, objects []client.Object) (left []client.Object, err error) {
	if !r.Permitted {
		return r.stillProtected(ctx, objects), nil
	}
	var refusals error
	for _, object := range objects {
		switch err := r.removeFinalizer(ctx, object); {
		case kube.IsRefused(err):
			left, refusals = append(left, object), errors.Join(refusals, err)
		case err != nil:
			return nil, err
		}
	}
	if refusals != nil {
		ctrl.LoggerFrom(ctx).Info("The API server refuses to remove ARC's finalizer; if one of these objects is still "+
			"there after Helm has deleted it, remove the finalizer by hand",
			"finalizer", v1alpha1.FinalizerCleanupProtection, "refusals", refusals.Error())
	}
	return r.stillProtected(ctx, left), nil
}

// stillProtected returns the objects that have the finalizer according to the cache. It holds no Secrets: ARC's chart
// protects its Secret with the rest.
func (r *Remover) stillProtected(ctx context.Context, objects []client.Object) (found []client.Object) {
	var secrets []client.Object
	for _, object := range objects {
		if _, secret := object.(*corev1.Secret); secret {
			secrets = append(secrets, object)
			continue
		}
		err := r.Client.Get(ctx, client.ObjectKeyFromObject(object), object)
		if err == nil && slices.Contains(object.GetFinalizers(), v1alpha1.FinalizerCleanupProtection) {
			found = append(found, object)
		}
	}
	if len(found) > 0 {
		found = append(found, secrets...)
	}
	return found
}

// named returns the objects that the cleanup annotations name. The manager's own rights come last, because without them
// nothing can be patched.
func named(set *v1alpha1.AutoscalingRunnerSet) []client.Object {
	annotated := []struct {
		annotation string
		object     client.Object
	}{
		{"kubernetes-mode-role-binding-name", &rbacv1.RoleBinding{}},
		{"kubernetes-mode-role-name", &rbacv1.Role{}},
		{"kubernetes-mode-service-account-name", &corev1.ServiceAccount{}},
		{"no-permission-service-account-name", &corev1.ServiceAccount{}},
		{"github-secret-name", &corev1.Secret{}},
		{"manager-role-binding", &rbacv1.RoleBinding{}},
		{"manager-role-name", &rbacv1.Role{}},
	}
	var objects []client.Object
	for _, n := range annotated {
		name := strings.TrimSpace(set.Annotations[v1alpha1.AnnotationCleanupPrefix+n.annotation])
		// Roles may have names that other kinds may not, such as linux_x64-gha-rs-manager. The client refuses names
		// that can't be part of a path.
		if name != "" && len(content.IsPathSegmentName(name)) == 0 {
			n.object.SetNamespace(set.Namespace)
			n.object.SetName(name)
			objects = append(objects, n.object)
		}
	}
	return objects
}

// removeFinalizer removes the finalizer without reading the object: a strategic merge patch removes the one value and
// leaves the others, and changes nothing if the value isn't there. Objects of our charts never have it.
func (r *Remover) removeFinalizer(ctx context.Context, object client.Object) error {
	patch := fmt.Sprintf(`{"metadata":{"$deleteFromPrimitiveList/finalizers":[%q]}}`,
		v1alpha1.FinalizerCleanupProtection)
	err := r.Client.Patch(ctx, object, client.RawPatch(types.StrategicMergePatchType, []byte(patch)))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("strip %s from %s: %w", v1alpha1.FinalizerCleanupProtection, report.NameOf(r.Client, object),
			err)
	}
	return nil
}
