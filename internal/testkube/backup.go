package testkube

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// A restore raises etcd's revision by restoredRevisions. What clients saw after the backup must have lower ones, or
// they would take restored objects for older than what they know; etcd's own documentation suggests a billion.
const restoredRevisions = 1_000_000_000

// SaveEtcd writes a backup of all objects to a file that doesn't exist yet.
func (c *Cluster) SaveEtcd(ctx context.Context, path string) error {
	return c.finish(ctx, "etcdctl", "--endpoints=http://127.0.0.1:"+strconv.Itoa(c.etcdPort), "snapshot", "save", path)
}

// RestoreEtcd replaces all objects by those of a backup, as Kubernetes' documentation says: API server and etcd are
// stopped, and are back on their ports when it returns. The controller manager, if there is one, is restarted. Other
// clients are not told: their watches break, and can't be continued.
func (c *Cluster) RestoreEtcd(ctx context.Context, path string) error {
	managed := c.runs("kube-controller-manager")
	for _, program := range []string{"kube-controller-manager", "kube-apiserver", "etcd"} {
		if err := c.kill(program); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(c.etcdData()); err != nil {
		return fmt.Errorf("remove the data of etcd: %w", err)
	}
	err := c.finish(ctx, "etcdutl", append([]string{"snapshot", "restore", path, "--data-dir=" + c.etcdData(),
		"--bump-revision=" + strconv.Itoa(restoredRevisions), "--mark-compacted"}, c.memberArguments()...)...)
	if err != nil {
		return err
	}
	if err := c.StartEtcd(); err != nil {
		return err
	}
	if err := c.StartAPIServer(ctx); err != nil || !managed {
		return err
	}
	return c.run("kube-controller-manager", c.controllerManagerArguments())
}

// runs reports whether a program of the control plane is meant to run.
func (c *Cluster) runs(program string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.processes[program] != nil
}

// finish runs a program to its end.
func (c *Cluster) finish(ctx context.Context, program string, arguments ...string) error {
	output, err := exec.CommandContext(ctx, filepath.Join(c.programs, program), arguments...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("run %s: %w:\n%s", program, err, output)
	}
	return nil
}
