package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// clean removes everything that a cluster in this directory has on the machine, running or not, except for its logs. It
// looks for what exists instead of relying on what this process has started, so it works after a crash as well.
//
// The order matters: first goes what could start something new, last what others depend on.
func clean(ctx context.Context, l layout, h host) error {
	recorded, err := readRecord(l)
	if err != nil {
		return fmt.Errorf("clean up cluster: %w", err)
	}
	if _, err := os.Stat(l.state()); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	steps := []func() error{
		func() error { return kill(ctx, recorded) },
		func() error { return killPods(ctx) },
		func() error { return killShims(ctx, l) },
		func() error { return unmountBelow(l.state()) },
		func() error { return removeNetwork(ctx, h, recorded) },
		func() error { return removeCgroups(ctx) },
		func() error { return removeStrayFiles(l) },
		func() error { return restoreSysctls(l) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("clean up cluster in %s: %w", l.dir, err)
		}
	}
	if err := os.RemoveAll(l.state()); err != nil {
		return fmt.Errorf("clean up cluster: %w", err)
	}
	return nil
}

// unmountBelow detaches everything mounted below directory, innermost first. It fails if a mount remains, because
// removing files through a mount would remove somebody else's.
func unmountBelow(directory string) error {
	for range 2 { // a mount below another becomes visible only when the upper one is gone
		points, err := mountPointsBelow(directory)
		if err != nil {
			return err
		}
		for _, point := range slices.Backward(points) {
			if err := syscall.Unmount(point, syscall.MNT_DETACH); err != nil && !errors.Is(err, syscall.EINVAL) {
				return fmt.Errorf("unmount %s: %w", point, err)
			}
		}
	}
	points, err := mountPointsBelow(directory)
	if err == nil && len(points) > 0 {
		return fmt.Errorf("still mounted: %s", strings.Join(points, ", "))
	}
	return err
}

func mountPointsBelow(directory string) ([]string, error) {
	content, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	return parseMountPoints(string(content), directory), nil
}

// escapes decodes paths in /proc/self/mountinfo, which separates its fields by spaces.
var escapes = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// parseMountPoints returns field 5 of every line that is below directory, in the order in which they were mounted.
func parseMountPoints(mountInfo, directory string) []string {
	var points []string
	for line := range strings.Lines(mountInfo) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		if point := escapes.Replace(fields[4]); strings.HasPrefix(point, directory+"/") {
			points = append(points, point)
		}
	}
	return points
}

// removeNetwork removes nftables tables and the dummy link. kube-proxy's tables have the same name on every node, so
// they are removed only if this cluster ran a kube-proxy. Links to pods vanish with the pods' network namespaces.
func removeNetwork(ctx context.Context, h host, recorded []recordedProcess) error {
	tables := [][2]string{{"ip", natTable}}
	if slices.ContainsFunc(recorded, func(r recordedProcess) bool { return r.Name == "kube-proxy" }) {
		tables = append(tables, [2]string{"ip", "kube-proxy"}, [2]string{"ip6", "kube-proxy"})
	}
	for _, table := range tables {
		// Adding a table that exists does nothing, so this works whether or not it is there.
		if _, err := run(ctx, h.nft, fmt.Sprintf("add table %[1]s %[2]s; delete table %[1]s %[2]s", table[0],
			table[1])); err != nil {
			return err
		}
	}
	if _, err := os.Stat(filepath.Join("/sys/class/net", dummyLink)); err == nil {
		_, err := run(ctx, h.ip, "link", "delete", dummyLink)
		return err
	}
	return nil
}
