package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// removeStrayFiles removes files that containerd, the CNI library and the kubelet write to places that can't be configured, but
// only those of this cluster.
func removeStrayFiles(l layout) error {
	var failures []error
	for _, file := range strayFiles(l) {
		failures = append(failures, removeIfThere(file))
	}
	// Children before parents. Directories that others use are not empty and stay.
	for _, directory := range []string{
		"/var/lib/cni/results", "/var/lib/cni", "/var/log/containers", "/var/lib/kubelet/device-plugins", "/var/lib/kubelet",
		"/run/containerd/s", "/run/containerd",
	} {
		_ = os.Remove(directory)
	}
	return errors.Join(failures...)
}

func strayFiles(l layout) []string {
	// The kubelet's socket for device plugins. At most one kubelet runs on a machine.
	files := []string{"/var/lib/kubelet/device-plugins/kubelet.sock"}
	addresses, _ := filepath.Glob(l.in("containerd-run/io.containerd.runtime.v2.task/*/*/address"))
	for _, file := range addresses {
		if socket, err := os.ReadFile(file); err == nil {
			files = append(files, strings.TrimPrefix(string(socket), "unix://"))
		}
	}
	// The CNI library names its results by network and sandbox.
	results, _ := filepath.Glob("/var/lib/cni/results/" + nodeName + "-*")
	files = append(files, results...)
	sandboxes, _ := filepath.Glob(l.in("containerd/io.containerd.grpc.v1.cri/sandboxes/*"))
	for _, sandbox := range sandboxes {
		files = append(files, "/var/lib/cni/results/cni-loopback-"+filepath.Base(sandbox)+"-lo")
	}
	links, _ := filepath.Glob("/var/log/containers/*.log")
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, l.state()+"/") {
			files = append(files, link)
		}
	}
	return files
}

func removeIfThere(file string) error {
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
