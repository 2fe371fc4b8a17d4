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

// Main runs the tests of a package, which share one cluster (see Shared), and returns their exit code. It stops the
// cluster before it returns.
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

// Shared returns the package's cluster, which the first call starts. The test fails if the cluster does not start or
// TestMain did not call Main. Each test works in a namespace of its own and must not stop the API server or etcd.
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

// Start starts a cluster for this test alone and stops it when the test ends. The test fails if the cluster does not
// start.
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

// NewNamespace creates a namespace with its default ServiceAccount, so that pods can be created in it immediately. It
// is deleted when the test ends, but only a controller manager carries that out.
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
