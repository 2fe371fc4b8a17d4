package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/harrier-ci/harrier/hack/site"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m)) }

// elsewhere are commands of the quickstart that a rig can't run, or has run already: they need a registry, the
// controller's release, the namespace, a pod to run commands in, Docker.
var elsewhere = []string{
	"make ", "kind ", "helm install harrier", "helm uninstall harrier", "kubectl create namespace", " exec deploy/",
}

// A newcomer follows the quickstart on a cluster where the controller is installed: credentials, scale set, a job, and
// back. Between, every kubectl get and describe of all pages is run.
func TestQuickstart(t *testing.T) {
	r := rig.Start(t, testkube.Shared(t), rig.Options{})
	n := newNewcomer(t, r)
	blocks := n.quickstart()
	last := len(blocks) - 1
	for _, script := range blocks[:last] {
		n.run(script)
	}
	ids := r.QueueJobsFor("my-runners", 1, rig.Held)
	n.look()
	r.EndJobs(ids)
	n.run(blocks[last])
	r.AwaitUninstalled()
}

// With kind the image isn't pulled, so it needs the name that it has in the archive.
func TestKindHasTheImageThatIsBuilt(t *testing.T) {
	text := string(read(t, filepath.Join(root, "docs", "quickstart.md")))
	repository, tag, _ := strings.Cut(site.LocalImage, ":")
	for _, part := range []string{"--set image.repository=" + repository + " --set image.tag=" + tag + "\n",
		"make demo CLUSTER=current IMG=" + site.LocalImage + "\n"} {
		if !strings.Contains(text, part) {
			t.Errorf("want %q in docs/quickstart.md", part)
		}
	}
}

// newcomer types the documentation's commands, with the names of a rig.
type newcomer struct {
	t           *testing.T
	programs    string
	environment []string
	names       *strings.Replacer
	looks       int
}

func newNewcomer(t *testing.T, r *rig.Rig) *newcomer {
	t.Helper()
	programs, err := testkube.Programs()
	if err != nil {
		t.Fatal(err)
	}
	return &newcomer{
		t: t, programs: programs,
		environment: append(os.Environ(), "KUBECONFIG="+r.Cluster.AdminKubeconfig(),
			"PATH="+programs+":"+os.Getenv("PATH")),
		names: strings.NewReplacer(
			"harrier-system", r.SystemNamespace, "--namespace my-runners", "--namespace "+r.RunnerNamespace,
			"https://github.com/my-org", r.GitHubURL+"/org", "YOUR_TOKEN", rig.PAT, " --watch", "",
			// What is published are the charts of this tree.
			publishedCharts, "charts/", " --version 0.1.0", "",
		),
	}
}

// quickstart returns the page's commands, block by block, without what replaces the first step.
func (n *newcomer) quickstart() []string {
	n.t.Helper()
	path := filepath.Join(root, "docs", "quickstart.md")
	text, _, isThere := strings.Cut(string(read(n.t, path)), "\n## From a clone\n")
	if !isThere {
		n.t.Fatal("the quickstart has no end")
	}
	var found []string
	for _, b := range (page{path: path, text: text}).blocks() {
		script, isCommands := b.script()
		if !isCommands {
			continue
		}
		var typed []string
		for line := range strings.SplitSeq(strings.ReplaceAll(script, "\\\n", " "), "\n") {
			if !slices.ContainsFunc(elsewhere, func(part string) bool { return strings.Contains(line, part) }) {
				typed = append(typed, n.names.Replace(line))
			}
		}
		if script := strings.TrimSpace(strings.Join(typed, "\n")); script != "" {
			found = append(found, script)
		}
	}
	if len(found) < 5 {
		n.t.Fatalf("the quickstart has %d blocks of commands, want one for each step: %q", len(found), found)
	}
	return found
}

// run runs a script in the project's root, where the documentation is followed.
func (n *newcomer) run(script string) {
	n.t.Helper()
	command := exec.CommandContext(n.t.Context(), "bash", "-euc", script)
	command.Dir, command.Env = root, n.environment
	if output, err := command.CombinedOutput(); err != nil {
		n.t.Fatalf("%s\n%v: %s", script, err, output)
	}
}

// look runs kubectl get and describe of all pages. A command that names an object has to show it.
func (n *newcomer) look() {
	n.t.Helper()
	shell := newShell(n.t)
	for _, p := range pages(n.t) {
		for _, b := range p.blocks() {
			script, isCommands := b.script()
			if !isCommands {
				continue
			}
			commands, err := shell.commands(n.t, n.names.Replace(script))
			if err != nil {
				n.t.Fatal(err)
			}
			for _, command := range commands {
				n.lookAt(fmt.Sprintf("%s:%d", b.page, b.line), command)
			}
		}
	}
	if n.looks < 10 {
		n.t.Errorf("%d commands to look with, want those of observability, troubleshooting and others", n.looks)
	}
}

func (n *newcomer) lookAt(place string, command []string) {
	n.t.Helper()
	if command[0] != "kubectl" || !slices.Contains([]string{"get", "describe", "auth"}, positional(command[1:])[0]) {
		return
	}
	n.looks++
	kubectl := exec.CommandContext(n.t.Context(), filepath.Join(n.programs, command[0]), command[1:]...)
	kubectl.Env = n.environment
	output, err := kubectl.CombinedOutput()
	if err != nil || len(output) == 0 {
		n.t.Errorf("%s: %s: %v %s", place, strings.Join(command, " "), err, output)
	}
}
