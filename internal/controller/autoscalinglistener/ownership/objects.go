// Package ownership tells the objects of a listener from others that have their names, and changes, creates and deletes
// only the listener's own. Everything is done with the manager's rights, also in namespaces that others write to, so
// nothing but labels and owners that are known to be the manager's proves anything.
package ownership

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// Objects are the objects of one listener.
type Objects struct {
	// Client reads from the cache and writes to the API server; Reader reads what the cache doesn't hold.
	Client client.Client
	Reader client.Reader
	// Listener is the AutoscalingListener, and Set the scale set that its labels name.
	Listener, Set types.NamespacedName
}

// Labels returns the labels of all objects of a listener. They override all others, so that nothing makes an object
// invisible to the cache, which selects by them.
func Labels(listener *v1alpha1.AutoscalingListener) map[string]string {
	return map[string]string{
		v1alpha1.LabelPartOf:            v1alpha1.PartOfScaleSet,
		v1alpha1.LabelComponent:         v1alpha1.ComponentListener,
		v1alpha1.LabelScaleSetName:      listener.Spec.AutoscalingRunnerSetName,
		v1alpha1.LabelScaleSetNamespace: listener.Spec.AutoscalingRunnerSetNamespace,
	}
}

// TakenError says that the listener needs a name that somebody else's object has.
type TakenError struct {
	// Kind and Key are the object's.
	Kind string
	Key  types.NamespacedName
	// Keepers are the finalizers of others that keep an object of a former listener, nil for an object of somebody
	// else.
	Keepers []string
}

// Error names the object and the next step.
func (e *TakenError) Error() string {
	if len(e.Keepers) > 0 {
		return kube.WhyKept(e.Kind, e.Key, e.Keepers) + "; it was a former listener's, and the new one waits for " +
			"its name"
	}
	return fmt.Sprintf("%s %s has the name of the listener's own and belongs to somebody else, so it is left "+
		"as it is; whoever owns it deletes it or recreates it under another name: it is looked at again every minute",
		e.Kind, e.Key)
}

// Standing says whose an object is that has the name of one of the listener's objects. An object of ours has the scale
// set's labels and the owner that we give it. Objects of ARC have less: its config Secret has no labels, its Role and
// RoleBinding have no owner, but labels that name the listener.
func (o Objects) Standing(wanted, found client.Object) kube.Standing {
	labels := found.GetLabels()
	_, secret := found.(*corev1.Secret)
	unlabelled := labels[v1alpha1.LabelScaleSetName] == "" && labels[v1alpha1.LabelScaleSetNamespace] == ""
	if kube.LabelledSet(found) != o.Set && (!secret || !unlabelled) {
		return kube.Foreign
	}
	if IsAbandoned(found) && found.GetNamespace() == o.Listener.Namespace && !isAccess(found) {
		return kube.Former
	}
	if wanted.GetNamespace() == o.Set.Namespace && isAccess(found) && metav1.GetControllerOf(found) == nil &&
		labels[v1alpha1.LabelListenerNamespace] == o.Listener.Namespace &&
		labels[v1alpha1.LabelListenerName] == o.Listener.Name {
		return kube.Ours
	}
	return kube.StandingWith(wanted.GetOwnerReferences()[0], found)
}

// IsAbandoned reports whether an object has all labels of a listener's objects, and no owner: a backup has brought it
// back without one. Only in the manager's namespace do such labels prove anything, and only together.
func IsAbandoned(object client.Object) bool {
	labels := object.GetLabels()
	return len(object.GetOwnerReferences()) == 0 && labels[v1alpha1.LabelPartOf] == v1alpha1.PartOfScaleSet &&
		labels[v1alpha1.LabelComponent] == v1alpha1.ComponentListener && labels[v1alpha1.LabelScaleSetName] != "" &&
		labels[v1alpha1.LabelScaleSetNamespace] != ""
}

// isAccess reports whether an object is of a kind that ARC creates in the namespace of the scale set.
func isAccess(object client.Object) bool {
	switch object.(type) {
	case *rbacv1.Role, *rbacv1.RoleBinding:
		return true
	}
	return false
}

