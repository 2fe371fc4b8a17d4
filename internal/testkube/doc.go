// Package testkube runs a real etcd, kube-apiserver and, where garbage collection or the deletion of namespaces
// matters, kube-controller-manager for integration tests. Authorization is RBAC, ServiceAccount tokens are real, and
// there is no node: package fakenode plays the pods.
//
// A test package shares one cluster, which the first test that asks for it starts (3 to 5 s):
//
//	func TestMain(m *testing.M) { os.Exit(testkube.Main(m, testkube.Options{})) }
//
//	func TestSomething(t *testing.T) {
//		cluster := testkube.Shared(t)
//		namespace := cluster.NewNamespace(t)
//		...
//	}
//
// A test that stops the API server or etcd, or counts requests, starts one of its own with Start. The programs are those that
// hack/kubernetes.sh builds; the environment variable HARRIER_KUBERNETES names a directory that has them already.
package testkube
