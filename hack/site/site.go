// Package site prepares what the product needs to run: a cluster, a simulated GitHub (internal/fakegithub), and the images of
// this tree. It installs both charts there, waits with deadlines whose errors say what is missing, and finds what is left after
// an uninstallation. hack/demo and test/e2e are built on it.
package site

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/internal/fakegithub"
)

// Names of what is installed. The callers name scale sets and their namespaces.
const (
	SystemNamespace = "harrier-demo-system"
	ControllerName  = "harrier-demo"
	// Organization is the organization that the runners serve.
	Organization = "my-org"
)

// Site is a cluster with a GitHub, ready for the charts to be installed.
type Site struct {
	// Root is the directory with this module's go.mod.
	Root string
	// Programs is the directory of kubectl and helm; empty means those on PATH.
	Programs string
	// Kubeconfig is empty for the current context.
	Kubeconfig string
	// ProductImage and DemoImage are images that the cluster's nodes have or can pull.
	ProductImage, DemoImage string
	// PullPolicy is that of all pods. With a registry it is Always, because a tag may have been pushed again.
	PullPolicy string
	// GitHubURL is GitHub's URL for pods, without an organization.
	GitHubURL string
	// Control reaches the same GitHub from this process, to queue jobs and read its state.
	Control *fakegithub.ControlClient
	// Logs is a directory with logs for the search of a failure's cause. Empty if there is none.
	Logs string
	// Progress gets a line about what is being waited for; nil: none.
	Progress io.Writer
	// Failed returns an error if something that the site depends on has ended. If Failed is nil, that does not happen.
	Failed func() error
	// Down removes the site.
	Down func(context.Context) error
	// Leave gives up the site and keeps it running.
	Leave func()
	// AddNode starts a second node and returns its name. It has the taint cluster.SecondNodeTaint. Nil if the site can't.
	AddNode func(context.Context) (string, error)
}

// Report writes a line to Progress. Failures to write are ignored.
func (s *Site) Report(format string, arguments ...any) {
	if s.Progress != nil {
		_, _ = fmt.Fprintf(s.Progress, format+"\n", arguments...)
	}
}

// Kubectl runs kubectl and returns what it prints.
func (s *Site) Kubectl(ctx context.Context, arguments ...string) (string, error) {
	return s.tool(ctx, "kubectl", arguments)
}

// Helm runs helm and returns what it prints.
func (s *Site) Helm(ctx context.Context, arguments ...string) (string, error) {
	return s.tool(ctx, "helm", arguments)
}

// Command prepares a call of kubectl or helm for the site's cluster. The call ends with ctx.
func (s *Site) Command(ctx context.Context, name string, arguments ...string) *exec.Cmd {
	program := name
	if s.Programs != "" {
		program = filepath.Join(s.Programs, name)
	}
	if s.Kubeconfig != "" {
		arguments = append([]string{"--kubeconfig=" + s.Kubeconfig}, arguments...)
	}
	command := exec.CommandContext(ctx, program, arguments...)
	// Interrupted, helm and kubectl end in order. If helm were killed, its release would stay pending.
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 10 * time.Second
	return command
}

func (s *Site) tool(ctx context.Context, name string, arguments []string) (string, error) {
	command := s.Command(ctx, name, arguments...)
	var output, complaint strings.Builder
	command.Stdout, command.Stderr = &output, &complaint
	if err := command.Run(); err != nil {
		return output.String(), fmt.Errorf("%s %s: %w: %s", name, arguments[0], err, strings.TrimSpace(complaint.String()))
	}
	return output.String(), nil
}
