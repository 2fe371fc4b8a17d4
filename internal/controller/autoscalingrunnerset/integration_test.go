package autoscalingrunnerset_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/testkube"
)

// install creates a scale set and waits until the listener pod is created.
func (w *world) install() *v1alpha1.AutoscalingRunnerSet {
	w.Helper()
	set := w.createSet()
	w.Eventually(func() bool {
		l := w.listener()
		return l != nil &&
			w.exists(&corev1.Pod{}, w.system, l.Name)
	}).Should(isTrue)
	return set
}

// createSet creates what the chart does.
func (w *world) createSet() *v1alpha1.AutoscalingRunnerSet {
	w.Helper()
	set := &v1alpha1.AutoscalingRunnerSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.runners, Name: "set"},
		Spec: v1alpha1.AutoscalingRunnerSetSpec{
			GitHubConfigUrl: w.address, GitHubConfigSecret: "github", MaxRunners: new(5),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "runner",
				Image: "runner:1"}}}},
		},
	}
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.runners, Name: "github"},
		StringData: map[string]string{"github_token": "token"}}, set)
	return set
}

func TestInstallAndUninstall(t *testing.T) {
	w := newWorld(t)
	set := w.install()
	if sets := w.github.Snapshot().ScaleSets; len(sets) != 1 || sets[0].Name != "set" {
		t.Fatalf("scale sets on GitHub: %+v", sets)
	}
	name := w.listener().Name

	// Helm's order: the manager's rights in the namespace are deleted before the scale set.
	w.delete(
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: w.runners, Name: "manager"}},
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: w.runners, Name: "manager"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.runners, Name: "github"}},
		set,
	)
	w.Eventually(func() bool { return w.exists(&v1alpha1.AutoscalingRunnerSet{}, w.runners, "set") }).Should(isFalse)
	if left := w.github.Snapshot().ScaleSets; len(left) > 0 {
		t.Errorf("left on GitHub: %+v", left)
	}
	if listener := w.listener(); listener != nil {
		t.Errorf("AutoscalingListener %s outlived the set", listener.Name)
	}
	for _, gone := range []struct {
		object    client.Object
		namespace string
		name      string
	}{
		{&corev1.Pod{}, w.system, name}, {&corev1.Secret{}, w.system, name + "-config"}, {&corev1.ServiceAccount{}, w.system, name},
		{&rbacv1.Role{}, w.runners, name}, {&rbacv1.RoleBinding{}, w.runners, name}, {&v1alpha1.EphemeralRunnerSet{}, w.runners, "set"},
	} {
		w.Eventually(func() bool { return w.exists(gone.object, gone.namespace, gone.name) }).Should(isFalse)
	}
}

func TestListenersRightsAndFieldsAreItsOwn(t *testing.T) {
	w := newWorld(t)
	set := w.install()
	listener := w.actingAs(w.listener().Name)
	runnerSet := &v1alpha1.EphemeralRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: w.runners, Name: "set"}}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":3,"patchID":9,"assignedJobs":2}}`))
	if err := listener.Patch(t.Context(), runnerSet, patch); err != nil {
		t.Fatalf("publish the demand as the listener: %v", err)
	}
	status := client.RawPatch(types.MergePatchType, []byte(`{"status":{"listener":{"state":"Listening"}}}`))
	if err := listener.Status().Patch(t.Context(), runnerSet, status); err != nil {
		t.Fatalf("report the state as the listener: %v", err)
	}
	w.Eventually(func() bool {
		w.exists(set, w.runners, "set")
		condition := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionListenerReady)
		return condition != nil && condition.Reason != "WaitingForScaleSet"
	}).Should(isTrue)

	before := set.DeepCopy()
	set.Spec.MaxRunners = new(4)
	if err := w.client.Patch(t.Context(), set, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	w.Eventually(func() bool {
		w.exists(runnerSet, w.runners,
			"set")
		return *runnerSet.Spec.MaxRunners == 4
	}).Should(isTrue)
	if spec := runnerSet.Spec; spec.Replicas != 3 || spec.PatchID != 9 || spec.AssignedJobs != 2 {
		t.Errorf("replicas %d, patchID %d, assignedJobs %d after a change of maxRunners, want 3, 9, 2", spec.Replicas,
			spec.PatchID, spec.AssignedJobs)
	}
	if err := listener.List(t.Context(), &corev1.SecretList{}, client.InNamespace(w.runners)); err == nil {
		t.Error("the listener may read Secrets")
	}
}

