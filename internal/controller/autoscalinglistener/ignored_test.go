package autoscalinglistener_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

// steal is a listener by which a tenant asks for the credentials of another one's scale set, and for rights in its
// namespace.
func steal(namespace string) *v1alpha1.AutoscalingListener {
	return newListener(func(listener *v1alpha1.AutoscalingListener) {
		listener.Namespace, listener.Name, listener.UID = namespace, "steal", "steal-uid"
	})
}

// objects returns everything that a listener can bring about, with its resource version.
func (f *fixture) objects() map[string]string {
	f.Helper()
	found := map[string]string{}
	for _, list := range []client.ObjectList{&corev1.SecretList{}, &corev1.ServiceAccountList{}, &corev1.PodList{},
		&rbacv1.RoleList{}, &rbacv1.RoleBindingList{},
		&v1alpha1.AutoscalingListenerList{}} {
		if err := f.client.List(f.Context(), list); err != nil {
			f.Fatal(err)
		}
		for _, object := range controllertest.Items(f, list) {
			found[fmt.Sprintf("%T %s", object, client.ObjectKeyFromObject(object))] = object.GetResourceVersion()
		}
	}
	return found
}

// Only the listener that the manager wrote for a set is served. Nothing is read, made or changed for others.
func TestOtherListenersAreIgnored(t *testing.T) {
	for name, test := range map[string]struct {
		listener *v1alpha1.AutoscalingListener
		why      string
	}{
		"in another namespace": {steal("tenant-b"), ""},
		"in the set's":         {steal(setNamespace), ""},
		"without labels": {newListener(func(l *v1alpha1.AutoscalingListener) {
			l.Name, l.Labels = "steal", nil
		}), "its labels name no scale set"},
		"with another set's labels": {newListener(func(l *v1alpha1.AutoscalingListener) {
			l.Name, l.Labels[v1alpha1.LabelScaleSetNamespace] = "steal", "tenant-b"
		}), "its labels name scale set tenant-b/set and its spec arc-runners/set"},
		"of a set that doesn't exist": {newListener(func(l *v1alpha1.AutoscalingListener) {
			l.Name, l.Labels[v1alpha1.LabelScaleSetName], l.Spec.AutoscalingRunnerSetName = "steal", "none", "none"
		}), "there is no AutoscalingRunnerSet arc-runners/none"},
		"of a set that has one": {newListener(func(l *v1alpha1.AutoscalingListener) {
			l.Name, l.CreationTimestamp = "steal", metav1.Now()
		}), "scale set arc-runners/set has another listener, set-listener"},
	} {
		t.Run(name, func(t *testing.T) {
			f := started(t)
			f.create(test.listener)
			before := f.objects()
			for range 4 {
				controllertest.Reconcile(t, f.controller, client.ObjectKeyFromObject(test.listener))
			}
			f.settle()
			if diff := cmp.Diff(before, f.objects()); diff != "" {
				t.Errorf("objects:\n%s", diff)
			}
			var told []string
			for _, event := range controllertest.Events(f.recorder) {
				if strings.Contains(event, v1alpha1.ReasonListenerIgnored) {
					told = append(told, event)
				}
			}
			if test.why == "" && len(told) == 0 {
				return // lookForIgnored tells
			}
			if len(told) != 1 || !strings.Contains(told[0], test.why) {
				t.Errorf("Events %q, want one that says %q", told, test.why)
			}
		})
	}
}

// The manager may have created the listener, but has not written all of it, or ARC wrote it.
func TestListenerIsServedOnceTheManagerHasWrittenIt(t *testing.T) {
	f := newFixture(t)
	f.create(newSet(), newListener(func(l *v1alpha1.AutoscalingListener) {
		delete(l.Annotations,
			v1alpha1.AnnotationIntegrityHash)
	}))
	before := f.objects()
	f.settle()
	if diff := cmp.Diff(before, f.objects()); diff != "" {
		t.Errorf("objects:\n%s", diff)
	}
	f.edit(func(l *v1alpha1.AutoscalingListener) { l.Annotations[v1alpha1.AnnotationIntegrityHash] = "written" })
	f.settle()
	if f.pod() == nil {
		t.Error("there is no pod")
	}
}

// Whoever edits a listener that was served, so that it names another namespace, makes the manager delete nothing there.
func TestEditedListenerEndsWithoutTouchingOtherNamespaces(t *testing.T) {
	f := started(t)
	f.edit(func(l *v1alpha1.AutoscalingListener) { l.Spec.AutoscalingRunnerSetNamespace = "tenant-b" })
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-b", Name: key.Name, Labels: map[string]string{
		v1alpha1.LabelScaleSetName: "set", v1alpha1.LabelScaleSetNamespace: setNamespace,
		v1alpha1.LabelListenerName: key.Name, v1alpha1.LabelListenerNamespace: key.Namespace,
	}}}
	f.create(role)
	if err := f.client.Delete(t.Context(), f.listener()); err != nil {
		t.Fatal(err)
	}
	f.settle()
	if f.live(role) == nil {
		t.Error("the Role in the other namespace is deleted")
	}
	if left := f.exists(); left["listener"] || left["pod"] || left["config"] {
		t.Errorf("left: %v", left)
	}
}
