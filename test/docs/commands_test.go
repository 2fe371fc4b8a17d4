package docs

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/operations/commands"
	"github.com/harrier-ci/harrier/operations/history"
	"github.com/harrier-ci/harrier/operations/plugin"
)

// The programs take every command of the documentation.
func TestCommands(t *testing.T) {
	shell, reader := newShell(t), newReader(t)
	for _, p := range pages(t) {
		for _, b := range p.blocks() {
			if script, isCommands := b.script(); isCommands {
				reader.follow(t, shell, fmt.Sprintf("%s:%d", b.page, b.line), script)
			} else if b.language == "" {
				t.Errorf("%s:%d: say what this block is: ```sh, ```yaml, ```text …", b.page, b.line)
			}
		}
		for _, command := range p.mentioned() {
			reader.follow(t, shell, p.path, command)
		}
	}
	if len(reader.answers) < 50 {
		t.Errorf("%d commands, want those of README and guides", len(reader.answers))
	}
}

// reader follows the documentation as far as that needs no cluster, in a directory of its own.
type reader struct {
	kubernetes, directory string
	makefile              string
	resources             map[string]bool
	// answers has the results of commands that were checked before: many pages have the same commands.
	answers map[string]error
}

// files are the files that the documentation expects.
var files = map[string]string{
	"my-app.private-key.pem":      "key",
	"ca.crt":                      "certificate",
	"values.yaml":                 setValues,
	"your-values.yaml":            setValues,
	"your-controller-values.yaml": "replicaCount: 1\n",
	"your-runners.yaml":           "kind: RunnerDeployment\nmetadata: {name: builders}\nspec: {template: {spec: {organization: my-org}}}\n",
}

func newReader(t *testing.T) *reader {
	t.Helper()
	kubernetes, err := testkube.Programs()
	if err != nil {
		t.Fatal(err)
	}
	r := &reader{
		kubernetes: kubernetes, directory: t.TempDir(), resources: resources(t), answers: map[string]error{},
		makefile: string(read(t, filepath.Join(root, "Makefile"))),
	}
	charts, err := filepath.Abs(filepath.Join(root, "charts"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(charts, filepath.Join(r.directory, "charts")); err != nil {
		t.Fatal(err)
	}
	shown := maps.Clone(files)
	for _, p := range pages(t) {
		for _, b := range p.blocks() {
			if named := fileName.FindStringSubmatch(b.text); named != nil {
				shown[named[1]] = b.text
			}
		}
	}
	for name, content := range shown {
		if err := os.WriteFile(filepath.Join(r.directory, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// fileName is the first line of a block that a reader saves for later commands.
var fileName = regexp.MustCompile(`^# ([a-z-]+\.yaml)\n`)

// follow checks each command of a script.
func (r *reader) follow(t *testing.T, shell shell, place, script string) {
	t.Helper()
	commands, err := shell.commands(t, script)
	if err != nil {
		t.Errorf("%s: %v\n%s", place, err, script)
	}
	for _, command := range commands {
		line := strings.Join(command, " ")
		if _, known := r.answers[line]; !known {
			r.answers[line] = r.check(command)
		}
		if err := r.answers[line]; err != nil {
			t.Errorf("%s: %s: %v", place, line, err)
		}
	}
}

func (r *reader) check(command []string) error {
	arguments := command[1:]
	switch command[0] {
	case "make":
		return r.checkMake(arguments)
	case "go":
		return checkGo(arguments)
	case "helm":
		return r.checkHelm(arguments)
	case "kubectl":
		return r.checkKubectl(arguments)
	case "kind":
		return r.checkKind(arguments)
	case "manager":
		return r.checkManager(arguments)
	case "apt-get", "curl", "grep", "jq", "sha256sum": // not ours
		return nil
	case "cosign": // make release-dry-run runs each of its commands in docs/verify.md
		return nil
	}
	return fmt.Errorf("say in test/docs how to check %s", command[0])
}

// checkMake fails unless the Makefile has the targets and variables.
func (r *reader) checkMake(arguments []string) error {
	for _, word := range arguments {
		name, _, isVariable := strings.Cut(word, "=")
		if isVariable && !regexp.MustCompile(`\b`+name+`\b`).MatchString(r.makefile) {
			return fmt.Errorf("the Makefile knows no %s", name)
		}
		if !isVariable && !strings.Contains(r.makefile, "\n"+word+": ") {
			return fmt.Errorf("the Makefile has no target %s", word)
		}
	}
	return nil
}

// checkKind fails unless kind has the command and make image writes the archive. kind itself needs Docker, and isn't
// here.
func (r *reader) checkKind(arguments []string) error {
	switch command := strings.Join(arguments, " "); {
	case command == "create cluster", command == "delete cluster":
		return nil
	case strings.HasPrefix(command, "load image-archive dist/") && strings.Contains(r.makefile, filepath.Base(command)):
		return nil
	default:
		return fmt.Errorf("say in test/docs how to check kind %s", command)
	}
}

// checkGo fails unless the packages exist.
func checkGo(arguments []string) error {
	for _, word := range arguments {
		if directory, isPackage := strings.CutPrefix(strings.TrimSuffix(word, "/..."), "./"); isPackage {
			if _, err := os.Stat(filepath.Join(root, directory)); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkManager runs commands that validate files. Of other commands it checks the flags only, because they may read
// their standard input: with -h at the end they stop after their flags.
func (r *reader) checkManager(arguments []string) error {
	if len(arguments) > 0 && arguments[0] == "history" {
		_, err := history.ParseOptions(arguments[1:], os.Getenv, io.Discard)
		return err
	}
	if len(arguments) == 0 || !slices.Contains(commands.Names, arguments[0]) {
		return fmt.Errorf("the manager's commands are history and %v", commands.Names)
	}
	arguments = slices.Clone(arguments)
	if file := slices.Index(arguments, "-f") + 1; file == 0 || file == len(arguments) || slices.Contains(arguments, "-") {
		arguments = append(arguments, "-h")
	}
	for i, argument := range arguments {
		path := filepath.Join(r.directory, argument)
		if _, err := os.Stat(path); err == nil || (i > 0 && arguments[i-1] == "-d") {
			arguments[i] = path
		}
	}
	var output bytes.Buffer
	if code := commands.Main(context.Background(), arguments, &output, &output); code != commands.ExitFine {
		return fmt.Errorf("ends with %d: %s", code, output.String())
	}
	return nil
}

// checkPlugin is checkManager for the commands of the plugin.
func (r *reader) checkPlugin(arguments []string) error {
	if slices.ContainsFunc(commands.Offline, func(c commands.OfflineCommand) bool { return c.Name == arguments[0] }) {
		return r.checkManager(arguments)
	}
	var output bytes.Buffer
	words := append(slices.Clone(arguments), "-h")
	if code := plugin.Main(context.Background(), words,
		plugin.Streams{Out: &output, Err: &output}); code != commands.ExitFine {
		return fmt.Errorf("ends with %d: %s", code, output.String())
	}
	if !strings.Contains(output.String(), "kubectl harrier "+arguments[0]) && arguments[0] != "-h" {
		return fmt.Errorf("the plugin has no command %s", arguments[0])
	}
	return nil
}

// run runs a program of Kubernetes without a cluster.
func (r *reader) run(name string, arguments ...string) error {
	command := exec.Command(filepath.Join(r.kubernetes, name), arguments...)
	command.Dir = r.directory
	command.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(r.directory, "none"))
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, output)
	}
	return nil
}
