package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"sigs.k8s.io/yaml"
)

// version has what programs report about themselves.
type version struct {
	// version is that of the charts.
	version string
	// commit is the full hash, or "unknown".
	commit string
}

// controllerChart has the version that both charts, the image and the manager's own label share.
const controllerChart = "charts/gha-runner-scale-set-controller/Chart.yaml"

// versionOf reads the version from the chart and asks git for the commit of the tree. Without git, as in an export of
// the tree, the commit is unknown.
func versionOf(ctx context.Context) (version, error) {
	content, err := os.ReadFile(controllerChart)
	if err != nil {
		return version{}, fmt.Errorf("find out the version: %w", err)
	}
	var chart struct {
		AppVersion string `json:"appVersion"`
	}
	if err := yaml.Unmarshal(content, &chart); err != nil {
		return version{}, fmt.Errorf("find out the version from %s: %w", controllerChart, err)
	}
	if chart.AppVersion == "" {
		return version{}, fmt.Errorf("find out the version: %s has no appVersion", controllerChart)
	}
	return version{version: chart.AppVersion, commit: commitOf(ctx)}, nil
}

func commitOf(ctx context.Context) string {
	command := exec.CommandContext(ctx, "git", "rev-parse", "HEAD")
	output, err := command.Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(output))
}
