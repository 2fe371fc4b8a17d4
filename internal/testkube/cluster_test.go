package testkube_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/internal/testkube"
)

func TestMain(m *testing.M) {
	os.Exit(testkube.Main(m, testkube.Options{
		ControllerManager: true, AuditLog: true, AuditObjects: true, CRDs: []string{"testdata/crds"},
	}))
}

func sample(namespace string, replicas int64) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": replicas}}}
	object.SetAPIVersion("testkube.example.com/v1")
	object.SetKind("Sample")
	object.SetNamespace(namespace)
	object.SetGenerateName("sample-")
	return object
}

func TestCRDsAreServedAndValidated(t *testing.T) {
	cluster := testkube.Shared(t)
	namespace := cluster.NewNamespace(t)
	if err := cluster.Client().Create(t.Context(), sample(namespace, 3)); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Client().Create(t.Context(), sample(namespace, -1)); !apierrors.IsInvalid(err) {
		t.Errorf("create a sample that its schema forbids: got %v, want Invalid", err)
	}
}

func TestGarbageCollectionFollowsOwners(t *testing.T) {
	cluster := testkube.Shared(t)
	namespace := cluster.NewNamespace(t)
	owner := sample(namespace, 1)
	if err := cluster.Client().Create(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "owned",
		OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(owner, owner.GroupVersionKind()),
		}}}
	if err := cluster.Client().Create(t.Context(), owned); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Client().Delete(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	// The garbage collector starts after the cluster, and looks for kinds that it has missed only every 30 s.
	NewWithT(t).Eventually(func() bool {
		return apierrors.IsNotFound(cluster.Client().Get(t.Context(), client.ObjectKeyFromObject(owned), owned))
	}, "2m", "100ms").Should(BeTrue())
}

func TestRolesDecideWhatAServiceAccountMayDo(t *testing.T) {
	cluster := testkube.Shared(t)
	namespace := cluster.NewNamespace(t)
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "reader"},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"},
			Verbs: []string{"list"}}},
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: "default"}},
	}
	for _, object := range []client.Object{role, binding} {
		if err := cluster.Client().Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("",
		cluster.Kubeconfig(t, testkube.ServiceAccount(namespace, "default")))
	if err != nil {
		t.Fatal(err)
	}
	clientset := kubernetes.NewForConfigOrDie(config)
	// The API server's authorizer learns of a new binding by a watch.
	NewWithT(t).Eventually(func() error {
		_, err := clientset.CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{})
		return err
	}, "30s").Should(Succeed())
	if _, err := clientset.CoreV1().Secrets(namespace).List(t.Context(),
		metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("list Secrets without a Role for it: got %v, want Forbidden", err)
	}
}

func TestAuditEventsTellWhoAskedForWhat(t *testing.T) {
	cluster := testkube.Shared(t)
	namespace := cluster.NewNamespace(t)
	config := cluster.ConfigFor(t, testkube.ServiceAccount(namespace, "default"))
	config.UserAgent = "curious/1.0"
	_, err := kubernetes.NewForConfigOrDie(config).CoreV1().Secrets(namespace).Get(t.Context(), "treasure",
		metav1.GetOptions{})
	if !apierrors.IsForbidden(err) {
		t.Fatalf("got %v, want Forbidden", err)
	}
	filter := testkube.AuditFilter{UserAgent: "curious/", User: testkube.ServiceAccountUser(namespace, "default")}
	var events []testkube.AuditEvent
	NewWithT(t).Eventually(func() (int, error) {
		events, err = cluster.AuditEvents(filter)
		return len(events), err
	}, "30s").Should(Equal(1))
	event := events[0]
	got := []any{event.Verb, event.Object.Resource, event.Object.Name, event.Response.Code}
	if difference := cmp.Diff([]any{"get", "secrets", "treasure", 403}, got); difference != "" {
		t.Error(difference)
	}
	if event.Credential() == "" {
		t.Error("nothing tells the token from others of the ServiceAccount")
	}
}

