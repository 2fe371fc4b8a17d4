package fakenode

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/harrier-ci/harrier/internal/testkube/ports"
	"github.com/harrier-ci/harrier/internal/testkube/process"
)

// Exit codes of a program that doesn't start, as in a shell.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
)

// Exec is a Runner that runs a real program of this machine instead of the container's image and command.
//
// The program gets the container's args and environment, the pod's name in HOSTNAME, and in KUBECONFIG a file with
// which it acts as the pod's ServiceAccount. Volumes are mounted below a temporary directory: arguments and values of
// variables that are paths in a volume are changed to lead there, and updates of Secrets and ConfigMaps arrive there.
// SIGTERM and SIGKILL are sent as by a container runtime.
type Exec struct {
	// Path of the program.
	Path string
	// Args come before those of the container.
	Args []string
	// Environment is added to the container's and takes precedence over it.
	Environment map[string]string
	// Ports names, for each container port, the environment variable that tells the program on which address of this
	// machine to listen instead. Probes and Node.Address use that address. A port that is not named is not probed.
	Ports map[int32]string
}

// Listener runs the listener program, with its health on port 8081 and its metrics on 8080.
func Listener(path string) Exec {
	return Exec{Path: path, Ports: map[int32]string{8081: "LISTENER_HEALTH_ADDR", 8080: "LISTENER_METRICS_ADDR"}}
}

func (e Exec) portVariables() map[int32]string { return e.Ports }

// Run runs the program to its end.
func (e Exec) Run(ctx context.Context, c *Container) int {
	log, err := os.OpenFile(c.player.node.logPath(c.player.key(), c.Spec.Name), os.O_CREATE|os.O_APPEND|os.O_WRONLY,
		0o600)
	if err != nil {
		return exitNotExecutable
	}
	defer log.Close()
	started, err := e.start(c, log)
	if err != nil {
		fmt.Fprintln(log, "fakenode:", err)
		if errors.Is(err, fs.ErrNotExist) {
			return exitNotFound
		}
		return exitNotExecutable
	}
	select {
	case <-started.Done():
		return started.ExitCode()
	case <-ctx.Done():
	}
	return end(started, c)
}

// end sends SIGTERM, and SIGKILL when the container is killed. Sending fails only if the process has ended.
func end(started *process.Process, c *Container) int {
	if !c.wasKilled() {
		_ = started.Signal(syscall.SIGTERM)
	}
	select {
	case <-started.Done():
	case <-c.Killed():
		_ = started.Stop(0)
	}
	return started.ExitCode()
}

func (e Exec) start(c *Container, log *os.File) (*process.Process, error) {
	root, err := c.linkMounts()
	if err != nil {
		return nil, err
	}
	// Capped, so that appending doesn't write into the array that all containers share.
	arguments := e.Args[:len(e.Args):len(e.Args)]
	for _, argument := range c.Spec.Args {
		arguments = append(arguments, c.inRoot(root, expand(argument, c.Environment)))
	}
	command := exec.Command(e.Path, arguments...)
	command.Stdout, command.Stderr = log, log
	command.Env = e.environment(c, root)
	return process.Start(command)
}

// environment adds the container's variables to the few that programs need to run. Other variables of the test must not
// leak into programs.
func (e Exec) environment(c *Container, root string) []string {
	variables := map[string]string{
		"PATH": os.Getenv("PATH"), "HOME": os.Getenv("HOME"), "TMPDIR": os.TempDir(),
		"HOSTNAME": c.Pod.Name, "KUBECONFIG": c.player.kubeconfig(),
	}
	for name, value := range c.Environment {
		variables[name] = c.inRoot(root, value)
	}
	maps.Copy(variables, e.Environment)
	environment := make([]string, 0, len(variables))
	for name, value := range variables {
		environment = append(environment, name+"="+value)
	}
	return environment
}

// linkMounts creates the container's view of the pod's volumes and returns its root directory.
func (c *Container) linkMounts() (string, error) {
	root := filepath.Join(c.player.directory, "containers", c.Spec.Name)
	for _, mount := range c.Spec.VolumeMounts {
		// A link, so that the container sees it when the volume's files are switched.
		link := filepath.Join(root, mount.MountPath)
		if err := os.MkdirAll(filepath.Dir(link), 0o700); err != nil {
			return "", fmt.Errorf("make a place for volume %s: %w", mount.Name, err)
		}
		target := filepath.Join(c.player.volumeDirectory(mount.Name), mount.SubPath)
		if err := os.Symlink(target, link); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("mount volume %s: %w", mount.Name, err)
		}
	}
	return root, nil
}

// inRoot maps a path in one of the container's volumes to its place on this machine and returns other values unchanged.
func (c *Container) inRoot(root, value string) string {
	for _, mount := range c.Spec.VolumeMounts {
		path := strings.TrimSuffix(mount.MountPath, "/")
		if value == path || strings.HasPrefix(value, path+"/") {
			return filepath.Join(root, value)
		}
	}
	return value
}

// assignPorts finds an address for every port and adds it to the environment.
func assignPorts(variables map[int32]string, environment map[string]string) (map[int32]string, error) {
	taken, err := ports.Take(len(variables))
	if err != nil {
		return nil, fmt.Errorf("find addresses for a container's ports: %w", err)
	}
	addresses := map[int32]string{}
	for port, variable := range variables {
		addresses[port] = net.JoinHostPort(nodeAddress, strconv.Itoa(taken[0]))
		environment[variable], taken = addresses[port], taken[1:]
	}
	return addresses, nil
}
