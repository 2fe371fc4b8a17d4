// Package site makes a place for the product to run in: a cluster, a GitHub that lives in memory (internal/fakegithub), and
// the images of this tree. It installs both charts there, waits with deadlines that say what for, and finds what is left.
// hack/demo and test/e2e stand on it.
package site

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/internal/fakegithub"
)

// Names of what is installed. Scale sets, and the namespaces they are in, have names of their own.
const (
	SystemNamespace = "harrier-demo-system"
	ControllerName  = "harrier-demo"
	// Organization is whom the runners serve.
	Organization = "my-org"
)

// Site is a cluster with a GitHub, ready for the charts to be installed.
type Site struct {
	// Root is the directory of this module's go.mod.
	Root string
	// Programs is the directory of kubectl and helm; empty means those on PATH.
	Programs string
	// Kubeconfig is empty for the current context.
	Kubeconfig string
	// ProductImage and DemoImage can be pulled by the cluster's nodes, or are there already.
	ProductImage, DemoImage string
	// PullPolicy of all pods: with a registry, a tag may have been pushed again.
	PullPolicy string
	// GitHubURL is GitHub as pods see it, without organization.
	GitHubURL string
	// Control is the same GitHub as we see it, to queue jobs and to look.
	Control *fakegithub.ControlClient
	// Logs is a directory to look into when something goes wrong; empty for none.
	Logs string
	// Failed tells when what the site stands on has ended; nil means never.
	Failed func() error
	// Down removes the site.
	Down func(context.Context) error
	// Leave lets go of it and keeps it running.
	Leave func()
}

// Kubectl runs kubectl and returns what it prints.
func (s *Site) Kubectl(ctx context.Context, arguments ...string) (string, error) {
	return s.tool(ctx, "kubectl", arguments)
}

// Helm runs helm and returns what it prints.
func (s *Site) Helm(ctx context.Context, arguments ...string) (string, error) {
	return s.tool(ctx, "helm", arguments)
}

// Command prepares a call of kubectl or helm for the site's cluster. It ends with ctx.
func (s *Site) Command(ctx context.Context, name string, arguments ...string) *exec.Cmd {
	program := name
	if s.Programs != "" {
		program = filepath.Join(s.Programs, name)
	}
	if s.Kubeconfig != "" {
		arguments = append([]string{"--kubeconfig=" + s.Kubeconfig}, arguments...)
	}
	command := exec.CommandContext(ctx, program, arguments...)
	// Asked to stop, helm and kubectl say so and end; killed at once, helm would leave a release in between.
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
