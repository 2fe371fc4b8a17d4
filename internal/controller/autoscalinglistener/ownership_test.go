package autoscalinglistener_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalinglistener/listenerpod"
	"github.com/harrier-ci/harrier/internal/controller/autoscalinglistener/ownership"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/kube"
)

// needed are the objects that a listener needs under its own name, each as somebody else would create it.
func needed() map[string]client.Object {
	at := func(namespace, suffix string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: key.Name + suffix, UID: "another"}
	}
	admin := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"}
	return map[string]client.Object{
		"ServiceAccount": &corev1.ServiceAccount{ObjectMeta: at(managerNamespace, "")},
		"Role": &rbacv1.Role{ObjectMeta: at(setNamespace, ""), Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"*"}}}},
		"RoleBinding": &rbacv1.RoleBinding{ObjectMeta: at(setNamespace, ""), RoleRef: admin},
		"Secret": &corev1.Secret{ObjectMeta: at(managerNamespace, "-config"),
			Data: map[string][]byte{"theirs": []byte("kept")}},
	}
}

// marks are ways in which an object can look like the listener's without being it: by its labels or by its owner only,
// or as another set's.
func marks() map[string]func(client.Object) {
	ours := map[string]string{v1alpha1.LabelScaleSetName: "set", v1alpha1.LabelScaleSetNamespace: setNamespace}
	return map[string]func(client.Object){
		"unmarked": func(client.Object) {},
		"labelled": func(o client.Object) { o.SetLabels(ours) },
		"owned by a listener or set of another name": func(o client.Object) {
			o.SetLabels(ours)
			owner := newListener(func(l *v1alpha1.AutoscalingListener) { l.Name = "another" })
			o.SetOwnerReferences(kube.OwnedBy(owner))
		},
		"another set's": func(o client.Object) {
			o.SetLabels(map[string]string{v1alpha1.LabelScaleSetName: "set",
				v1alpha1.LabelScaleSetNamespace: "elsewhere"})
			o.SetOwnerReferences(kube.OwnedBy(ownerOf(o)))
		},
		"owned by a kind of the same name elsewhere": func(o client.Object) {
			o.SetLabels(ours)
			owners := kube.OwnedBy(ownerOf(o))
			owners[0].APIVersion = "example.com/v1"
			o.SetOwnerReferences(owners)
		},
	}
}

// ownerOf returns the owner of an object that is the listener's.
func ownerOf(object client.Object) client.Object {
	switch object.(type) {
	case *rbacv1.Role, *rbacv1.RoleBinding:
		return newSet()
	}
	return newListener()
}

// live reads an object again, nil if it is gone.
func (f *fixture) live(object client.Object) client.Object {
	f.Helper()
	now := object.DeepCopyObject().(client.Object)
	if !f.get(now, object.GetNamespace(), object.GetName()) {
		return nil
	}
	return now
}

// An object that somebody else has created under the name of one of the listener's objects is not changed, adopted or
// deleted, whatever it looks like. The listener says a single time what is in its way, and goes on when it is gone.
func TestObjectsOfOthersAreLeftAlone(t *testing.T) {
	for kind := range needed() {
		for mark := range marks() {
			t.Run(kind+" "+mark, func(t *testing.T) {
				f := newFixture(t)
				other := needed()[kind]
				marks()[mark](other)
				f.create(newSet(), newListener(), other)
				before := f.live(other)
				f.settle()
				f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonListenerNameTaken)
				f.wantCondition(v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonListenerNameTaken)
				if said := f.message(v1alpha1.ConditionReady); !strings.Contains(said, kind+" "+
					client.ObjectKeyFromObject(other).String()) {
					t.Errorf("Ready says %q", said)
				}
				if told := controllertest.CountEvents(f.recorder, v1alpha1.ReasonListenerNameTaken); told != 1 {
					t.Errorf("it was told %d times", told)
				}
				if wait := f.reconcile().RequeueAfter; wait != takenRetryInterval {
					t.Errorf("the next attempt comes after %s, and no watch shows that the object is gone", wait)
				}
				if f.pod() != nil {
					t.Error("there is a pod without what it needs")
				}
				if diff := cmp.Diff(before, f.live(other)); diff != "" {
					t.Errorf("the object has changed:\n%s", diff)
				}
				if err := f.client.Delete(t.Context(), other); err != nil {
					t.Fatal(err)
				}
				f.settle()
				f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, listenerpod.ReasonStarting)
			})
		}
	}
}

// The end of a listener takes its own objects with it only.
func TestFinalizationLeavesObjectsOfOthers(t *testing.T) {
	for kind := range needed() {
		for mark := range marks() {
			t.Run(kind+" "+mark, func(t *testing.T) {
				f := newFixture(t)
				other := needed()[kind]
				marks()[mark](other)
				f.create(newSet(), newListener(), other)
				f.settle()
				before := f.live(other)
				if err := f.client.Delete(t.Context(), f.listener()); err != nil {
					t.Fatal(err)
				}
				f.settle()
				if f.exists()["listener"] {
					t.Error("the listener is still there")
				}
				if diff := cmp.Diff(before, f.live(other)); diff != "" {
					t.Errorf("the object has changed:\n%s", diff)
				}
			})
		}
	}
}

// One that had the proxy's name before there was a proxy, or after, is left alone, too.
func TestProxySecretOfSomebodyElseIsLeftAlone(t *testing.T) {
	f := newFixture(t)
	other := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: managerNamespace, Name: key.Name + "-proxy"},
		Data: map[string][]byte{"theirs": nil}}
	f.create(newSet(), newListener(), other)
	f.settle()
	f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, listenerpod.ReasonStarting)
	if f.live(other) == nil {
		t.Error("it is deleted as the Secret of a proxy that is no longer wanted")
	}
}

