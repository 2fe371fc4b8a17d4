package cluster

import (
	"bytes"
	"embed"
	"fmt"
	"os"
	"text/template"
)

//go:embed config
var configFiles embed.FS

var configTemplates = template.Must(template.New("").Option("missingkey=error").ParseFS(configFiles, "config/*"))

// settings are the values that the templates below config can use. State is the cluster's directory, Node is the node's
// own.
type settings struct {
	State, Node, PKI, ContainerdSocket, CNIPlugins, NodeName, PodCIDR, PauseImage, DNSAddress, Taint string
	KubeletPort, KubeletHealthPort, ProxyMetricsPort, ProxyHealthPort                                int
}

// writeConfig writes the configuration files of the programs that are not configured by flags alone, for both nodes.
// kube-proxy exits when its file changes, so writeConfig is called a single time, before the first start.
func writeConfig(l layout, p ports, cniPlugins string) error {
	values := settings{
		State: l.state(), PKI: l.pki(""), CNIPlugins: cniPlugins, NodeName: nodeName, PodCIDR: podCIDR,
		PauseImage: pauseImage, DNSAddress: dnsAddress,
		ProxyMetricsPort: p.proxyMetrics, ProxyHealthPort: p.proxyHealth,
	}
	proxy := values
	for _, n := range l.nodes(p) {
		values.Node, values.ContainerdSocket, values.NodeName, values.PodCIDR = n.dir, n.socket(), n.name, n.podCIDR
		values.KubeletPort, values.KubeletHealthPort, values.Taint = n.kubelet, n.kubeletHealth, n.taint
		if err := os.MkdirAll(n.in("cni"), 0o700); err != nil {
			return fmt.Errorf("make directory of the CNI configuration: %w", err)
		}
		for name, file := range map[string]string{
			"containerd.toml": n.in("containerd.toml"), "kubelet.yaml": n.in("kubelet.yaml"),
			"cni.conflist": n.in("cni/10-harrier.conflist"),
		} {
			if err := write(name, file, values); err != nil {
				return err
			}
		}
	}
	return write("kube-proxy.yaml", l.config("kube-proxy.yaml"), proxy)
}

// write fills in a template.
func write(name, file string, values settings) error {
	var content bytes.Buffer
	if err := configTemplates.ExecuteTemplate(&content, name, values); err != nil {
		return fmt.Errorf("fill in %s: %w", name, err)
	}
	if err := os.WriteFile(file, content.Bytes(), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
