// Package e2e tests the product the way its users get it: both charts, installed by Helm on a real cluster
// (hack/cluster), images built from this tree, pods run by a kubelet and containerd, against the GitHub of
// internal/fakegithub. These tests depend on real pods, real probes, garbage collection and Helm. Tests for which a
// simulated node suffices are elsewhere.
//
// make e2e-storage adds a real CSI stack for the tests that need volumes and snapshots: provisioner, snapshotter and
// snapshot controller beside the control plane (hack/csi.sh), and a driver of our own whose classes make it slow or fail
// (hack/csi).
//
// The tests need root on Debian and share one cluster. Those that change or kill the controller run first, one after
// the other; all others run in parallel, each with a scale set, a namespace and a GitHub of its own: make e2e.
package e2e
