// Package testkube runs a real etcd and kube-apiserver for integration tests and, if they depend on garbage collection
// or the deletion of namespaces, kube-controller-manager. Authorization is RBAC, ServiceAccount tokens are real, and
// there is no node: package fakenode plays the pods. Tests of single packages use it directly; test/rig installs the
// whole product on it.
//
// The tests of a package share one cluster. The first one that asks for it starts it, which takes 3 to 5 s:
//
//	func TestMain(m *testing.M) { os.Exit(testkube.Main(m, testkube.Options{})) }
//
//	func TestSomething(t *testing.T) {
//		cluster := testkube.Shared(t)
//		namespace := cluster.NewNamespace(t)
//		...
//	}
//
// A test that stops the API server or etcd, or counts requests, starts a cluster of its own with Start. The programs
// are those that hack/kubernetes.sh builds, or those in the directory that the environment variable HARRIER_KUBERNETES
// names.
package testkube
