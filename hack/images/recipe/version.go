package recipe

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// Version is what programs report about themselves.
type Version struct {
	// Version is that of the charts.
	Version string
	// Commit is the full hash, or "unknown".
	Commit string
}

// controllerChart has the version that both charts, the image and the manager's own label share.
const controllerChart = "charts/gha-runner-scale-set-controller/Chart.yaml"

// VersionOf reads the version from the chart and asks git for the commit of the tree at root. Without git, as in an export of the
// tree, the commit is unknown.
func VersionOf(ctx context.Context, root string) (Version, error) {
	content, err := os.ReadFile(filepath.Join(root, controllerChart))
	if err != nil {
		return Version{}, fmt.Errorf("find out the version: %w", err)
	}
	var chart struct {
		AppVersion string `json:"appVersion"`
	}
	if err := yaml.Unmarshal(content, &chart); err != nil {
		return Version{}, fmt.Errorf("find out the version from %s: %w", controllerChart, err)
	}
	if chart.AppVersion == "" {
		return Version{}, fmt.Errorf("find out the version: %s has no appVersion", controllerChart)
	}
	return Version{Version: chart.AppVersion, Commit: commitOf(ctx, root)}, nil
}

func commitOf(ctx context.Context, root string) string {
	command := exec.CommandContext(ctx, "git", "rev-parse", "HEAD")
	command.Dir = root
	output, err := command.Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(output))
}
