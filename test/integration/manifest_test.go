package integration

import (
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

// A scale set without a chart needs three more objects: the Secret, and a Role with its binding, so that the manager
// may write in the namespace. Without the Role the status names what is missing. With it the set works, and can be
// deleted.
func TestPlainManifest(t *testing.T) {
	const name = "plain"
	g := gomega.NewWithT(t)
	r := rig.Start(t, testkube.Borrow(t), rig.Options{})
	r.UninstallSet(rig.DefaultSet) // its Role would do for the other set as well
	r.AwaitUninstalled()
	set := manifest(r, r.RunnerNamespace, name)
	create(t, r, credentialSecret(r.RunnerNamespace), set)
	g.Eventually(func() string { return readyCondition(t, r, name).Message }, rig.Patience).
		Should(gomega.And(gomega.ContainSubstring("secrets"), gomega.ContainSubstring("forbidden")))
	t.Log(readyCondition(t, r, name).Message)

	create(t, r, managersRole(r, r.RunnerNamespace)...)
	r.AwaitListening(name)
	r.WaitDone(r.QueueJobsFor(name, 2, time.Second))
	awaitTrue(t, r, name, v1alpha1.ConditionReady)
	if err := r.Cluster.Client().Delete(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	g.Eventually(r.MadeFor, rig.Patience).WithArguments(t.Context(), name).Should(gomega.BeEmpty())
}

// manifest returns the smallest scale set that a user writes.
func manifest(r *rig.Rig, namespace, name string) *v1alpha1.AutoscalingRunnerSet {
	return &v1alpha1.AutoscalingRunnerSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.AutoscalingRunnerSetSpec{
			GitHubConfigUrl: r.GitHubURL + "/org", GitHubConfigSecret: "github",
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{
				{Name: v1alpha1.RunnerContainerName, Image: "runner", Command: []string{"/home/runner/run.sh"}},
			}}},
		},
	}
}

func credentialSecret(namespace string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "github"},
		StringData: map[string]string{credentials.KeyToken: rig.PAT},
	}
}

// managersRole grants the manager its rights in a namespace with scale sets: runners are pods with Secrets, and a
// listener gets a Role and a RoleBinding there.
func managersRole(r *rig.Rig, namespace string) []client.Object {
	const name = "harrier-manager"
	rule := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Rules: []rbacv1.PolicyRule{
		rule("", "pods", "create", "delete", "get", "patch"),
		rule("", "secrets", "create", "delete", "get", "list", "patch"),
		rule(rbacv1.GroupName, "roles", "create", "delete", "get", "patch"),
		rule(rbacv1.GroupName, "rolebindings", "create", "delete", "get", "patch"),
	}}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: r.SystemNamespace,
			Name: rig.ControllerAccount}},
	}
	return []client.Object{role, binding}
}

func create(t *testing.T, r *rig.Rig, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := r.Cluster.Client().Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
}

func readyCondition(t *testing.T, r *rig.Rig, name string) metav1.Condition {
	t.Helper()
	if found := meta.FindStatusCondition(readSet(t, r, name).Status.Conditions, v1alpha1.ConditionReady); found != nil {
		return *found
	}
	return metav1.Condition{}
}
