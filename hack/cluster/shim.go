package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Each pod has a shim, which detaches itself from containerd and outlives it.
const (
	shimProgram = "containerd-shim-runc-v2"
	// shimName is the name that the kernel shows, which has at most 15 characters.
	shimName = "containerd-shim"
	// Shims are reaped every reapInterval: with 1,000 pods an hour, there is less than one zombie at a time.
	reapInterval = 2 * time.Second
)

// adoptOrphans makes this process the parent of shims. In containers and small virtual machines, the first process
// often fails to reap zombies, so shims are not left to it.
func adoptOrphans() error {
	const setChildSubreaper = 36 // PR_SET_CHILD_SUBREAPER of linux/prctl.h; package syscall has no name for it
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0); errno != 0 {
		return fmt.Errorf("become the parent of containerd's shims: %w", errno)
	}
	return nil
}

// reapShims reaps shims that have ended, every reapInterval, until stop is closed.
func reapShims(stop <-chan struct{}) {
	ticker := time.NewTicker(reapInterval)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
			reapOnce()
		}
	}
}

// reapOnce selects our children by name. Waiting for any child would also take those for which package os/exec waits.
func reapOnce() {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil || !isEndedShim(string(content), os.Getpid()) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil) // can't fail, because the child has ended
		}
	}
}

// isEndedShim parses the content of /proc/PID/stat: number, (name), state, parent.
func isEndedShim(stat string, parent int) bool {
	before, after, found := cutLast(stat, ")")
	fields := strings.Fields(after)
	return found && strings.HasSuffix(before, "("+shimName) &&
		len(fields) > 1 && fields[0] == "Z" && fields[1] == strconv.Itoa(parent)
}

// killShims kills the shims of our containerds, whose sockets are on their command lines.
func killShims(ctx context.Context, l layout) error {
	err := poll(ctx, 10*time.Second, func() bool {
		var shims []int
		for _, n := range l.nodes(ports{}) {
			shims = append(shims, shimsOf(n.socket())...)
		}
		for _, pid := range shims {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended in between
		}
		return len(shims) == 0
	})
	if err != nil {
		return fmt.Errorf("containerd's shims do not end after SIGKILL: %w", err)
	}
	reapOnce()
	return nil
}

func shimsOf(socket string) []int {
	commandLines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	var found []int
	for _, file := range commandLines {
		content, err := os.ReadFile(file) // empty for a zombie
		if err != nil || !isShim(content, socket) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			found = append(found, pid)
		}
	}
	return found
}

// isShim parses the content of /proc/PID/cmdline: arguments that end in NUL.
func isShim(commandLine []byte, socket string) bool {
	arguments := strings.Split(string(bytes.TrimRight(commandLine, "\x00")), "\x00")
	address := slices.Index(arguments, "-address")
	return filepath.Base(arguments[0]) == shimProgram &&
		address >= 0 && address+1 < len(arguments) && arguments[address+1] == socket
}