// Claim finds out whether an existing object may be changed. An object that a former listener or set of the same name
// has left is deleted, as garbage collection would delete it, and reported to be gone. Anything else that isn't the
// listener's is refused with a *TakenError.
func (o Objects) Claim(ctx context.Context, wanted, found client.Object) (gone bool, err error) {
	switch o.Standing(wanted, found) {
	case kube.Ours:
		return false, nil
	case kube.Former:
		err := o.Client.Delete(ctx, found, kube.UIDPrecondition(found))
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("delete %s %s of a former listener: %w", o.Kind(found),
				client.ObjectKeyFromObject(found),
				err)
		}
		if keepers := found.GetFinalizers(); len(keepers) > 0 {
			return false, &TakenError{Kind: o.Kind(found), Key: client.ObjectKeyFromObject(found), Keepers: keepers}
		}
		return true, nil
	}
	return false, &TakenError{Kind: o.Kind(found), Key: client.ObjectKeyFromObject(found)}
}

// Create creates an object by POST, so that an object that the cache doesn't have is not taken over. It fails with a
// *TakenError if somebody else's object has the name.
func (o Objects) Create(ctx context.Context, wanted client.Object) error {
	err := kube.Create(ctx, o.Client, Bare(wanted), wanted)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	found, unread := o.find(ctx, wanted)
	switch {
	case unread != nil:
		return unread
	case found != nil && o.Standing(wanted, found) == kube.Foreign:
		return &TakenError{Kind: o.Kind(found), Key: client.ObjectKeyFromObject(found)}
	}
	return err // it is the listener's, and the cache is behind, or it has just gone
}

// Bare returns the part with which an object is created: what identifies it and never changes. None of it grants or
// holds anything.
func Bare(wanted client.Object) client.Object {
	object := wanted.DeepCopyObject().(client.Object)
	labels := map[string]string{}
	for _, key := range identifying {
		if value, has := wanted.GetLabels()[key]; has {
			labels[key] = value
		}
	}
	object.SetLabels(labels)
	object.SetAnnotations(nil)
	switch object := object.(type) {
	case *rbacv1.Role:
		object.Rules = nil
	case *rbacv1.RoleBinding:
		object.Subjects = nil
	case *corev1.Secret:
		object.Data = nil
	}
	return object
}

// identifying are the labels by which an object is known to be the listener's.
var identifying = []string{
	v1alpha1.LabelPartOf, v1alpha1.LabelComponent, v1alpha1.LabelScaleSetName, v1alpha1.LabelScaleSetNamespace,
	v1alpha1.LabelListenerName, v1alpha1.LabelListenerNamespace,
}

// find reads an object from the API server, nil if there is none. It lists, because the manager may not get objects of
// all kinds.
func (o Objects) find(ctx context.Context, wanted client.Object) (client.Object, error) {
	kind, err := o.Client.GroupVersionKindFor(wanted)
	if err != nil {
		return nil, err
	}
	kind.Kind += "List"
	object, err := o.Client.Scheme().New(kind)
	if err != nil {
		return nil, err
	}
	list := object.(client.ObjectList) // every kind of the scheme has such a list
	name := client.MatchingFields{metav1.ObjectNameField: wanted.GetName()}
	if err := o.Reader.List(ctx, list, client.InNamespace(wanted.GetNamespace()), name); err != nil {
		return nil, fmt.Errorf("look at %s %s, which exists: %w", o.Kind(wanted), client.ObjectKeyFromObject(wanted),
			err)
	}
	items, err := meta.ExtractList(list)
	if err != nil || len(items) == 0 {
		return nil, err
	}
	return items[0].(client.Object), nil
}

// Delete deletes an object if it is the listener's own, and leaves any other as it is.
func (o Objects) Delete(ctx context.Context, named, live client.Object) error {
	if live.GetDeletionTimestamp() != nil || o.Standing(named, live) == kube.Foreign {
		return nil
	}
	return o.Client.Delete(ctx, live, kube.UIDPrecondition(live))
}

// Kind returns the kind as messages show it.
func (o Objects) Kind(object client.Object) string {
	kind, _ := o.Client.GroupVersionKindFor(object) // no kind of ours is unknown to the scheme
	return kind.Kind
}
