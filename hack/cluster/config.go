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

// settings are the values that the templates below config can use.
type settings struct {
	State, PKI, ContainerdSocket, CNIPlugins, NodeName, PodCIDR, PauseImage, DNSAddress string
	KubeletPort, KubeletHealthPort, ProxyMetricsPort, ProxyHealthPort                   int
}

// writeConfig writes the configuration files of the programs that are not configured by flags alone. kube-proxy exits when its
// file changes, so writeConfig is called once, before the first start.
func writeConfig(l layout, p ports, cniPlugins string) error {
	values := settings{
		State: l.state(), PKI: l.pki(""), ContainerdSocket: l.containerd(), CNIPlugins: cniPlugins,
		NodeName: nodeName, PodCIDR: podCIDR, PauseImage: pauseImage, DNSAddress: dnsAddress,
		KubeletPort: p.kubelet, KubeletHealthPort: p.kubeletHealth,
		ProxyMetricsPort: p.proxyMetrics, ProxyHealthPort: p.proxyHealth,
	}
	if err := os.MkdirAll(l.in("cni"), 0o700); err != nil {
		return fmt.Errorf("make directory of the CNI configuration: %w", err)
	}
	for name, file := range map[string]string{
		"containerd.toml": l.config("containerd.toml"),
		"kubelet.yaml":    l.config("kubelet.yaml"),
		"kube-proxy.yaml": l.config("kube-proxy.yaml"),
		"cni.conflist":    l.in("cni/10-harrier.conflist"),
	} {
		var content bytes.Buffer
		if err := configTemplates.ExecuteTemplate(&content, name, values); err != nil {
			return fmt.Errorf("fill in %s: %w", name, err)
		}
		if err := os.WriteFile(file, content.Bytes(), 0o600); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}
