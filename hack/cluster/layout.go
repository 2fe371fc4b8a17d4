package cluster

import (
	"fmt"
	"path/filepath"
	"strconv"
)

// Names and addresses that are the same for every cluster, so that clean can find what a cluster has left.
const (
	// nodeName is the first node's, and that of the cluster in kubeconfigs.
	nodeName = "harrier"
	// natTable is the nftables table that lets pods reach addresses outside of the machine.
	natTable = "harrier-cluster"
	// dummyLink carries the node's address on a machine that has no address but loopback.
	dummyLink    = "harrier0"
	dummyAddress = "198.51.100.10"

	podCIDR     = "10.244.0.0/23" // those of both nodes
	serviceCIDR = "10.96.0.0/16"
	// apiServiceAddress is the first address of serviceCIDR, which pods get as KUBERNETES_SERVICE_HOST.
	apiServiceAddress = "10.96.0.1"
	dnsAddress        = "10.96.0.10"

	pauseImage = "localhost/harrier/pause:1"
)

// layout knows the paths below a cluster's directory.
type layout struct{ dir string }

func (l layout) path(elements ...string) string {
	return filepath.Join(append([]string{l.dir}, elements...)...)
}

func (l layout) state() string              { return l.path("state") }
func (l layout) in(name string) string      { return l.path("state", name) }
func (l layout) pki(name string) string     { return l.path("state", "pki", name) }
func (l layout) log(name string) string     { return l.path("log", name+".log") }
func (l layout) kubeconfig() string         { return l.in("kubeconfig") }
func (l layout) record() string             { return l.in("processes.json") }
func (l layout) sysctls() string            { return l.in("sysctls.json") }
func (l layout) lock() string               { return l.dir + ".lock" }
func (l layout) config(name string) string  { return l.in(name) }
func (l layout) userConfig(n string) string { return l.in(n + ".kubeconfig") }

// mustBeShort fails if paths of sockets would exceed the 107 bytes that Linux allows. The programs' own errors about
// that are hard to understand.
func (l layout) mustBeShort() error {
	const most = 107
	if longest := l.in("2/kubelet/pod-resources/kubelet.sock"); len(longest) > most {
		return fmt.Errorf("the directory %s is too long by %d bytes for the sockets in it; set HARRIER_CACHE to a "+
			"shorter one", l.dir, len(longest)-most)
	}
	return nil
}

func hostPort(host string, port int) string { return host + ":" + strconv.Itoa(port) }
