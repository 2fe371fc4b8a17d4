package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const cgroupRoot = "/sys/fs/cgroup"

// ourCgroups returns the pods' cgroups, one for each node, in every hierarchy: there is one with cgroup v2, about ten
// with v1.
func ourCgroups() []string {
	if isCgroupV2() {
		return cgroupsBelow(cgroupRoot)
	}
	entries, err := os.ReadDir(cgroupRoot)
	if err != nil {
		return nil
	}
	var found []string
	for _, entry := range entries {
		if entry.IsDir() { // links are second names: cpu -> cpu,cpuacct
			found = append(found, cgroupsBelow(filepath.Join(cgroupRoot, entry.Name()))...)
		}
	}
	return found
}

func cgroupsBelow(hierarchy string) []string {
	var found []string
	for _, name := range nodeNames {
		found = append(found, filepath.Join(hierarchy, name))
	}
	return found
}

func isCgroupV2() bool {
	_, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.controllers"))
	return err == nil
}

// makeCgroups creates the root cgroups that the kubelets' configurations name. The kubelet refuses to start unless it
// exists in every hierarchy.
func makeCgroups() error {
	if isCgroupV2() {
		if err := delegateControllers(); err != nil {
			return err
		}
	}
	for _, directory := range ourCgroups() {
		if err := os.MkdirAll(directory, 0o755); err != nil {
			return fmt.Errorf("make cgroup of pods: %w", err)
		}
	}
	return nil
}

// delegateControllers enables all available controllers for children of the v2 root. Failures are ignored, such as when
// the root of a container is busy: the kubelet names the controllers that it misses.
func delegateControllers() error {
	available, err := os.ReadFile(filepath.Join(cgroupRoot, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("read cgroup controllers: %w", err)
	}
	for _, controller := range strings.Fields(string(available)) {
		_ = os.WriteFile(filepath.Join(cgroupRoot, "cgroup.subtree_control"), []byte("+"+controller), 0)
	}
	return nil
}

// killPods kills every process in the pods' cgroups and waits until their shims have reaped them.
func killPods(ctx context.Context) error {
	err := poll(ctx, 15*time.Second, func() bool {
		members := cgroupMembers()
		for pid := range members {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended in between
		}
		return len(members) == 0
	})
	if err != nil {
		return fmt.Errorf("processes of pods do not end after SIGKILL: %w", err)
	}
	return nil
}

func cgroupMembers() map[int]struct{} {
	members := map[int]struct{}{}
	for _, root := range ourCgroups() {
		_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.Name() != "cgroup.procs" {
				return nil // directories may vanish during the walk
			}
			content, _ := os.ReadFile(path)
			for _, field := range strings.Fields(string(content)) {
				if pid, err := strconv.Atoi(field); err == nil && pid > 1 {
					members[pid] = struct{}{}
				}
			}
			return nil
		})
	}
	return members
}

// removeCgroups removes the emptied cgroups, leaves first. After the last process has ended, the kernel may need a
// moment.
func removeCgroups(ctx context.Context) error {
	err := poll(ctx, 10*time.Second, func() bool {
		left := false
		for _, root := range ourCgroups() {
			removeTree(root)
			_, err := os.Stat(root)
			left = left || !errors.Is(err, os.ErrNotExist)
		}
		return !left
	})
	if err != nil {
		return fmt.Errorf("cgroups %s/*/%s* can't be removed: %w", cgroupRoot, nodeName, err)
	}
	return nil
}

func removeTree(directory string) {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return
	}
	for _, entry := range entries {
		if entry.IsDir() {
			removeTree(filepath.Join(directory, entry.Name()))
		}
	}
	_ = os.Remove(directory) // the caller checks whether it is gone
}
