package testkube

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// shared is the cluster of this test binary, which the first test that wants one starts.
var shared struct {
	options Options
	once    sync.Once
	cluster *Cluster
	err     error
	ready   bool
}

// Main runs the tests of a package with one cluster for all of them, see Shared, and returns their exit code.
// The cluster is gone when Main returns.
func Main(m *testing.M, options Options) int {
	shared.options, shared.ready = options, true
	defer func() {
		if shared.cluster == nil {
			return
		}
		if err := shared.cluster.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the shared cluster:", err)
		}
	}()
	return m.Run()
}

// Shared returns the package's cluster; the first call starts it. The test fails when it doesn't start or TestMain
// didn't call Main. Tests keep apart by namespaces of their own and leave the API server running.
func Shared(t testing.TB) *Cluster {
	t.Helper()
	if !shared.ready {
		t.Fatal("no shared cluster: TestMain has to call testkube.Main")
	}
	shared.once.Do(func() {
		// Not the test's context: the cluster serves the tests that follow, too.
		shared.cluster, shared.err = Launch(context.Background(), shared.options)
	})
	if shared.err != nil {
		t.Fatalf("start the shared cluster: %v", shared.err)
	}
	return shared.cluster
}

// Start starts a cluster for this test alone, which ends with it. The test fails when the cluster doesn't start.
func Start(t testing.TB, options Options) *Cluster {
	t.Helper()
	cluster, err := Launch(t.Context(), options)
	if err != nil {
		t.Fatalf("start a cluster: %v", err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Errorf("stop the cluster: %v", err)
		}
	})
	return cluster
}

// NewNamespace makes a namespace with its default ServiceAccount, so that pods can be created in it at once. It is
// deleted when the test ends, which has an effect only with a controller manager.
func (c *Cluster) NewNamespace(t testing.TB) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := c.client.Create(t.Context(), namespace); err != nil {
		t.Fatalf("create a namespace: %v", err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "default"}}
	if err := alreadyThere(c.client.Create(t.Context(), account)); err != nil {
		t.Fatalf("create the default ServiceAccount of namespace %s: %v", namespace.Name, err)
	}
	t.Cleanup(func() {
		if err := client.IgnoreNotFound(c.client.Delete(context.Background(), namespace)); err != nil {
			t.Logf("delete namespace %s: %v", namespace.Name, err)
		}
	})
	return namespace.Name
}
