// Package modules tests what the project's modules need: who uses one of them shall not get the dependencies of another.
package modules

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	root    = "../.."
	project = "github.com/harrier-ci/harrier"
)

// ofOperations are modules that only the programs for operators may need: Helm, clients of registries, databases and
// their migrations, schemas.
var ofOperations = []string{
	"helm.sh/", "oras.land/", "github.com/opencontainers/", "github.com/google/go-containerregistry", "modernc.org/",
	"github.com/jackc/", "github.com/pressly/", "github.com/santhosh-tekuri/", "github.com/spf13/cobra",
}

// The manager and the listener run in clusters all the time, and their images are scanned.
func TestTheCoreNeedsNothingOfOperations(t *testing.T) {
	for _, dependency := range lines(t, root, "list", "-deps", "./cmd/manager", "./cmd/listener") {
		if strings.HasPrefix(dependency, project+"/operations") || ofOperationsAlone(dependency) {
			t.Errorf("a program of the core is made of %s", dependency)
		}
	}
	for _, module := range lines(t, root, "list", "-m", "-f", "{{if not .Indirect}}{{.Path}}{{end}}", "all") {
		if ofOperationsAlone(module) || module == project+"/operations" {
			t.Errorf("the core's go.mod requires %s", module)
		}
	}
}

func ofOperationsAlone(path string) bool {
	return slices.ContainsFunc(ofOperations, func(prefix string) bool { return strings.HasPrefix(path, prefix) })
}

// TestAnotherProgramCanUse builds programs that know one of our modules each, and counts the modules that they are made
// of. A module more here is one more that strangers have to take: raise the number only for what they need, too.
func TestAnotherProgramCanUse(t *testing.T) {
	for name, c := range map[string]struct {
		directory, source string
		// most is how many modules of others the program is made of.
		most int
	}{
		"the kinds": {"apis", `package main

import (
	"fmt"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

func main() { fmt.Println(v1alpha1.GroupVersion, v1alpha1.AutoscalingRunnerSet{}.Name) }
`, 18},
		"the client": {"github/actions", `package main

import (
	"fmt"

	"github.com/harrier-ci/harrier/github/actions"
)

func main() { fmt.Println(actions.ParseConfigURL("https://github.com/acme")) }
`, 8},
	} {
		t.Run(name, func(t *testing.T) {
			directory := program(t, c.directory, c.source)
			var foreign []string
			for _, path := range lines(t, directory, "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".") {
				if path != "example.com/outside" && path != project+"/"+c.directory && !slices.Contains(foreign, path) {
					foreign = append(foreign, path)
				}
			}
			if len(foreign) > c.most {
				t.Errorf("it is made of %d modules of others, more than %d: %s", len(foreign), c.most, foreign)
			}
			t.Logf("%d modules of others", len(foreign))
			lines(t, directory, "build", "-o", os.DevNull, ".")
		})
	}
}

// program writes a module that requires one of ours from its directory, with the same pins.
func program(t *testing.T, module, source string) string {
	t.Helper()
	directory := t.TempDir()
	ours, err := filepath.Abs(filepath.Join(root, module))
	if err != nil {
		t.Fatal(err)
	}
	pins, err := os.ReadFile(filepath.Join(ours, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(ours, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	required := string(pins)[strings.Index(string(pins), "\ngo "):]
	for name, content := range map[string]string{
		"go.mod": fmt.Sprintf("module example.com/outside\n%s\nrequire %[2]s/%[3]s v0.0.0\nreplace %[2]s/%[3]s => %[4]s\n",
			required, project, module, ours),
		"go.sum": string(sums), "main.go": source,
	} {
		if err := os.WriteFile(filepath.Join(directory, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return directory
}

// lines runs go in a directory's module alone and returns what it prints.
func lines(t *testing.T, directory string, arguments ...string) []string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", arguments...)
	command.Dir = directory
	command.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly")
	var complaints strings.Builder
	command.Stderr = &complaints
	out, err := command.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(arguments, " "), err, complaints.String())
	}
	return strings.Fields(string(out))
}