// A listener may patch its whole runner set, because Kubernetes has no right for some fields only. What it changes
// beyond its figures is restored; that no runner is created meanwhile is the runner set's controller to see to.
func TestWhatAListenerChangesInItsRunnerSetIsRestored(t *testing.T) {
	w := newWorld(t)
	w.install()
	name := w.listener().Name
	listener := w.actingAs(name)
	written := &v1alpha1.EphemeralRunnerSet{}
	w.Eventually(func() bool { return w.exists(written, w.runners, "set") }).Should(isTrue)
	for _, patch := range []string{
		`{"spec":{"ephemeralRunnerSpec":{"spec":{"serviceAccountName":"admin"}}}}`,
		`{"spec":{"ephemeralRunnerSpec":{"githubConfigUrl":"https://evil.example.com/my-org","githubConfigSecret":"other"}}}`,
		`{"spec":{"ephemeralRunnerSpec":{"runnerScaleSetId":99}}}`,
		`{"spec":{"ephemeralRunnerMetadata":{"labels":{"identity":"admin"}}}}`,
		`{"spec":{"maxRunners":100000}}`,
		`{"spec":{"maxRunners":null}}`,
		`{"metadata":{"labels":{"` + v1alpha1.LabelScaleSetName + `":"other"}}}`,
		`{"metadata":{"ownerReferences":null}}`,
		`{"metadata":{"ownerReferences":[{"apiVersion":"` + v1alpha1.GroupVersion.String() +
			`","kind":"AutoscalingRunnerSet","name":"set","uid":"no-such-uid","controller":true}]}}`,
	} {
		runnerSet := &v1alpha1.EphemeralRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: w.runners, Name: "set"}}
		writer := listener
		if strings.Contains(patch, "ownerReferences") {
			// this API server refuses it to a listener, one without OwnerReferencesPermissionEnforcement does not
			writer = w.client
		}
		if err := writer.Patch(t.Context(), runnerSet,
			client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			t.Fatalf("%s: %v", patch, err)
		}
		w.Eventually(func() string {
			now := &v1alpha1.EphemeralRunnerSet{}
			if !w.exists(now, w.runners, "set") {
				return "it is gone"
			}
			return cmp.Diff(written.Spec, now.Spec) + cmp.Diff(written.Labels, now.Labels) +
				cmp.Diff(written.OwnerReferences, now.OwnerReferences)
		}).Should(BeEmpty(), patch)
	}
}

// actingAs returns a client with the rights of a listener, after they have come into effect: the API server learns of
// Roles by watches of its own, perhaps later than a client sees the pod that was created after them.
func (w *world) actingAs(account string) client.Client {
	w.Helper()
	w.Eventually(func() (bool, error) {
		return testkube.Allowed(w.Context(), w.client, testkube.ServiceAccountUser(w.system, account),
			authorizationv1.ResourceAttributes{
				Namespace: w.runners, Verb: "patch", Group: v1alpha1.GroupVersion.Group, Resource: "ephemeralrunners",
				Subresource: "status",
			})
	}).Should(isTrue)
	c, err := client.New(w.cluster.ConfigFor(w.T, testkube.ServiceAccount(w.system, account)),
		client.Options{Scheme: w.client.Scheme()})
	if err != nil {
		w.Fatal(err)
	}
	return c
}

