package upgrade

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/harrier-ci/harrier/test/rig"
)

const root = "../.."

// formerRelease is a product from another tree, with the directory of its CRDs.
type formerRelease struct {
	rig.Product

	crds string
}

// formerProduct builds the programs of a release: of a directory that has its tree, or of a commit of this repository,
// whose tree is written below bin/.
func formerProduct(t *testing.T, name string) formerRelease {
	t.Helper()
	tree := name
	if info, err := os.Stat(name); err != nil || !info.IsDir() {
		tree = checkedOut(t, name)
	}
	tree, err := filepath.Abs(tree)
	if err != nil {
		t.Fatal(err)
	}
	// A tree without a workspace must not find ours above it. With the flags of package rig, what both need is compiled
	// once.
	workspace := ""
	if _, err := os.Stat(filepath.Join(tree, "go.work")); err != nil {
		workspace = "off"
	}
	run(t, tree, []string{"GOWORK=" + workspace}, "go", "build", "-ldflags", "-s -w", "-o", filepath.Join("bin", "former")+"/",
		"./cmd/manager", "./cmd/listener")
	return formerRelease{
		Product: rig.Product{
			Manager: filepath.Join(tree, "bin", "former", "manager"), Listener: filepath.Join(tree, "bin", "former", "listener"),
			Controller: filepath.Join(tree, "charts", "gha-runner-scale-set-controller"),
			Set:        filepath.Join(tree, "charts", "gha-runner-scale-set"),
			Tag:        regexp.MustCompile(`[^A-Za-z0-9]+`).ReplaceAllString("former-"+filepath.Base(name), "-"),
		},
		crds: filepath.Join(tree, "apis", "crds"),
	}
}

// checkedOut returns the tree of a commit.
func checkedOut(t *testing.T, commit string) string {
	t.Helper()
	missing := exec.CommandContext(t.Context(), "git", "cat-file", "-e", played+"^{commit}")
	missing.Dir = root
	if commit == played && missing.Run() != nil {
		commit = run(t, root, nil, "git", "rev-list", "--reverse", "HEAD")
		commit, _, _ = strings.Cut(commit, "\n")
		t.Logf("this clone has no commit %s: its oldest one, %s, plays the release before", played, commit)
	}
	hash := strings.TrimSpace(run(t, root, nil, "git", "rev-parse", "--verify", "--end-of-options", commit+"^{commit}"))
	tree, err := filepath.Abs(filepath.Join(root, "bin", "former", hash))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(tree, "go.mod")); err == nil {
		return tree
	}
	archive := filepath.Join(t.TempDir(), "tree.tar")
	run(t, root, nil, "git", "archive", "--output", archive, hash)
	if err := os.MkdirAll(tree, 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, tree, nil, "tar", "--extract", "--file", archive)
	return tree
}

// run runs a program in a directory and returns what it prints.
func run(t *testing.T, directory string, environment []string, name string, arguments ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, arguments...)
	command.Dir, command.Env = directory, append(os.Environ(), environment...)
	var complaint strings.Builder
	command.Stderr = &complaint
	output, err := command.Output()
	if err != nil {
		t.Fatalf("%s %v: %v: %s", name, arguments, err, complaint.String())
	}
	return string(output)
}
