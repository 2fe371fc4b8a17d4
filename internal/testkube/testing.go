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

// lent are clusters that one test has at a time, see Borrow.
var lent struct {
	sync.Mutex
	free, all []*Cluster
	having    map[testing.TB]*Cluster
}

// Main runs the tests of a package, which share one cluster (see Shared) or borrow one (see Borrow), and returns their
// exit code. It stops the clusters before it returns.
func Main(m *testing.M, options Options) int {
	shared.options, shared.ready = options, true
	lent.having = map[testing.TB]*Cluster{}
	defer func() {
		for _, cluster := range append(lent.all, shared.cluster) {
			if cluster == nil {
				continue
			}
			if err := cluster.Stop(); err != nil {
				fmt.Fprintln(os.Stderr, "stop a cluster of the package:", err)
			}
		}
	}()
	return m.Run()
}

// leaveOut ends a test here if those that need a cluster are left out (go test -short, as make check does).
func leaveOut(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs a cluster, and is part of make test")
	}
}

// Shared returns the package's cluster, which the first call starts. The test fails if the cluster does not start or
// TestMain did not call Main. Each test works in a namespace of its own and must not stop the API server or etcd.
func Shared(t testing.TB) *Cluster {
	t.Helper()
	leaveOut(t)
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

// Borrow lets a test run beside others, and returns a cluster that no other has until it ends: the same to whoever asks
// again in this test. There are as many as tests that run at a time (go test -parallel), and a test leaves its cluster
// as it was. It fails as Shared does.
func Borrow(t *testing.T) *Cluster {
	t.Helper()
	leaveOut(t)
	if !shared.ready {
		t.Fatal("no cluster to borrow: TestMain has to call testkube.Main")
	}
	lent.Lock()
	cluster := lent.having[t]
	lent.Unlock()
	if cluster != nil {
		return cluster
	}
	t.Parallel()
	cluster, err := borrow()
	if err != nil {
		t.Fatalf("start a cluster: %v", err)
	}
	lent.Lock()
	lent.having[t] = cluster
	lent.Unlock()
	t.Cleanup(func() {
		lent.Lock()
		defer lent.Unlock()
		delete(lent.having, t)
		lent.free = append(lent.free, cluster)
	})
	return cluster
}

// borrow returns a cluster that nobody has, and starts one if there is none.
func borrow() (*Cluster, error) {
	lent.Lock()
	if last := len(lent.free) - 1; last >= 0 {
		defer lent.Unlock()
		cluster := lent.free[last]
		lent.free = lent.free[:last]
		return cluster, nil
	}
	lent.Unlock()
	// Not a test's context: the cluster serves the tests that follow, too.
	cluster, err := Launch(context.Background(), shared.options)
	if err != nil {
		return nil, err
	}
	lent.Lock()
	defer lent.Unlock()
	lent.all = append(lent.all, cluster)
	return cluster, nil
}

// Start starts a cluster for this test alone and stops it when the test ends. The test fails if the cluster does not
// start.
func Start(t testing.TB, options Options) *Cluster {
	t.Helper()
	leaveOut(t)
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
