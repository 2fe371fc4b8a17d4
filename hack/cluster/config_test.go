package cluster

import (
	"encoding/json"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func TestConfigurationFilesAreComplete(t *testing.T) {
	l := layout{dir: t.TempDir()}
	if err := writeConfig(l, portsFrom(20000), "/usr/lib/cni"); err != nil {
		t.Fatal(err)
	}
	nodes := l.nodes(portsFrom(20000))
	for _, file := range []string{nodes[0].in("kubelet.yaml"), nodes[1].in("kubelet.yaml"),
		l.config("kube-proxy.yaml")} {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var config map[string]any
		if err := yaml.UnmarshalStrict(content, &config); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if tainted := config["registerWithTaints"] != nil; tainted != (file == nodes[1].in("kubelet.yaml")) {
			t.Errorf("%s has taints: %t", file, tainted)
		}
	}
	for _, n := range nodes {
		content, err := os.ReadFile(n.in("cni/10-harrier.conflist"))
		if err != nil {
			t.Fatal(err)
		}
		if !json.Valid(content) || !strings.Contains(string(content), n.podCIDR) {
			t.Errorf("CNI configuration of %s is not JSON, or has other addresses than %s:\n%s", n.name, n.podCIDR,
				content)
		}
		if content, err = os.ReadFile(n.in("containerd.toml")); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{n.socket(), pauseImage, `bin_dir = "/usr/lib/cni"`, n.in("containerd-run")} {
			if !strings.Contains(string(content), want) {
				t.Errorf("containerd.toml of %s lacks %s", n.name, want)
			}
		}
		if ours, all := netip.MustParsePrefix(n.podCIDR), netip.MustParsePrefix(podCIDR); !all.Overlaps(ours) ||
			all.Bits() >= ours.Bits() {
			t.Errorf("the pods of %s are outside of %s", n.name, all)
		}
	}
}

func TestPortsAreDistinctAndWithinTheRange(t *testing.T) {
	p := portsFrom(20000)
	seen := map[int]bool{}
	for _, port := range []int{
		p.apiServer, p.etcdClient, p.etcdPeer, p.controllerManager, p.scheduler, p.kubelet, p.kubeletHealth, p.proxyMetrics,
		p.proxyHealth,
		p.secondKubelet, p.secondKubeletHealth,
	} {
		if seen[port] || port < 20000 || port >= 20000+portCount {
			t.Errorf("port %d is used twice or out of range", port)
		}
		seen[port] = true
	}
}

func TestDirectoryIsResolved(t *testing.T) {
	target := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	got, err := Options{Root: "x", Dir: link}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	want, err := filepath.EvalSymlinks(target)
	if err != nil {
		t.Fatal(err)
	}
	if got.Dir != want || got.FirstPort != defaultFirstPort || got.Progress == nil {
		t.Errorf("options are %+v, want directory %s and defaults", got, want)
	}
	if _, err := (Options{}).withDefaults(); err == nil {
		t.Error("no error without Root")
	}
}

func TestFirstPort(t *testing.T) {
	for text, want := range map[string]int{"": defaultFirstPort, "20000": 20000, "x": 0, "0": 0, "65530": 0, "-1": 0} {
		if got, err := firstPort(text); got != want || (err == nil) != (want != 0) {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}

func TestTakenPortIsNamedWithItsUser(t *testing.T) {
	listener, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	err = portsFrom(listener.Addr().(*net.TCPAddr).Port).mustBeFree()
	if err == nil || !strings.Contains(err.Error(), "etcd") || !strings.Contains(err.Error(), firstPortName) {
		t.Errorf("error is %v", err)
	}
}

func TestLongDirectoriesAreRefused(t *testing.T) {
	if err := (layout{dir: "/root/.cache/harrier/cluster"}).mustBeShort(); err != nil {
		t.Error(err)
	}
	if err := (layout{dir: "/" + strings.Repeat("x", 80)}).mustBeShort(); err == nil {
		t.Error("no error")
	}
}
