package recipe

import (
	"context"
	"os/exec"
	"strings"
)

// Version is what programs report as their own.
type Version struct {
	// Version is the nearest tag with what came after it, or "dev".
	Version string
	// Commit is the full hash, or "unknown".
	Commit string
}

// VersionOf asks git about the tree at root. A tree without git, an export for example, is "dev" and "unknown".
func VersionOf(ctx context.Context, root string) Version {
	return Version{
		Version: gitOr(ctx, root, "dev", "describe", "--tags", "--always", "--dirty"),
		Commit:  gitOr(ctx, root, "unknown", "rev-parse", "HEAD"),
	}
}

func gitOr(ctx context.Context, root, otherwise string, arguments ...string) string {
	command := exec.CommandContext(ctx, "git", arguments...)
	command.Dir = root
	output, err := command.Output()
	if answer := strings.TrimSpace(string(output)); err == nil && answer != "" {
		return answer
	}
	return otherwise
}
