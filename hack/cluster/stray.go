package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// removeStrayFiles removes files that containerd, the CNI library and the kubelet write to places that can't be
// configured, but only those of this cluster.
func removeStrayFiles(l layout) error {
	var failures []error
	for _, file := range strayFiles(l) {
		failures = append(failures, removeIfThere(file))
	}
	// Children before parents. Directories that others use are not empty and stay.
	for _, directory := range []string{
		"/var/lib/cni/results", "/var/lib/cni", "/var/log/containers", "/var/lib/kubelet/device-plugins",
		"/var/lib/kubelet",
		"/run/containerd/s", "/run/containerd",
	} {
		_ = os.Remove(directory)
	}
	return errors.Join(failures...)
}

func strayFiles(l layout) []string {
	// The socket for device plugins, of whichever kubelet started last.
	files := []string{"/var/lib/kubelet/device-plugins/kubelet.sock"}
	for _, n := range l.nodes(ports{}) {
		addresses, _ := filepath.Glob(n.in("containerd-run/io.containerd.runtime.v2.task/*/*/address"))
		for _, file := range addresses {
			if socket, err := os.ReadFile(file); err == nil {
				files = append(files, strings.TrimPrefix(string(socket), "unix://"))
			}
		}
		// The CNI library names its results by network and sandbox.
		results, _ := filepath.Glob("/var/lib/cni/results/" + n.name + "-*")
		files = append(files, results...)
		sandboxes, _ := filepath.Glob(n.in("containerd/io.containerd.grpc.v1.cri/sandboxes/*"))
		for _, sandbox := range sandboxes {
			files = append(files, "/var/lib/cni/results/cni-loopback-"+filepath.Base(sandbox)+"-lo")
		}
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
