package autoscalingrunnerset

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
	"k8s.io/apimachinery/pkg/util/validation"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// stripProtection removes ARC's cleanup-protection from the objects of a chart that may be ARC's, because its version is not the
// manager's. It does so once for each release of the chart, without waiting for the set's deletion: an upgrade can drop an object
// together with the annotation that names it, and then nobody would know whose finalizer to remove. The objects that the previous
// release named are stripped again, because ARC's chart may have put the finalizer back. Whatever its version, what an upgrade may have dropped before
// this manager saw the annotations is looked for. The set works without any of this.
func (c *Controller) stripProtection(ctx context.Context, p *pass) error {
	version := p.set.Labels[v1alpha1.LabelVersion]
	release := string(p.set.UID) + " " + version + " " + p.set.Annotations[v1alpha1.AnnotationValuesHash]
	before := p.memory.stripped
	if p.set.DeletionTimestamp != nil || before.release == release {
		return nil
	}
	now := strippedRelease{release: release}
	if version != c.options.Version {
		now.objects = protected(p.set)
	}
	dropped, err := c.leftByARC(ctx, p.set)
	if err != nil {
		return err
	}
	if _, err := c.unprotectAll(ctx, c.union(dropped, c.union(before.objects, now.objects))); err != nil {
		return err
	}
	p.memory.stripped = now
	return nil
}

// leftByARC returns the objects of a set's chart that have ARC's finalizer according to the cache: if both charts are upgraded at once, this
// manager never sees the annotations of ARC's. The cache has no Secrets; ARC's chart has one of another name where it has more than the 63
// characters that ours takes.
func (c *Controller) leftByARC(ctx context.Context, set *v1alpha1.AutoscalingRunnerSet) (found []client.Object, err error) {
	name := set.Labels[v1alpha1.LabelScaleSetName]
	if name == "" || !c.options.StripForeignFinalizers {
		return nil, nil
	}
	for _, list := range []client.ObjectList{&rbacv1.RoleBindingList{}, &rbacv1.RoleList{}, &corev1.ServiceAccountList{}} {
		if err := c.options.Client.List(ctx, list, client.InNamespace(set.Namespace), client.MatchingLabels{v1alpha1.LabelScaleSetName: name}); err != nil {
			return nil, fmt.Errorf("look for what ARC's chart has left: %w", err)
		}
		_ = meta.EachListItem(list, func(item runtime.Object) error { // the function never fails
			if object, ok := item.(client.Object); ok && slices.Contains(object.GetFinalizers(), v1alpha1.FinalizerCleanupProtection) {
				found = append(found, object)
			}
			return nil
		})
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Name + "-gha-rs-github-secret"}}
	if named := set.Annotations[v1alpha1.AnnotationCleanupPrefix+"github-secret-name"]; named != "" && len(secret.Name) > validation.LabelValueMaxLength {
		found = append(found, secret)
	}
	return found, nil
}

// strippedRelease is a release of a set's chart from whose objects ARC's finalizer was removed.
type strippedRelease struct {
	release string
	objects []client.Object
}

// union returns the objects of both lists, each once.
func (c *Controller) union(a, b []client.Object) []client.Object {
	missing := func(object client.Object) bool {
		return !slices.ContainsFunc(b, func(other client.Object) bool { return c.nameOf(other) == c.nameOf(object) })
	}
	union := slices.Clone(b)
	for _, object := range a {
		if missing(object) {
			union = append(union, object)
		}
	}
	return union
}

// unprotectAll removes the finalizer from the objects, as far as the API server permits, and returns those that still have it. A manager
// that is told to leave them tries none: it has not been granted the right to patch the Roles of all namespaces, and each refusal would
// be in somebody's audit log. Helm takes the manager's Role away before it deletes the set, so that with our own chart, whose objects
// never have the finalizer, every removal is refused.
func (c *Controller) unprotectAll(ctx context.Context, objects []client.Object) (left []client.Object, err error) {
	if !c.options.StripForeignFinalizers {
		return c.stillProtected(ctx, objects), nil
	}
	var refusals error
	for _, object := range objects {
		switch err := c.unprotect(ctx, object); {
		case kube.IsRefused(err):
			left, refusals = append(left, object), errors.Join(refusals, err)
		case err != nil:
			return nil, err
		}
	}
	if refusals != nil {
		ctrl.LoggerFrom(ctx).Info("The API server refuses to remove ARC's finalizer; if one of these objects is still there after Helm has deleted it, remove the finalizer by hand",
			"finalizer", v1alpha1.FinalizerCleanupProtection, "refusals", refusals.Error())
	}
	return c.stillProtected(ctx, left), nil
}

// protectionLeft is recorded about objects of ARC's chart that nothing will remove, once the set that named them is gone.
func (c *Controller) protectionLeft(left []client.Object) report.Event {
	names := make([]string, 0, len(left))
	for _, object := range left {
		names = append(names, c.nameOf(object))
	}
	kind, key := strings.ToLower(c.kindOf(left[0])), client.ObjectKeyFromObject(left[0])
	return report.Warning(v1alpha1.ReasonForeignFinalizers, "Delete", fmt.Sprintf("ARC's chart left the finalizer %s on %s, which this controller may not remove "+
		"(flags.stripForeignFinalizers of its chart, its Role, or a policy). If they stay after the release is uninstalled, run for each: "+
		`kubectl patch %s %s --namespace %s --type merge --patch '{"metadata":{"finalizers":null}}'`,
		v1alpha1.FinalizerCleanupProtection, someOf(names), kind, key.Name, key.Namespace))
}

// stillProtected returns the objects that have the finalizer according to the cache. It holds no Secrets: ARC's chart protects its Secret
// with the rest.
func (c *Controller) stillProtected(ctx context.Context, objects []client.Object) (found []client.Object) {
	var secrets []client.Object
	for _, object := range objects {
		if _, secret := object.(*corev1.Secret); secret {
			secrets = append(secrets, object)
			continue
		}
		err := c.options.Client.Get(ctx, client.ObjectKeyFromObject(object), object)
		if err == nil && slices.Contains(object.GetFinalizers(), v1alpha1.FinalizerCleanupProtection) {
			found = append(found, object)
		}
	}
	if len(found) > 0 {
		found = append(found, secrets...)
	}
	return found
}

// protected returns the objects that the cleanup annotations name. The manager's own rights come last, because without them nothing
// can be patched.
func protected(set *v1alpha1.AutoscalingRunnerSet) []client.Object {
	named := []struct {
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
	for _, n := range named {
		name := strings.TrimSpace(set.Annotations[v1alpha1.AnnotationCleanupPrefix+n.annotation])
		// Roles may have names that other kinds may not, such as linux_x64-gha-rs-manager. The client refuses names that can't be
		// part of a path.
		if name != "" && len(content.IsPathSegmentName(name)) == 0 {
			n.object.SetNamespace(set.Namespace)
			n.object.SetName(name)
			objects = append(objects, n.object)
		}
	}
	return objects
}

// unprotect removes the finalizer without reading the object: a strategic merge patch removes the one value and leaves the others, and
// changes nothing if the value isn't there. Objects of our charts never have it.
func (c *Controller) unprotect(ctx context.Context, object client.Object) error {
	patch := fmt.Sprintf(`{"metadata":{"$deleteFromPrimitiveList/finalizers":[%q]}}`, v1alpha1.FinalizerCleanupProtection)
	err := c.options.Client.Patch(ctx, object, client.RawPatch(types.StrategicMergePatchType, []byte(patch)))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("strip %s from %s: %w", v1alpha1.FinalizerCleanupProtection, c.nameOf(object), err)
	}
	return nil
}
