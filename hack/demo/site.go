package main

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

// site is a cluster with a GitHub, ready for the charts to be installed.
type site struct {
	// programs is the directory of kubectl and helm; empty means those on PATH.
	programs string
	// kubeconfig is empty for the current context.
	kubeconfig string
	// productImage and demoImage can be pulled by the cluster's nodes, or are there already.
	productImage, demoImage string
	// pullPolicy of all pods: with a registry, a tag may have been pushed again.
	pullPolicy string
	// githubURL is GitHub as pods see it, without organization.
	githubURL string
	// control is the same GitHub as we see it, to queue jobs and to look.
	control *fakegithub.ControlClient
	// logs is what to look at when something goes wrong; empty for none.
	logs string
	// failed tells when what the site stands on has ended; nil means never.
	failed func() error
	// down removes the site.
	down func(context.Context) error
	// leave lets go of it and keeps it running.
	leave func()
}

// kubectl runs kubectl and returns what it prints.
func (s *site) kubectl(ctx context.Context, arguments ...string) (string, error) {
	return s.tool(ctx, "kubectl", arguments)
}

func (s *site) helm(ctx context.Context, arguments ...string) (string, error) {
	return s.tool(ctx, "helm", arguments)
}

func (s *site) command(ctx context.Context, name string, arguments []string) *exec.Cmd {
	program := name
	if s.programs != "" {
		program = filepath.Join(s.programs, name)
	}
	if s.kubeconfig != "" {
		arguments = append([]string{"--kubeconfig=" + s.kubeconfig}, arguments...)
	}
	command := exec.CommandContext(ctx, program, arguments...)
	// Asked to stop, helm and kubectl say so and end; killed at once, helm would leave a release in between.
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 10 * time.Second
	return command
}

func (s *site) tool(ctx context.Context, name string, arguments []string) (string, error) {
	command := s.command(ctx, name, arguments)
	var output, complaint strings.Builder
	command.Stdout, command.Stderr = &output, &complaint
	if err := command.Run(); err != nil {
		return output.String(), fmt.Errorf("%s %s: %w: %s", name, arguments[0], err, strings.TrimSpace(complaint.String()))
	}
	return output.String(), nil
}
