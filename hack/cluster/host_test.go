package cluster

import (
	"errors"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestMissingPackages(t *testing.T) {
	present := func(names ...string) func(string) (string, error) {
		return func(name string) (string, error) {
			if slices.Contains(names, name) {
				return "/usr/bin/" + name, nil
			}
			return "", errors.New("no")
		}
	}
	plugins := func() (string, error) { return "/usr/lib/cni", nil }
	none := func() (string, error) { return "", errors.New("no") }
	for name, each := range map[string]struct {
		look func(string) (string, error)
		cni  func() (string, error)
		want []string
	}{
		"all there":         {present("containerd", "containerd-shim-runc-v2", "ctr", "runc", "nft", "ip"), plugins, nil},
		"nothing there":     {present(), none, []string{"containerd", "runc", "nftables", "iproute2", cniPackage}},
		"one part missing":  {present("containerd", "containerd-shim-runc-v2", "runc", "nft", "ip"), plugins, []string{"containerd"}},
		"only CNI is there": {present(), plugins, []string{"containerd", "runc", "nftables", "iproute2"}},
	} {
		if diff := cmp.Diff(each.want, missingPackages(each.look, each.cni)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func addresses(t *testing.T, texts ...string) []net.Addr {
	t.Helper()
	var found []net.Addr
	for _, text := range texts {
		ip, network, err := net.ParseCIDR(text)
		if err != nil {
			t.Fatal(err)
		}
		network.IP = ip
		found = append(found, network)
	}
	return found
}

func TestFirstUsableAddress(t *testing.T) {
	for want, texts := range map[string][]string{
		"192.0.2.2": {"127.0.0.1/8", "fd00::2/64", "169.254.1.1/16", "192.0.2.2/24", "192.0.2.3/24"},
		"":          {"127.0.0.1/8", "::1/128", "fe80::1/64"},
	} {
		if got := firstUsable(addresses(t, texts...)); got != want {
			t.Errorf("of %v: %q, want %q", texts, got, want)
		}
	}
}

func TestOverlappingAddressesAreRefused(t *testing.T) {
	if err := mustNotOverlap(addresses(t, "192.0.2.2/24", "10.0.0.1/24")); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"10.244.0.1/24", "10.96.3.4/32", "10.1.2.3/8"} {
		if err := mustNotOverlap(addresses(t, text)); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
}

func TestMountPointsBelow(t *testing.T) {
	info := `25 24 0:23 / /dev/shm rw - tmpfs tmpfs rw
30 25 0:27 / /c/state rw - tmpfs tmpfs rw
31 25 0:27 / /c/state/run/netns/a rw - nsfs nsfs rw
32 25 0:27 / /c/state/with\040space rw - tmpfs tmpfs rw
33 25 0:27 / /c/state-of-another rw - tmpfs tmpfs rw
short
`
	want := []string{"/c/state/run/netns/a", "/c/state/with space"}
	if diff := cmp.Diff(want, parseMountPoints(info, "/c/state")); diff != "" {
		t.Errorf("mount points (-want +got):\n%s", diff)
	}
}

func TestShimsOfOthersAreLeft(t *testing.T) {
	line := func(words ...string) []byte { return []byte(strings.Join(words, "\x00") + "\x00") }
	const ours = "/c/state/containerd.sock"
	for name, each := range map[string]struct {
		line []byte
		want bool
	}{
		"ours":    {line("/usr/bin/containerd-shim-runc-v2", "-namespace", "k8s.io", "-id", "x", "-address", ours), true},
		"another": {line("/usr/bin/containerd-shim-runc-v2", "-address", "/run/containerd/containerd.sock"), false},
		"an edit": {line("vi", "-address", ours), false},
		"cut off": {line("/usr/bin/containerd-shim-runc-v2", "-address"), false},
		"zombie":  {nil, false},
	} {
		if got := isShim(each.line, ours); got != each.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestOnlyOurEndedShimsAreReaped(t *testing.T) {
	for stat, want := range map[string]bool{
		"7 (containerd-shim) Z 42 1 2":  true,
		"7 (containerd-shim) S 42 1 2":  false,
		"7 (containerd-shim) Z 421 1 2": false,
		"7 (helm) Z 42 1 2":             false,
		"7 (containerd-shim)":           false,
		"":                              false,
	} {
		if got := isEndedShim(stat, 42); got != want {
			t.Errorf("%q: %t", stat, got)
		}
	}
}

func TestReadyGivesTheKubeletsReason(t *testing.T) {
	node := &corev1.Node{}
	if err := ready(node); err == nil {
		t.Error("a node without conditions is ready")
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse,
		Message: "no CNI"}}
	if err := ready(node); err == nil || !strings.Contains(err.Error(), "no CNI") {
		t.Errorf("error is %v", err)
	}
	node.Status.Conditions[0].Status = corev1.ConditionTrue
	if err := ready(node); err != nil {
		t.Error(err)
	}
}
