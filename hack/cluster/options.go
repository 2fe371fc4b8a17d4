package cluster

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/harrier-ci/harrier/hack/cache"
)

// Options configure a cluster. Root is required, everything else has a default.
type Options struct {
	// Root is the directory with this module's go.mod, whose hack/kubernetes.sh and hack/images.sh build what is
	// missing.
	Root string
	// Dir contains certificates, data, images and logs, 0.5 GiB or more. Default: "cluster" in the cache of hack/cache.
	Dir string
	// FirstPort is the first of eleven consecutive TCP ports. Default: HARRIER_CLUSTER_PORT, else 17440, which is below
	// the range from which Linux picks ports for outgoing connections.
	FirstPort int
	// Progress gets one line per step. Default: none.
	Progress io.Writer
}

const (
	defaultFirstPort = 17440
	firstPortName    = "HARRIER_CLUSTER_PORT"
	portCount        = 11
)

// withDefaults fills in what is not set and resolves symbolic links in Dir, because the kernel lists mounts by their
// real path.
func (options Options) withDefaults() (Options, error) {
	if options.Root == "" {
		return options, errors.New("cluster options: Root is not set")
	}
	if options.Progress == nil {
		options.Progress = io.Discard
	}
	if options.FirstPort == 0 {
		port, err := firstPort(os.Getenv(firstPortName))
		if err != nil {
			return options, err
		}
		options.FirstPort = port
	}
	if options.Dir == "" {
		dir, err := cache.Dir("cluster")
		if err != nil {
			return options, err
		}
		options.Dir = dir
	}
	if err := os.MkdirAll(options.Dir, 0o700); err != nil {
		return options, fmt.Errorf("make cluster directory: %w", err)
	}
	resolved, err := filepath.EvalSymlinks(options.Dir)
	if err != nil {
		return options, fmt.Errorf("resolve cluster directory: %w", err)
	}
	options.Dir, err = filepath.Abs(resolved)
	return options, err
}

// firstPort parses the environment variable HARRIER_CLUSTER_PORT.
func firstPort(text string) (int, error) {
	if text == "" {
		return defaultFirstPort, nil
	}
	port, err := strconv.Atoi(text)
	if err != nil || port < 1 || port > 65535-portCount {
		return 0, fmt.Errorf("%s=%q: want the first of %d free TCP ports, such as %d", firstPortName, text, portCount,
			defaultFirstPort)
	}
	return port, nil
}

// ports has the port of everything that listens, counted from Options.FirstPort.
type ports struct {
	apiServer, etcdClient, etcdPeer, controllerManager, scheduler int
	kubelet, kubeletHealth, proxyMetrics, proxyHealth             int
	secondKubelet, secondKubeletHealth                            int
}

func portsFrom(first int) ports {
	return ports{
		apiServer:  first + 3, // ends in 443 with the default
		etcdClient: first, etcdPeer: first + 1, controllerManager: first + 2, scheduler: first + 4,
		kubelet: first + 5, kubeletHealth: first + 6, proxyMetrics: first + 7, proxyHealth: first + 8,
		secondKubelet: first + 9, secondKubeletHealth: first + 10,
	}
}

// mustBeFree fails if somebody else listens on one of the ports, and says for what it is needed.
func (p ports) mustBeFree() error {
	for _, use := range []struct {
		name string
		port int
	}{
		{"etcd", p.etcdClient}, {"etcd's peers", p.etcdPeer}, {"the API server", p.apiServer},
		{"the controller manager", p.controllerManager}, {"the scheduler", p.scheduler},
		{"the kubelet", p.kubelet}, {"the kubelet's health", p.kubeletHealth},
		{"kube-proxy's metrics", p.proxyMetrics}, {"kube-proxy's health", p.proxyHealth},
		{"the second node's kubelet", p.secondKubelet}, {"the second node's kubelet's health", p.secondKubeletHealth},
	} {
		listener, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(use.port)))
		if err != nil {
			return fmt.Errorf("port %d, needed for %s, is in use; stop what uses it (see: ss -ltnp) or set %s to "+
				"the first of %d free ports: %w",
				use.port, use.name, firstPortName, portCount, err)
		}
		if err := listener.Close(); err != nil {
			return err
		}
	}
	return nil
}
