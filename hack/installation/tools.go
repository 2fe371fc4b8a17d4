// Package installation has what the demonstration and the tests have in common: kubectl and helm for a cluster, charts
// that are installed with values, and what is left of the product afterwards. hack/site and test/rig are built on it.
package installation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// Tools are kubectl and helm for one cluster.
type Tools struct {
	// Programs is the directory of kubectl and helm; empty means those on PATH.
	Programs string
	// Kubeconfig is empty for the current context.
	Kubeconfig string
	// Environment is added to that of this process.
	Environment []string
}

// Kubectl runs kubectl and returns its stdout. Its error has what kubectl has written to stderr.
func (t Tools) Kubectl(ctx context.Context, arguments ...string) (string, error) {
	return t.run(ctx, "kubectl", arguments)
}

// Helm runs helm and returns its stdout. Its error has what helm has written to stderr.
func (t Tools) Helm(ctx context.Context, arguments ...string) (string, error) {
	return t.run(ctx, "helm", arguments)
}

// Values are a chart's values.
type Values map[string]any

// HelmWith runs helm with values in a file.
func (t Tools) HelmWith(ctx context.Context, values Values, arguments ...string) (string, error) {
	file, err := writeValues(values)
	if err != nil {
		return "", fmt.Errorf("write values for helm %s: %w", arguments[0], err)
	}
	defer func() { _ = os.Remove(file) }()
	return t.Helm(ctx, append(arguments, "--values="+file)...)
}

// Command prepares a call of kubectl or helm. The call ends with ctx.
func (t Tools) Command(ctx context.Context, name string, arguments ...string) *exec.Cmd {
	program := name
	if t.Programs != "" {
		program = filepath.Join(t.Programs, name)
	}
	if t.Kubeconfig != "" {
		arguments = append([]string{"--kubeconfig=" + t.Kubeconfig}, arguments...)
	}
	command := exec.CommandContext(ctx, program, arguments...)
	command.Env = append(os.Environ(), t.Environment...)
	// Interrupted, helm and kubectl end in order. If helm were killed, its release would stay pending.
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 10 * time.Second
	return command
}

func (t Tools) run(ctx context.Context, name string, arguments []string) (string, error) {
	command := t.Command(ctx, name, arguments...)
	var output, complaint strings.Builder
	command.Stdout, command.Stderr = &output, &complaint
	if err := command.Run(); err != nil {
		return output.String(), fmt.Errorf("%s %s: %w: %s", name, strings.Join(arguments, " "), err,
			strings.TrimSpace(complaint.String()))
	}
	return output.String(), nil
}

func writeValues(values Values) (string, error) {
	content, err := yaml.Marshal(values)
	if err != nil {
		return "", err
	}
	file, err := os.CreateTemp("", "harrier-values-*.yaml")
	if err != nil {
		return "", err
	}
	_, err = file.Write(content)
	return file.Name(), errors.Join(err, file.Close())
}