// A listener or set that was deleted by force leaves objects for garbage collection. One of the same name needn't wait
// for it.
func TestObjectsOfAFormerListenerMakeRoom(t *testing.T) {
	f := started(t)
	before := map[string]types.UID{}
	for kind, object := range needed() {
		now := f.live(object)
		owners := now.GetOwnerReferences()
		owners[0].UID = "former"
		now.SetOwnerReferences(owners)
		now.SetUID("of-a-former")
		if err := f.client.Update(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		before[kind] = now.GetUID()
	}
	f.elapse(recheckInterval)
	for range 8 {
		f.reconcile()
	}
	for kind, object := range needed() {
		now := f.live(object)
		if now == nil || now.GetUID() == before[kind] || !metav1.IsControlledBy(now, ownerOf(now)) {
			t.Errorf("%s is %+v", kind, now)
		}
	}
}

// restoredLabels are those of the objects of a listener, which a backup keeps while it loses their owner.
func restoredLabels() map[string]string {
	return ownership.Labels(newListener())
}

// An object that a backup has brought back without its owner makes room if it has all labels of a listener's. Role and
// RoleBinding are taken over as they are.
func TestObjectsThatABackupHasBroughtBackMakeRoom(t *testing.T) {
	f := newFixture(t)
	for _, kind := range []string{"ServiceAccount", "Secret"} {
		object := needed()[kind]
		object.SetLabels(restoredLabels())
		f.create(object)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: managerNamespace, Name: key.Name, UID: "restored",
		Labels: restoredLabels()}}
	f.create(pod, newSet(), newListener())
	f.settle()
	f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, listenerpod.ReasonStarting)
	if now := f.pod(); now == nil || now.UID == "restored" || !metav1.IsControlledBy(now, newListener()) {
		t.Errorf("the listener's pod is %+v", now)
	}
	for _, kind := range []string{"ServiceAccount", "Secret"} {
		if now := f.live(needed()[kind]); now == nil || now.GetUID() == "another" ||
			!metav1.IsControlledBy(now, newListener()) {
			t.Errorf("%s is %+v", kind, now)
		}
	}
}

// A listener's pod that comes back alone would hold the session of a scale set that may be served elsewhere.
func TestListenerPodWithoutAListenerGoes(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		stays  bool
	}{
		"restored": {func(*corev1.Pod) {}, false},
		// garbage collection deletes it
		"owned":            {func(p *corev1.Pod) { p.OwnerReferences = kube.OwnedBy(newListener()) }, true},
		"labelled in part": {func(p *corev1.Pod) { delete(p.Labels, v1alpha1.LabelComponent) }, true},
		"a runner's":       {func(p *corev1.Pod) { p.Labels[v1alpha1.LabelComponent] = v1alpha1.ComponentRunner }, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: managerNamespace, Name: key.Name,
				UID:    "restored",
				Labels: restoredLabels()}}
			test.change(pod)
			f.create(pod)
			for range 2 {
				f.reconcile()
			}
			if stays := f.live(pod) != nil; stays != test.stays {
				t.Errorf("it stays: %t, want %t", stays, test.stays)
			}
			if told := controllertest.CountEvents(f.recorder, v1alpha1.ReasonOwnerless); told == 0 != test.stays ||
				told > 1 {
				t.Errorf("it was told %d times", told)
			}
		})
	}
}

// ARC's objects have fewer marks: no owner for Role and RoleBinding, which has an AutoscalingListener's name in its
// labels, and no labels for the Secret with the configuration.
func TestObjectsOfARCAreTakenOver(t *testing.T) {
	f := newFixture(t)
	labels := map[string]string{v1alpha1.LabelScaleSetName: "set", v1alpha1.LabelScaleSetNamespace: setNamespace}
	leading := map[string]string{
		v1alpha1.LabelScaleSetName: "set", v1alpha1.LabelScaleSetNamespace: setNamespace,
		v1alpha1.LabelPartOf:       v1alpha1.PartOfScaleSet,
		v1alpha1.LabelListenerName: key.Name, v1alpha1.LabelListenerNamespace: key.Namespace,
		"role-policy-rules-hash": "5d8c7f",
	}
	owners := kube.OwnedBy(newListener())
	arcs := needed()
	arcs["RoleBinding"].(*rbacv1.RoleBinding).RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role",
		Name: key.Name}
	arcs["Proxy"] = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: managerNamespace, Name: key.Name + "-proxy",
		UID: "another", Labels: labels}}
	for kind, object := range arcs {
		switch kind {
		case "Role", "RoleBinding":
			object.SetLabels(leading)
		case "ServiceAccount":
			object.SetLabels(labels)
			object.SetOwnerReferences(owners)
		default:
			object.SetOwnerReferences(owners)
		}
		f.create(object)
	}
	f.create(newSet(), newListener())
	f.settle()
	f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, listenerpod.ReasonStarting)
	if token := f.configuration().Token; token != "token-1" {
		t.Errorf("the configuration has token %q", token)
	}
	if role, binding := f.access(); len(role.Rules) != 3 || len(binding.Subjects) != 1 || role.UID != "another" ||
		binding.UID != "another" {
		t.Errorf("rules %+v, subjects %+v", role.Rules, binding.Subjects)
	}
	if f.live(arcs["Proxy"]) != nil {
		t.Error("the Secret of a proxy that is not in the spec stays")
	}
}
