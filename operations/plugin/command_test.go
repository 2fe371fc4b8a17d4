package plugin_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/harrier-ci/harrier/operations/commands"
	"github.com/harrier-ci/harrier/operations/plugin"
)

// said runs a command line in a directory without a kubeconfig.
func said(t *testing.T, arguments ...string) (code int, stdout, stderr string) {
	t.Helper()
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("GITHUB_TOKEN", "")
	t.Setenv("GH_TOKEN", "")
	var out, errors bytes.Buffer
	code = plugin.Main(t.Context(), arguments, plugin.Streams{In: &bytes.Buffer{}, Out: &out, Err: &errors})
	return code, out.String(), errors.String()
}

// every calls look for each command.
func every(command *cobra.Command, look func(*cobra.Command)) {
	look(command)
	for _, child := range command.Commands() {
		every(child, look)
	}
}

// Every command has help with an example, and the commands of our own the flags that all have.
func TestHelp(t *testing.T) {
	every(plugin.Command(plugin.Streams{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}), func(command *cobra.Command) {
		path := strings.Fields(command.CommandPath())[2:] // without kubectl harrier
		if command.Name() == "help" || len(path) > 0 && path[0] == "completion" {
			return
		}
		code, stdout, stderr := said(t, append(path, "-h")...)
		if code != 0 || stderr != "" || !strings.Contains(stdout, "kubectl harrier") {
			t.Errorf("%v -h ends with %d: %s%s", path, code, stdout, stderr)
		}
		if len(path) > 0 && (!strings.Contains(stdout, "Examples:\n  ") || !strings.Contains(stdout, "-o, --o")) {
			t.Errorf("%v has no example, or no -o: %s", path, stdout)
		}
	})
	if _, stdout, _ := said(t, "-h"); !strings.Contains(stdout, "Exit codes of all commands: 0 ") ||
		!strings.Contains(stdout, "drain") {
		t.Errorf("help says %s", stdout)
	}
	for _, command := range []string{"top", "why", "report", "drain", "resume", "doctor", "scalesets", "check"} {
		_, stdout, _ := said(t, command, "-h")
		for _, flag := range []string{"--kubeconfig ", "--context ", "-n, --namespace ", "--as ", "--as-group ",
			"--token ", "--server ", "--request-timeout ", "--cluster ", "--user ", "--insecure-skip-tls-verify"} {
			if !strings.Contains(stdout, flag) {
				t.Errorf("%s lacks kubectl's flag %s", command, flag)
			}
		}
	}
}

func TestWrongCommandLines(t *testing.T) {
	for line, want := range map[string]string{
		"tpo": "unknown command", "top extra": "unknown command", "top --nope": "kubectl harrier top --help lists the flags", "top -o yaml": `-o "yaml" is unknown`,
		"top --sort-by size": "name, busy, jobs, waiting", "why a b": "at most 1 arg", "drain": "accepts 1 arg", "drain a b": "accepts 1 arg", "drain a --timeout -1s": "negative",
		"doctor a b": "at most 1 arg", "validate": "-f FILE", "convert": "-f FILE", "top --kubeconfig missing": "missing", "why x": "find the API server",
		"report --by size": "repository, workflow, job, set, day", "report -o yaml": "use text, json or csv", "report --right-sizing --by set": "[by right-sizing]", "report --waits --right-sizing": "[waits right-sizing", "report extra": "unknown command",
		"report --history-url ledger": "such as http://localhost:8090", "why x --history-url ledger": "such as http://localhost:8090", "report": "named by --history-url", "top -o csv": "use text or json",
		"scalesets": "no credentials: set GITHUB_TOKEN", "scalesets --secret s": "no address", "scalesets a b": "at most 1 arg", "scalesets --secret s --set s": "[secret set]",
		"scalesets https://github.com/acme --secret s --yes": "--yes confirms --delete", "scalesets https://github.com/acme --secret s": "find the API server", "scalesets https://github.com/acme --set s -o csv": "use text or json",
	} {
		if code, stdout, stderr := said(t, strings.Fields(line)...); code != commands.ExitUnable ||
			!strings.Contains(stderr, want) || stdout != "" {
			t.Errorf("%s: ends with %d, says %q and %q, want %q", line, code, stdout, stderr, want)
		}
	}
}

// validate and convert print the same as the manager's commands.
func TestTheManagersCommands(t *testing.T) {
	directory := t.TempDir()
	for name, content := range map[string]string{
		"good.yaml": "githubConfigUrl: https://github.com/acme\ngithubConfigSecret: github\n", "wrong.yaml": "githubConfigUrl: https://github.com/acme\ngithubConfigSecret: github\nmaxRuners: 3\n",
		"runners.yaml": "kind: RunnerDeployment\nmetadata: {name: a}\nspec: {template: {spec: {repository: acme/app}}}\n",
	} {
		if err := os.WriteFile(filepath.Join(directory, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range []string{"validate -f good.yaml", "validate -f wrong.yaml -o json", "validate -f none.yaml",
		"validate -f good.yaml --set maxRunners=-1", "convert -f runners.yaml"} {
		var arguments []string
		for _, word := range strings.Fields(line) {
			if strings.HasSuffix(word, ".yaml") {
				word = filepath.Join(directory, word)
			}
			arguments = append(arguments, word)
		}
		var out, errors bytes.Buffer
		want := commands.Main(t.Context(), arguments, &out, &errors)
		if code, stdout, stderr := said(t, arguments...); code != want || stdout != out.String() ||
			strings.TrimSpace(stderr) != strings.TrimSpace(errors.String()) {
			t.Errorf("%s: ends with %d and says %s%s\nthe manager ends with %d and says %s%s", line, code, stdout,
				stderr, want, out.String(), errors.String())
		}
	}
}

// Each shell gets a script, and kubectl the program that it runs, which asks for words as cobra answers them.
func TestCompletion(t *testing.T) {
	for shell, part := range map[string]string{"bash": "__start_kubectl-harrier", "zsh": "#compdef kubectl-harrier",
		"fish": "complete -c kubectl-harrier", "powershell": "Register-ArgumentCompleter", "kubectl": `exec kubectl-harrier __complete "$@"`} {
		if code, stdout, stderr := said(t, "completion", shell); code != 0 || !strings.Contains(stdout, part) {
			t.Errorf("%s: ends with %d: %.200s%s", shell, code, stdout, stderr)
		}
	}
	for line, want := range map[string]string{"d": "drain\tHave a scale set", "top --sort-by ": "waiting\n",
		"drain -o ": "json\n", "report -o ": "csv\n", "report --by ": "workflow\n", "rep": "report\tTell who", "completion ": "kubectl\t"} {
		words := strings.Split(line, " ")
		if _, stdout, _ := said(t, append([]string{"__complete"}, words...)...); !strings.Contains(stdout, want) {
			t.Errorf("after %q: %s", line, stdout)
		}
	}
}
