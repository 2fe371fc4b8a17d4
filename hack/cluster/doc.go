// Package cluster runs a real Kubernetes of one node on this machine: etcd, the control plane, kubelet and kube-proxy from
// the binary that hack/kubernetes.sh builds, containerd, runc and the CNI plugins from Debian. hack/demo and test/e2e
// install the charts on it.
//
// It needs root on Debian or a system derived from it, and nothing else that is not installed when it is missing. All state
// is below one directory; what a cluster must leave outside of it (cgroups, nftables tables, mounts, links) is found and
// removed by name, whether it ended well or was killed.
//
// There is no DNS in it: pods reach Services by the address in their environment or by a fixed clusterIP, and programs of
// the host by the node's address.
package cluster
