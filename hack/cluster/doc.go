// Package cluster runs a real Kubernetes cluster of one node, or two, on this machine: etcd, the control plane, kubelet
// and kube-proxy from the binary that hack/kubernetes.sh builds; containerd, runc and the CNI plugins from Debian
// packages. hack/demo and test/e2e install the charts on it, through package site.
//
// It may have storage of a real CSI stack, too: programs of hack/csi.sh beside the kubelet.
//
// It needs root on Debian or a system derived from it. Missing packages are installed. All state is below one
// directory. What must be outside of it (cgroups, nftables tables, mounts, network links) is found by name and removed,
// whether the cluster was stopped or killed.
//
// The cluster has no DNS: pods reach Services by the address in their environment or by a fixed clusterIP, and programs
// on the host by the node's address.
package cluster
