package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// programs are the programs in the documentation's commands.
var programs = []string{"apt-get", "cosign", "curl", "go", "grep", "helm", "jq", "kind", "kubectl", "make", "manager", "sha256sum"}

// separator stands between the words of a command. It occurs in none of them.
const separator = "\x1f"

// recorder runs in place of a program. It writes its arguments down, in one write, because commands of a pipe run side
// by side.
const recorder = `#!%s
line=$(printf '%%s\037' "${0##*/}" "$@")
printf '%%s\n' "$line" >>"$RECORD"
`

// shell runs scripts in which every program only writes its arguments down. So a real shell reads quotes, continued
// lines, pipes and comments, and this machine is not changed.
type shell struct{ bash, directory string }

func newShell(t *testing.T) shell {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	s := shell{bash: bash, directory: t.TempDir()}
	for _, name := range programs {
		if err := os.WriteFile(filepath.Join(s.directory, name), fmt.Appendf(nil, recorder, bash), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// commands returns the commands of a script, each as its words. A program that is not among those above is an error.
func (s shell) commands(t *testing.T, script string) ([][]string, error) {
	t.Helper()
	record := filepath.Join(t.TempDir(), "record")
	command := exec.CommandContext(t.Context(), s.bash, "-euc", "set -o pipefail\n"+script)
	command.Env = []string{"PATH=" + s.directory, "RECORD=" + record}
	command.Dir = t.TempDir()
	if output, err := command.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, output)
	}
	content, err := os.ReadFile(record)
	if err != nil {
		return nil, fmt.Errorf("it runs no command: %w", err)
	}
	var found [][]string
	for line := range strings.SplitSeq(strings.TrimSuffix(string(content), "\n"), "\n") {
		found = append(found, strings.Split(strings.TrimSuffix(line, separator), separator))
	}
	return found, nil
}

// script returns the commands that a reader types, false if the block has none. In a console block they follow the
// prompt. A block without a language has commands if it begins with a program.
func (b block) script() (string, bool) {
	switch b.language {
	case "sh":
		return b.variables + b.text, true
	case "console":
		var typed []string
		for line := range strings.SplitSeq(b.text, "\n") {
			if command, isTyped := strings.CutPrefix(line, "$ "); isTyped {
				typed = append(typed, command)
			}
		}
		return strings.Join(typed, "\n"), true
	case "":
		first, _, _ := strings.Cut(b.text, " ")
		return b.text, slices.Contains(programs, strings.TrimSpace(first))
	}
	return "", false
}

// mentioned returns the commands in prose that have arguments. A mere name, as in `helm upgrade`, doesn't count, nor
// does a command with "…".
func (p page) mentioned() []string {
	var found []string
	for _, code := range span.FindAllStringSubmatch(p.prose(), -1) {
		words := strings.Fields(code[1])
		named := len(words) < 2 || strings.HasPrefix(words[1], "-") ||
			(len(words) == 2 && (words[0] == "helm" || words[0] == "kubectl"))
		if slices.Contains(programs, words[0]) && !named && !strings.Contains(code[1], "…") {
			found = append(found, code[1])
		}
	}
	return found
}