// A mark leaves out what was answered before it, even if a line was being written then.
func TestAuditEventsAfterAMark(t *testing.T) {
	cluster := testkube.Shared(t)
	config := cluster.Config()
	config.UserAgent = "marked/" + cluster.NewNamespace(t)
	secrets := kubernetes.NewForConfigOrDie(config).CoreV1().Secrets("default")
	ask := func(name string) {
		if _, err := secrets.Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Fatalf("got %v, want NotFound", err)
		}
	}
	asked := func(mark testkube.AuditMark) func() ([]string, error) {
		return func() (names []string, err error) {
			events, err := cluster.AuditEvents(testkube.AuditFilter{UserAgent: config.UserAgent, After: mark})
			for _, event := range events {
				names = append(names, event.Object.Name)
			}
			return names, err
		}
	}
	g := NewWithT(t)
	ask("early")
	g.Eventually(asked(0), "30s").Should(Equal([]string{"early"}))
	mark := cluster.MarkAudit()
	ask("late")
	for _, mark := range []testkube.AuditMark{mark, mark - 1, mark - 10} {
		g.Eventually(asked(mark), "30s").Should(Equal([]string{"late"}))
	}
	ask("latest")
	g.Eventually(asked(mark), "30s").Should(Equal([]string{"late", "latest"}))
}

// The log has the objects from which a runner's history can be told, and no Secret.
func TestAuditEventsHaveObjects(t *testing.T) {
	cluster := testkube.Shared(t)
	name := metav1.ObjectMeta{Namespace: cluster.NewNamespace(t), Name: "logged"}
	lease, secret := &coordinationv1.Lease{ObjectMeta: name}, &corev1.Secret{ObjectMeta: name}
	for _, object := range []client.Object{lease, secret} {
		if err := cluster.Client().Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	logged := map[string]string{}
	NewWithT(t).Eventually(func() (int, error) {
		events, err := cluster.AuditEvents(testkube.AuditFilter{Namespace: name.Namespace})
		for _, event := range events {
			if event.Object.Name == name.Name {
				logged[event.Object.Resource] = string(event.ResponseObject)
			}
		}
		return len(logged), err
	}, "30s").Should(Equal(2))
	if !strings.Contains(logged["leases"], string(lease.UID)) || logged["secrets"] != "" {
		t.Errorf("logged: %v", logged)
	}
}

func TestAPIServerComesBackWithItsData(t *testing.T) {
	cluster := testkube.Start(t, testkube.Options{})
	namespace := cluster.NewNamespace(t)
	if err := cluster.StopAPIServer(); err != nil {
		t.Fatal(err)
	}
	key := client.ObjectKey{Name: namespace}
	if err := cluster.Client().Get(t.Context(), key, &corev1.Namespace{}); err == nil {
		t.Error("a stopped API server has answered")
	}
	if err := cluster.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Client().Get(t.Context(), key, &corev1.Namespace{}); err != nil {
		t.Error(err)
	}
}

func TestEtcdComesBackWithItsData(t *testing.T) {
	cluster := testkube.Start(t, testkube.Options{})
	namespace := cluster.NewNamespace(t)
	if err := cluster.StopEtcd(); err != nil {
		t.Fatal(err)
	}
	key := client.ObjectKey{Name: namespace}
	late, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := cluster.Client().Get(late, key, &corev1.Namespace{}); err == nil {
		t.Error("an API server without etcd has read an object")
	}
	if err := cluster.StartEtcd(); err != nil {
		t.Fatal(err)
	}
	if err := cluster.AwaitAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The API server may still call itself ready because of what etcd answered before it was stopped.
	NewWithT(t).Eventually(func() error {
		return cluster.Client().Get(t.Context(), key, &corev1.Namespace{})
	}, "2m", "100ms").Should(Succeed())
}

func TestRequestsHangWhileEtcdIsFrozen(t *testing.T) {
	cluster := testkube.Start(t, testkube.Options{})
	namespace := cluster.NewNamespace(t)
	resume, err := cluster.PauseEtcd()
	if err != nil {
		t.Fatal(err)
	}
	late, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := cluster.Client().Create(late, configMap(namespace)); err == nil {
		t.Error("a frozen etcd has stored an object")
	}
	if err := resume(); err != nil {
		t.Fatal(err)
	}
	if err := cluster.AwaitAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Client().Create(t.Context(), configMap(namespace)); err != nil &&
		!apierrors.IsAlreadyExists(err) {
		t.Error(err)
	}
}

func configMap(namespace string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "sample"}}
}
