package cluster

import (
	"encoding/json"
	"net"
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
	for _, name := range []string{"kubelet.yaml", "kube-proxy.yaml"} {
		content, err := os.ReadFile(l.config(name))
		if err != nil {
			t.Fatal(err)
		}
		var config map[string]any
		if err := yaml.UnmarshalStrict(content, &config); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	content, err := os.ReadFile(l.in("cni/10-harrier.conflist"))
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(content) {
		t.Errorf("CNI configuration is not JSON:\n%s", content)
	}
	content, err = os.ReadFile(l.config("containerd.toml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{l.containerd(), pauseImage, `bin_dir = "/usr/lib/cni"`} {
		if !strings.Contains(string(content), want) {
			t.Errorf("containerd.toml lacks %s", want)
		}
	}
}

func TestPortsAreDistinctAndWithinTheRange(t *testing.T) {
	p := portsFrom(20000)
	seen := map[int]bool{}
	for _, port := range []int{
		p.apiServer, p.etcdClient, p.etcdPeer, p.controllerManager, p.scheduler, p.kubelet, p.kubeletHealth, p.proxyMetrics, p.proxyHealth,
	} {
		if seen[port] || port < 20000 || port > 20009 {
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
