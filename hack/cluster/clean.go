package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// clean removes everything that a cluster with this directory has on the machine, dead or alive, except for its logs. It goes
// by what is there, not by what a run believes to have started, so it serves after a crash just as well.
//
// The order matters: whoever could start something new goes first, what others stand on goes last.
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

// killShims ends the shims of our containerd, which outlive it. Their command line names its socket.
func killShims(ctx context.Context, l layout) error {
	killed := map[int]struct{}{}
	err := poll(ctx, 10*time.Second, func() bool {
		for _, pid := range shimsOf(l.containerd()) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // gone in between is as good
			killed[pid] = struct{}{}
		}
		reapAdopted(killed)
		return len(killed) == 0 && len(shimsOf(l.containerd())) == 0
	})
	if err != nil {
		return fmt.Errorf("containerd's shims do not end after SIGKILL: %w", err)
	}
	return nil
}

// adoptOrphans makes this process the parent of shims, which detach themselves from containerd. In containers and small
// virtual machines the first process often leaves zombies behind, so that is not left to it.
func adoptOrphans() error {
	const setChildSubreaper = 36 // PR_SET_CHILD_SUBREAPER of linux/prctl.h; package syscall has no name for it
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0); errno != 0 {
		return fmt.Errorf("become the parent of containerd's shims: %w", errno)
	}
	return nil
}

// reapAdopted collects those that have ended. A shim of an earlier run is not our child, which is no error.
func reapAdopted(pids map[int]struct{}) {
	for pid := range pids {
		if reaped, err := syscall.Wait4(pid, nil, syscall.WNOHANG, nil); reaped == pid || err != nil {
			delete(pids, pid)
		}
	}
}

func shimsOf(socket string) []int {
	commandLines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	var found []int
	for _, file := range commandLines {
		content, err := os.ReadFile(file) // a zombie's is empty
		if err != nil || !isShim(content, socket) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			found = append(found, pid)
		}
	}
	return found
}

// isShim takes the content of /proc/PID/cmdline: arguments that end in NUL.
func isShim(commandLine []byte, socket string) bool {
	arguments := strings.Split(string(bytes.TrimRight(commandLine, "\x00")), "\x00")
	address := slices.Index(arguments, "-address")
	return filepath.Base(arguments[0]) == "containerd-shim-runc-v2" &&
		address >= 0 && address+1 < len(arguments) && arguments[address+1] == socket
}

// unmountBelow detaches everything mounted below directory, innermost first, and fails if something stays: removing files
// through a mount would remove somebody else's.
func unmountBelow(directory string) error {
	for range 2 { // a mount on top of another shows only when the upper one is gone
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

// escapes of /proc/self/mountinfo, which separates fields by spaces.
var escapes = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// parseMountPoints reads field 5 of every line and returns those below directory, in the order they were mounted.
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

// removeNetwork removes tables and links. The tables of kube-proxy have the same name on every node, so they are removed only
// if this cluster had one; links to pods vanish with their namespaces.
func removeNetwork(ctx context.Context, h host, recorded []recordedProcess) error {
	tables := [][2]string{{"ip", natTable}}
	if slices.ContainsFunc(recorded, func(r recordedProcess) bool { return r.Name == "kube-proxy" }) {
		tables = append(tables, [2]string{"ip", "kube-proxy"}, [2]string{"ip6", "kube-proxy"})
	}
	for _, table := range tables {
		// Adding a table that exists does nothing, so this works whether or not it is there.
		if _, err := run(ctx, h.nft, fmt.Sprintf("add table %[1]s %[2]s; delete table %[1]s %[2]s", table[0], table[1])); err != nil {
			return err
		}
	}
	if _, err := os.Stat(filepath.Join("/sys/class/net", dummyLink)); err == nil {
		_, err := run(ctx, h.ip, "link", "delete", dummyLink)
		return err
	}
	return nil
}
