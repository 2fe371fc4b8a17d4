package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// workflow is the part of a workflow's file that is checked.
type workflow struct {
	Permissions map[string]string `json:"permissions"`
	Jobs        map[string]struct {
		RunsOn      string            `json:"runs-on"`
		Timeout     int               `json:"timeout-minutes"`
		Permissions map[string]string `json:"permissions"`
		Steps       []struct {
			Uses, Run string
			With      map[string]any
		}
	} `json:"jobs"`
}

var (
	pinned  = regexp.MustCompile(`^actions/[a-z-]+@[0-9a-f]{40}$`)
	calls   = regexp.MustCompile(`^(?:sudo env "PATH=\$PATH" )?make ([a-z][a-z0-9-]*)(?: [A-Z]+=[a-z0-9./-]+)*$`)
	targets = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`)
)

// wrongIn returns the mistakes of a workflow. Each step is an action of GitHub's, by the hash of a commit, or calls one
// target of the Makefile, perhaps as root, so that anybody with the repository can run it. A job may only read, unless
// it says otherwise, and has a timeout. No step has an expression or a variable as a word of its command: names of tags
// and branches are chosen by whoever pushes them.
func wrongIn(t *testing.T, content, makefile string) (wrong []string) {
	t.Helper()
	known := map[string]bool{}
	for _, target := range targets.FindAllStringSubmatch(makefile, -1) {
		known[target[1]] = true
	}
	var found workflow
	if err := yaml.Unmarshal([]byte(content), &found); err != nil {
		return []string{err.Error()}
	}
	if len(found.Permissions) != 1 || found.Permissions["contents"] != "read" {
		wrong = append(wrong, "permissions")
	}
	for name, job := range found.Jobs {
		if job.Timeout == 0 || len(job.Steps) == 0 {
			wrong = append(wrong, name+" has no timeout or no steps")
		}
		for _, step := range job.Steps {
			call := calls.FindStringSubmatch(strings.TrimSpace(step.Run))
			switch {
			case step.Uses != "" && step.Run == "" && pinned.MatchString(step.Uses):
			case step.Uses == "" && call != nil && known[call[1]]:
			default:
				wrong = append(wrong, name+": "+step.Uses+step.Run)
			}
		}
	}
	return wrong
}

// What is released depends on nothing that an earlier run left behind, and no job that builds has rights.
func TestTheReleaseIsBuiltAlone(t *testing.T) {
	var release workflow
	if err := yaml.Unmarshal(read(t, filepath.Join(root, ".github", "workflows", "release.yaml")), &release); err != nil {
		t.Fatal(err)
	}
	for name, job := range release.Jobs {
		for _, step := range job.Steps {
			if strings.HasPrefix(step.Uses, "actions/cache") ||
				(strings.HasPrefix(step.Uses, "actions/setup-go@") && step.With["cache"] != false) {
				t.Errorf("%s: %s keeps a cache", name, step.Uses)
			}
			if strings.HasPrefix(step.Run, "make release") && len(job.Permissions) > 0 {
				t.Errorf("%s builds with %v", name, job.Permissions)
			}
		}
	}
	if rights := release.Jobs["publish"].Permissions; rights["id-token"] != "write" {
		t.Errorf("publish has %v", rights)
	}
}

// Whoever may push a tag chooses its name, which make and the shell would run if it were a word of theirs.
func TestTheNameOfATagIsData(t *testing.T) {
	for _, form := range []string{"v1$(shell touch %s)", "v1`touch %s`", "v1'$(touch %s)'", `v1"; touch %s; "`} {
		mark := filepath.Join(t.TempDir(), "run")
		command := exec.CommandContext(t.Context(), "make", "--dry-run", "release")
		command.Dir, command.Env = root, append(os.Environ(), "VERSION="+fmt.Sprintf(form, mark))
		output, err := command.CombinedOutput()
		if err != nil || strings.Contains(string(output), mark) {
			t.Errorf("%s is a word of a command: %v: %s", form, err, output)
		}
		if _, err := os.Stat(mark); err == nil {
			t.Errorf("make has run %s", form)
		}
	}
}

func TestWorkflowsCallTargets(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, ".github", "workflows", "*"))
	if err != nil || len(files) < 4 {
		t.Fatalf("workflows are %v; %v", files, err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, wrong := range wrongIn(t, string(content), string(makefile)) {
			t.Errorf("%s: %s", file, wrong)
		}
	}
	const frame = "permissions: {contents: read}\njobs: {a: {runs-on: x, timeout-minutes: 5, steps: ["
	for _, step := range []string{"{run: make nothing}", "{run: make test && rm x}", "{run: go test ./...}",
		"{run: sudo go test ./...}", "{run: 'make test VERSION=${GITHUB_REF_NAME#v}'}", "{run: 'make test VERSION=${{ github.ref_name }}'}",
		"{run: 'sudo env \"PATH=$PATH\" make nothing'}", "{run: sudo make test}", "{uses: actions/checkout@v4}", "{uses: other/action@" + strings.Repeat("a", 40) + "}", "{}"} {
		if len(wrongIn(t, frame+step+"]}}", string(makefile))) == 0 {
			t.Errorf("the step %s is taken", step)
		}
	}
	if wrong := wrongIn(t, frame+"{run: make test KUBERNETES=oldest}]}}", string(makefile)); len(wrong) > 0 {
		t.Errorf("a good step is refused: %v", wrong)
	}
}

// A renamed test would silently leave the short form.
func TestTheShortFormHasTestsThatAreThere(t *testing.T) {
	short := regexp.MustCompile(`(?m)^E2E_SHORT := (.*)$`).
		FindStringSubmatch(string(read(t, filepath.Join(root, "Makefile"))))
	if short == nil {
		t.Fatal("the Makefile has no E2E_SHORT")
	}
	files, err := filepath.Glob(filepath.Join(root, "test", "e2e", "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var tests strings.Builder
	for _, file := range files {
		tests.Write(read(t, file))
	}
	for name := range strings.SplitSeq(short[1], "|") {
		if !strings.Contains(tests.String(), "\nfunc Test"+name+"(t *testing.T) {\n") {
			t.Errorf("test/e2e has no Test%s", name)
		}
	}
}
