package cluster

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Kubeconfig returns the path of the administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return c.layout.kubeconfig() }

// NodeAddress returns the address at which pods reach programs on this machine.
func (c *Cluster) NodeAddress() string { return c.nodeAddress }

// ProgramDir returns the directory with kubectl, helm and the other programs of Kubernetes.
func (c *Cluster) ProgramDir() string { return c.programs }

// LogDir returns the directory with a log for each component. It outlives the cluster.
func (c *Cluster) LogDir() string { return c.layout.path("log") }

// Err returns nil while all components run. Otherwise it names the first one that ended, with the end of its log.
func (c *Cluster) Err() error { return c.processes.err() }

// LoadImage imports the archive of a directory that Image has returned into the containerd of each node. Pods can use
// them with imagePullPolicy Never or IfNotPresent. A node that is added later gets them, too, so the archive has to
// stay.
func (c *Cluster) LoadImage(ctx context.Context, archive string) error {
	c.archives = append(c.archives, archive)
	for _, n := range c.running {
		if err := c.importImage(ctx, n, archive); err != nil {
			return err
		}
	}
	return nil
}

// Programs returns the directory with all programs of Kubernetes. The first time, hack/kubernetes.sh of the tree at
// root builds them, which takes 6 to 9 minutes on two cores and is reported to progress.
func Programs(ctx context.Context, root string, progress io.Writer) (string, error) {
	return runScript(ctx, root, progress, "kubernetes.sh", "kubelet")
}

// Image returns the directory with the programs of an image and its archive, image.tar, which has it under each of the
// names. hack/images.sh of the tree at root builds it unless nothing has changed, and reports to progress.
func Image(ctx context.Context, root string, progress io.Writer, recipe string, names ...string) (string, error) {
	return runScript(ctx, root, progress, "images.sh", "image.tar", append([]string{"keep", recipe}, names...)...)
}

// runScript runs a script of hack that prints a directory, and returns that. It fails if the directory lacks the file.
func runScript(
	ctx context.Context, root string, progress io.Writer, name, file string, arguments ...string,
) (string, error) {
	command := exec.CommandContext(ctx, filepath.Join(root, "hack", name), arguments...)
	var output strings.Builder
	command.Stdout, command.Stderr = &output, progress
	// A process group of its own, so that cancelling ends the compiler as well as the script.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGTERM) }
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("run hack/%s %s: %w", name, strings.Join(arguments, " "), err)
	}
	directory := strings.TrimSpace(output.String())
	if _, err := os.Stat(filepath.Join(directory, file)); err != nil {
		return "", fmt.Errorf("hack/%s printed %q, which has no %s: %w", name, directory, file, err)
	}
	return directory, nil
}

// Start runs another program of this machine until Down ends it. Its output is in the log of that name. If it ends by
// itself, that is a failure of the cluster.
func (c *Cluster) Start(name, program string, arguments ...string) error {
	return c.processes.start(name, program, arguments...)
}
