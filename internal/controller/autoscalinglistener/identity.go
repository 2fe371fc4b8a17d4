package autoscalinglistener

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// takenRetry is after what time a name is tried again that somebody else's object has. No watch shows such an object.
const takenRetry = time.Minute

// takenError says that an object that isn't the listener's has the name of one that the listener needs.
type takenError struct {
	kind string
	key  types.NamespacedName
	// keepers are the finalizers of others that keep an object of a former listener, nil for an object of somebody else.
	keepers []string
}

// Error names the object and the next step.
func (e *takenError) Error() string {
	if len(e.keepers) > 0 {
		return kube.WhyKept(e.kind, e.key, e.keepers) + "; it was a former listener's, and the new one waits for its name"
	}
	return fmt.Sprintf("%s %s has the name of the listener's own and belongs to somebody else, so it is left as it is; whoever owns it deletes it or "+
		"recreates it under another name: it is looked at again every minute", e.kind, e.key)
}

// standing says whose an object is that has the name of one of the listener's. Ours has the scale set's labels and the owner that we
// give it. Two objects of ARC have less: its config Secret has no labels, its Role and RoleBinding have no owner, but labels
// that name the listener.
func (p *pass) standing(wanted, found client.Object) kube.Standing {
	labels := found.GetLabels()
	_, secret := found.(*corev1.Secret)
	unlabelled := labels[v1alpha1.LabelScaleSetName] == "" && labels[v1alpha1.LabelScaleSetNamespace] == ""
	if kube.LabelledSet(found) != p.setKey && (!secret || !unlabelled) {
		return kube.Foreign
	}
	if isAbandoned(found) && found.GetNamespace() == p.key.Namespace && !isAccess(found) {
		return kube.Former
	}
	if wanted.GetNamespace() == p.setKey.Namespace && isAccess(found) && metav1.GetControllerOf(found) == nil &&
		labels[v1alpha1.LabelListenerNamespace] == p.key.Namespace && labels[v1alpha1.LabelListenerName] == p.key.Name {
		return kube.Ours
	}
	return kube.StandingWith(wanted.GetOwnerReferences()[0], found)
}

// isAbandoned reports whether an object has all labels of what belongs to a listener, and no owner: a backup has brought it back without.
// Only in the manager's namespace do such labels prove anything, and only together.
func isAbandoned(object client.Object) bool {
	labels := object.GetLabels()
	return len(object.GetOwnerReferences()) == 0 && labels[v1alpha1.LabelPartOf] == v1alpha1.PartOfScaleSet &&
		labels[v1alpha1.LabelComponent] == v1alpha1.ComponentListener && labels[v1alpha1.LabelScaleSetName] != "" && labels[v1alpha1.LabelScaleSetNamespace] != ""
}

// isAccess reports whether an object is of a kind that ARC creates in the namespace of the scale set.
func isAccess(object client.Object) bool {
	switch object.(type) {
	case *rbacv1.Role, *rbacv1.RoleBinding:
		return true
	}
	return false
}

// claim finds out whether an existing object may be changed. One that a former listener or set of the same name has left is deleted, as
// garbage collection would, and reported to be gone. Anything else that isn't the listener's is refused with a *takenError.
func (c *Controller) claim(ctx context.Context, p *pass, wanted, found client.Object) (gone bool, err error) {
	switch p.standing(wanted, found) {
	case kube.Ours:
		return false, nil
	case kube.Former:
		err := c.options.Client.Delete(ctx, found, kube.UIDPrecondition(found))
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("delete %s %s of a former listener: %w", c.kindOf(found), client.ObjectKeyFromObject(found), err)
		}
		if keepers := found.GetFinalizers(); len(keepers) > 0 {
			return false, &takenError{kind: c.kindOf(found), key: client.ObjectKeyFromObject(found), keepers: keepers}
		}
		return true, nil
	}
	return false, &takenError{kind: c.kindOf(found), key: client.ObjectKeyFromObject(found)}
}

// create creates an object by POST, so that none is taken over that the cache doesn't have.
func (c *Controller) create(ctx context.Context, p *pass, wanted client.Object) error {
	err := kube.Create(ctx, c.options.Client, bare(wanted), wanted)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	found, unread := c.find(ctx, wanted)
	switch {
	case unread != nil:
		return unread
	case found != nil && p.standing(wanted, found) == kube.Foreign:
		return &takenError{kind: c.kindOf(found), key: client.ObjectKeyFromObject(found)}
	}
	return err // it is the listener's, and the cache is behind, or it has just gone
}

// bare returns what an object is created with: what identifies it and never changes. None of it grants or holds anything.
func bare(wanted client.Object) client.Object {
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

// find reads an object from the API server, nil if there is none. It lists, because the manager may not get objects of all kinds.
func (c *Controller) find(ctx context.Context, wanted client.Object) (client.Object, error) {
	kind, err := c.options.Client.GroupVersionKindFor(wanted)
	if err != nil {
		return nil, err
	}
	kind.Kind += "List"
	object, err := c.options.Client.Scheme().New(kind)
	if err != nil {
		return nil, err
	}
	list := object.(client.ObjectList) // every kind of the scheme has such a list
	name := client.MatchingFields{metav1.ObjectNameField: wanted.GetName()}
	if err := c.options.Reader.List(ctx, list, client.InNamespace(wanted.GetNamespace()), name); err != nil {
		return nil, fmt.Errorf("look at %s %s, which exists: %w", c.kindOf(wanted), client.ObjectKeyFromObject(wanted), err)
	}
	items, err := meta.ExtractList(list)
	if err != nil || len(items) == 0 {
		return nil, err
	}
	return items[0].(client.Object), nil
}

// deleteOwn deletes an object if it is the listener's own, and leaves any other as it is.
func (c *Controller) deleteOwn(ctx context.Context, p *pass, named, live client.Object) error {
	if live.GetDeletionTimestamp() != nil || p.standing(named, live) == kube.Foreign {
		return nil
	}
	return c.options.Client.Delete(ctx, live, kube.UIDPrecondition(live))
}

// refuse makes a name that somebody else's object has the state that the status reports, and says so once in an Event.
func (c *Controller) refuse(ctx context.Context, p *pass, taken *takenError) {
	p.state = podState{reason: v1alpha1.ReasonListenerNameTaken, message: taken.Error()}
	p.taken, p.failure = taken, nil
	p.requeue.After(takenRetry)
	if before := meta.FindStatusCondition(p.listener.Status.Conditions, v1alpha1.ConditionReady); before == nil || before.Reason != v1alpha1.ReasonListenerNameTaken {
		report.RecordEvent(ctx, c.options.Recorder, p.listener, nil, report.Warning(v1alpha1.ReasonListenerNameTaken, "Create"+taken.kind, taken.Error()))
	}
}

// kindOf returns the kind as messages show it.
func (c *Controller) kindOf(object client.Object) string {
	kind, _ := c.options.Client.GroupVersionKindFor(object) // no kind of ours is unknown to the scheme
	return kind.Kind
}