// TestTakesOverARCsObjects starts from what ARC 0.14 leaves: two EphemeralRunnerSets with generated names, fields that
// another manager owns, and a scale set that is known by an annotation only.
func TestTakesOverARCsObjects(t *testing.T) {
	w := newWorld(t)
	set := w.install()
	runnerSet := &v1alpha1.EphemeralRunnerSet{}
	if !w.exists(runnerSet, w.runners, "set") {
		t.Fatal("there is no EphemeralRunnerSet")
	}
	foreign := runnerSet.DeepCopy()
	foreign.Spec.EphemeralRunnerSpec.PodSpec.NodeSelector = map[string]string{"arc": "yes"}
	if err := w.client.Update(t.Context(), foreign, client.FieldOwner("arc")); err != nil {
		t.Fatal(err)
	}
	w.Eventually(func() bool {
		now := &v1alpha1.EphemeralRunnerSet{} // a new one each time: reading into one leaves what is absent
		return w.exists(now, w.runners, "set") && len(now.Spec.EphemeralRunnerSpec.PodSpec.NodeSelector) == 0
	}).Should(isTrue)

	old := runnerSet.DeepCopy()
	old.ObjectMeta = metav1.ObjectMeta{Namespace: w.runners, Name: "set-old", Labels: runnerSet.Labels,
		OwnerReferences: runnerSet.OwnerReferences}
	w.create(old)
	// The newest is kept under its name, and of those created in the same second the first by name. The other is
	// deleted.
	w.Eventually(func() int {
		var list v1alpha1.EphemeralRunnerSetList
		if err := w.client.List(t.Context(), &list, client.InNamespace(w.runners)); err != nil {
			t.Fatal(err)
		}
		return len(list.Items)
	}).Should(isOne)
	if w.listener() == nil || !w.exists(set, w.runners, "set") {
		t.Error("the listener or the set went with it")
	}
}

// TestNamespaceGoes: everything in the namespace is deleted together and nothing can be created in it, but the scale
// set on GitHub is still deleted.
func TestNamespaceGoes(t *testing.T) {
	w := newWorld(t)
	w.install()
	w.delete(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.runners}})
	w.Eventually(func() bool {
		return w.exists(&corev1.Namespace{}, "", w.runners) ||
			w.listener() != nil
	}).Should(isFalse)
	if left := w.github.Snapshot().ScaleSets; len(left) > 0 {
		t.Errorf("left on GitHub: %+v", left)
	}
}

// TestListenerDeletedByHandComesBack also shows that a listener whose set stays deletes its Secrets immediately.
func TestListenerDeletedByHandComesBack(t *testing.T) {
	w := newWorld(t)
	w.install()
	before := w.listener()
	w.delete(before)
	w.Eventually(func() bool {
		now := w.listener()
		return now != nil && now.UID != before.UID && w.exists(&corev1.Pod{}, w.system, now.Name) &&
			w.exists(&corev1.Secret{}, w.system, now.Name+"-config")
	}).Should(isTrue)
}

// TestLastLabelOfTheTemplateGoes together with what else was changed.
func TestLastLabelOfTheTemplateGoes(t *testing.T) {
	w := newWorld(t)
	set := w.install()
	change := func(labels map[string]string, image string) {
		before := set.DeepCopy()
		set.Spec.Template.Labels, set.Spec.Template.Spec.Containers[0].Image = labels, image
		if err := w.client.Patch(t.Context(), set, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
		w.Eventually(func() bool {
			now := &v1alpha1.EphemeralRunnerSet{} // a new one each time: reading into one leaves what is absent
			spec := &now.Spec.EphemeralRunnerSpec
			return w.exists(now, w.runners, "set") && spec.PodSpec.Containers[0].Image == image &&
				maps.Equal(spec.PodMetadata.Labels, labels)
		}).Should(isTrue)
	}
	change(map[string]string{"team": "a"}, "runner:2")
	change(nil, "runner:3")
}
