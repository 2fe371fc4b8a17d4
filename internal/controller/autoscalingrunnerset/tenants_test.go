package autoscalingrunnerset_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/kube"
)

// attack creates listeners with which a tenant, who may write our kinds in one namespace, asks for another's
// credentials and for rights in its namespace: one under a name of its own, and one under the name of a Role there.
func (w *world) attack(tenant string) {
	w.Helper()
	w.grantIn(tenant, ofScaleSets()) // the tenant has a scale set, too
	for _, name := range []string{"steal", "manager"} {
		listener := &v1alpha1.AutoscalingListener{
			ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: name, Labels: map[string]string{
				v1alpha1.LabelScaleSetName: "set", v1alpha1.LabelScaleSetNamespace: w.runners,
			}},
			Spec: v1alpha1.AutoscalingListenerSpec{
				GitHubConfigUrl: w.address, GitHubConfigSecret: "github", RunnerScaleSetID: 1, Image: "i",
				MaxRunners:                    1,
				AutoscalingRunnerSetNamespace: w.runners, AutoscalingRunnerSetName: "set",
				EphemeralRunnerSetName: "set",
			},
		}
		w.create(listener)
		w.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: name,
			Labels:          listener.Labels,
			OwnerReferences: kube.OwnedBy(listener)}})
	}
}

// everything returns all that a listener can bring about in a namespace, with its version.
func (w *world) everything(namespace string) map[string]string {
	w.Helper()
	found := map[string]string{}
	for _, list := range []client.ObjectList{
		&corev1.SecretList{}, &corev1.ServiceAccountList{}, &corev1.PodList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{},
		&v1alpha1.AutoscalingListenerList{},
	} {
		if err := w.client.List(w.Context(), list, client.InNamespace(namespace)); err != nil {
			w.Fatal(err)
		}
		for _, object := range controllertest.Items(w.T, list) {
			found[fmt.Sprintf("%T %s", object, object.GetName())] = object.GetResourceVersion()
		}
	}
	return found
}

// ignored counts the Events in a namespace that say that a listener is ignored.
func (w *world) ignored(namespace string) int {
	w.Helper()
	var events eventsv1.EventList
	if err := w.client.List(w.Context(), &events, client.InNamespace(namespace)); err != nil {
		w.Fatal(err)
	}
	count := 0
	for _, event := range events.Items {
		if event.Reason == v1alpha1.ReasonListenerIgnored {
			count++
		}
	}
	return count
}

// A listener outside the manager's namespace gets nothing where it is, and nothing in the namespace that it names. The
// manager's rights would allow all of it.
func TestListenersOfTenantsGetNothing(t *testing.T) {
	var tenant string
	var before, manager map[string]string
	w := newWorld(t, func(w *world) {
		tenant = w.cluster.NewNamespace(t)
		w.attack(tenant)
		before, manager = w.everything(tenant), w.everything(w.runners)
	})
	w.install()
	w.Eventually(func() int { return w.ignored(tenant) }).Should(isTwo)
	if diff := cmp.Diff(before, w.everything(tenant)); diff != "" {
		t.Errorf("what the tenant has (-before +after):\n%s", diff)
	}
	own := w.listener().Name
	for object, version := range w.everything(w.runners) {
		switch {
		case strings.HasSuffix(object, " "+own) || strings.HasSuffix(object, " github"): // of the set itself
		case manager[object] != version:
			t.Errorf("%s was made or changed for the tenant", object)
		}
	}
}

// Somebody who may write in the set's namespace has a Role there under the name that the listener's Role will get. It
// stays as it is, and the set says why its listener does not work.
func TestRoleUnderTheListenersNameIsLeftAlone(t *testing.T) {
	role := &rbacv1.Role{Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"},
		Verbs: []string{"list"}}}}
	w := newWorld(t, func(w *world) {
		set := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: w.runners, Name: "set"}}
		set.Spec.GitHubConfigUrl = w.address
		role.Namespace, role.Name = w.runners, kube.ListenerNames(set)[0]
		w.create(role)
	})
	set := w.createSet()
	w.Eventually(func() bool {
		w.exists(set, w.runners, "set")
		condition := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionListenerReady)
		return condition != nil && condition.Status == metav1.ConditionFalse &&
			condition.Reason == v1alpha1.ReasonListenerNameTaken
	}).Should(isTrue)
	now := &rbacv1.Role{}
	w.exists(now, w.runners, role.Name)
	if now.ResourceVersion != role.ResourceVersion {
		t.Errorf("the Role was changed: %+v", now)
	}
	if w.exists(&rbacv1.RoleBinding{}, w.runners, role.Name) {
		t.Error("the listener has the rights of somebody else's Role")
	}
}
