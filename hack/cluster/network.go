package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
)

// nodeAddress returns the IPv4 address from which this machine reaches the Internet. Without a default route it is the
// first address that others can use, and without any, one on a dummy link that clean removes.
func nodeAddress(ctx context.Context, h host) (string, error) {
	// Connecting a UDP socket sends nothing but makes the kernel choose a route. The address is reserved for
	// documentation.
	connection, err := (&net.Dialer{}).DialContext(ctx, "udp4", "203.0.113.1:9")
	if err == nil {
		local, isUDP := connection.LocalAddr().(*net.UDPAddr)
		_ = connection.Close() // nothing was written to it
		if isUDP && !local.IP.IsLoopback() {
			return local.IP.String(), nil
		}
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return "", fmt.Errorf("list addresses of this machine: %w", err)
	}
	if address := firstUsable(addresses); address != "" {
		return address, nil
	}
	return dummyAddress, addDummyLink(ctx, h)
}

// firstUsable returns the first IPv4 address that others can use, neither loopback nor link-local, empty if there is
// none.
func firstUsable(addresses []net.Addr) string {
	for _, address := range addresses {
		prefix, err := netip.ParsePrefix(address.String())
		if err == nil && prefix.Addr().Is4() && prefix.Addr().IsGlobalUnicast() {
			return prefix.Addr().String()
		}
	}
	return ""
}

func addDummyLink(ctx context.Context, h host) error {
	for _, arguments := range [][]string{
		{"link", "add", dummyLink, "type", "dummy"},
		{"address", "add", dummyAddress + "/32", "dev", dummyLink},
		{"link", "set", dummyLink, "up"},
	} {
		if _, err := run(ctx, h.ip, arguments...); err != nil {
			return fmt.Errorf("give this machine an address: %w", err)
		}
	}
	return nil
}

// mustNotOverlap fails if the machine's networks overlap the ranges of pods or Services, which would make one of them
// unreachable.
func mustNotOverlap(addresses []net.Addr) error {
	for _, ours := range []string{podCIDR, serviceCIDR} {
		our := netip.MustParsePrefix(ours)
		for _, address := range addresses {
			theirs, err := netip.ParsePrefix(address.String())
			if err == nil && our.Overlaps(theirs.Masked()) {
				return fmt.Errorf("this machine has the address %s, and the cluster would use %s; is another cluster "+
					"running here?", theirs, our)
			}
		}
	}
	return nil
}

// masquerade lets pods use the node's address outside of the cluster. One table of our own is easier to remove than the
// rules that the CNI plugins would spread over iptables.
func masquerade(ctx context.Context, h host) error {
	rules := fmt.Sprintf(
		"add table ip %[1]s; add chain ip %[1]s postrouting { type nat hook postrouting priority srcnat; }; "+
			"add rule ip %[1]s postrouting ip saddr %[2]s ip daddr != { %[2]s, %[3]s } masquerade",
		natTable, podCIDR, serviceCIDR)
	if _, err := run(ctx, h.nft, rules); err != nil {
		return fmt.Errorf("let pods reach the network: %w", err)
	}
	return nil
}

// otherProxy fails if another kube-proxy has its tables on this machine: two would undo each other's changes.
func otherProxy(ctx context.Context, h host) error {
	tables, err := run(ctx, h.nft, "list", "tables")
	if err != nil {
		return fmt.Errorf("list nftables tables: %w", err)
	}
	if strings.Contains(tables, "table ip kube-proxy") {
		return errors.New("another Kubernetes node runs on this machine (nftables has a table kube-proxy); " +
			"stop it, or use its cluster with CLUSTER=current")
	}
	return nil
}

// touchedSysctls are the kernel settings that the kubelet and we change. clean restores them.
var touchedSysctls = []string{
	"net/ipv4/ip_forward", "vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
	"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
}

func sysctlPath(name string) string { return filepath.Join("/proc/sys", name) }

// forwardPackets saves the current settings and then changes the one that pods need.
func forwardPackets(l layout) error {
	saved := make(map[string]string, len(touchedSysctls))
	for _, name := range touchedSysctls {
		if value, err := os.ReadFile(sysctlPath(name)); err == nil {
			saved[name] = strings.TrimSpace(string(value))
		}
	}
	content, err := json.Marshal(saved)
	if err != nil {
		return err
	}
	if err := os.WriteFile(l.sysctls(), content, 0o600); err != nil {
		return fmt.Errorf("save kernel settings: %w", err)
	}
	if err := os.WriteFile(sysctlPath("net/ipv4/ip_forward"), []byte("1"), 0); err != nil {
		return fmt.Errorf("let this machine forward packets of pods: %w", err)
	}
	return nil
}

// restoreSysctls restores the settings that differ from those that forwardPackets saved.
func restoreSysctls(l layout) error {
	content, err := os.ReadFile(l.sysctls())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var saved map[string]string
	if err := json.Unmarshal(content, &saved); err != nil {
		return fmt.Errorf("read %s: %w", l.sysctls(), err)
	}
	var failures []error
	for name, value := range saved {
		if now, err := os.ReadFile(sysctlPath(name)); err == nil && strings.TrimSpace(string(now)) != value {
			failures = append(failures, os.WriteFile(sysctlPath(name), []byte(value), 0))
		}
	}
	return errors.Join(failures...)
}
