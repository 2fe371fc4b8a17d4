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

// Kubeconfig returns the file with which kubectl, helm and clients reach the cluster as its administrator.
func (c *Cluster) Kubeconfig() string { return c.layout.kubeconfig() }

// NodeAddress returns the address at which pods reach programs of this machine.
func (c *Cluster) NodeAddress() string { return c.nodeAddress }

// ProgramDir returns the directory that has kubectl, helm and the other programs of Kubernetes.
func (c *Cluster) ProgramDir() string { return c.programs }

// LogDir returns the directory with a log for each component. It outlives the cluster.
func (c *Cluster) LogDir() string { return c.layout.path("log") }

// Ended is closed when a component ends by itself; Err then says which.
func (c *Cluster) Ended() <-chan struct{} { return c.processes.ended }

// Err is nil while all components run, else it names the first that ended, with the end of its log.
func (c *Cluster) Err() error { return c.processes.err() }

// LoadImage makes the images of a "docker save" archive known to the node. Pods use them with imagePullPolicy Never or
// IfNotPresent.
func (c *Cluster) LoadImage(ctx context.Context, archive string) error {
	_, err := run(ctx, c.host.ctr, "--address", c.layout.containerd(), "--namespace", "k8s.io", "images", "import", archive)
	if err != nil {
		return fmt.Errorf("load image %s: %w", filepath.Base(archive), err)
	}
	return nil
}

// Kubectl runs kubectl as administrator and returns what it prints; the error carries its complaint.
func (c *Cluster) Kubectl(ctx context.Context, arguments ...string) (string, error) {
	return c.runTool(ctx, "kubectl", arguments)
}

// Helm runs helm as administrator, like Kubectl.
func (c *Cluster) Helm(ctx context.Context, arguments ...string) (string, error) {
	return c.runTool(ctx, "helm", arguments)
}

// runTool keeps the tools' caches and settings inside of the cluster's directory, away from those of the user.
func (c *Cluster) runTool(ctx context.Context, name string, arguments []string) (string, error) {
	command := exec.CommandContext(ctx, c.program(name), append([]string{"--kubeconfig=" + c.Kubeconfig()}, arguments...)...)
	home := c.layout.in("tools")
	command.Env = append(os.Environ(), "KUBECACHEDIR="+filepath.Join(home, "kube"), "HELM_CACHE_HOME="+filepath.Join(home, "helm-cache"),
		"HELM_CONFIG_HOME="+filepath.Join(home, "helm-config"), "HELM_DATA_HOME="+filepath.Join(home, "helm-data"))
	return outputOf(command)
}

// Programs returns the directory with all programs of Kubernetes, built by hack/kubernetes.sh of the tree at root if it is
// the first time: 6 to 9 minutes on two cores, of which it tells the progress.
func Programs(ctx context.Context, root string, progress io.Writer) (string, error) {
	command := exec.CommandContext(ctx, filepath.Join(root, "hack", "kubernetes.sh"))
	var output strings.Builder
	command.Stdout, command.Stderr = &output, progress
	// A group of its own, so that giving up ends the compiler too and not only the script.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGTERM) }
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("build Kubernetes with hack/kubernetes.sh: %w", err)
	}
	directory := strings.TrimSpace(output.String())
	if _, err := os.Stat(filepath.Join(directory, "kubelet")); err != nil {
		return "", fmt.Errorf("hack/kubernetes.sh printed %q, which has no kubelet: %w", directory, err)
	}
	return directory, nil
}

// Start runs another program of this machine for as long as the cluster lives; Down ends it. Its output is in the log of that
// name, and its end counts as the cluster's failure.
func (c *Cluster) Start(name, program string, arguments ...string) error {
	return c.processes.start(name, program, arguments...)
}
