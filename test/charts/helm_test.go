// Package charts tests the two Helm charts: their renders, the values that they refuse and the words for that. A real
// API server has to take the renders. It runs the helm that hack/kubernetes.sh builds and, where versions may differ,
// the oldest one that is supported.
//
// Users of actions-runner-controller's charts, and tests written for those, rely on file names of templates, names,
// labels, the order of arguments and rules, and the texts of refusals.
package charts

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/operations/finding"
	"github.com/harrier-ci/harrier/operations/validation"
)

func TestMain(m *testing.M) { os.Exit(testkube.Main(m, testkube.Options{})) }

const root = "../.."

// findHelm returns the path of the newest Helm.
var findHelm = sync.OnceValues(func() (string, error) {
	directory, err := testkube.Programs()
	return filepath.Join(directory, "helm"), err
})

// helm runs the newest Helm and returns its two outputs.
func helm(t *testing.T, arguments ...string) (stdout, stderr string, err error) {
	t.Helper()
	program, err := findHelm()
	if err != nil {
		t.Fatal(err)
	}
	return run(t, program, arguments...)
}

// run runs a program and returns its two outputs. Helm runs more than a thousand times here, for less than a tenth of a
// second each: without a garbage collector it takes a sixth less.
func run(t *testing.T, program string, arguments ...string) (stdout, stderr string, err error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), program, arguments...)
	command.Env = append(os.Environ(), "GOGC=off")
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	err = command.Run()
	return out.String(), errs.String(), err
}

// chart is a chart as a test renders it.
type chart struct {
	name, release, namespace string
	arguments                []string
}

var (
	controller = chart{name: "gha-runner-scale-set-controller", release: "arc", namespace: "arc-systems"}
	scaleSet   = chart{name: "gha-runner-scale-set", release: "test-runners", namespace: "arc-runners"}
)

// minimal has the values that every scale set needs.
const minimal = `
githubConfigUrl: https://github.com/actions
githubConfigSecret: {github_token: gh_token12345}
controllerServiceAccount: {name: arc, namespace: arc-system}
`

// with returns the chart with more arguments for helm.
func (c chart) with(arguments ...string) chart {
	c.arguments = append(append([]string{}, c.arguments...), arguments...)
	return c
}

// as returns the chart as another release in another namespace.
func (c chart) as(release, namespace string) chart {
	c.release, c.namespace = release, namespace
	return c
}

func (c chart) directory() string { return filepath.Join(root, "charts", c.name) }

// template runs helm template with the values, given as YAML documents. Later ones win.
func (c chart) template(t *testing.T, values ...string) (stdout, stderr string, err error) {
	t.Helper()
	return c.run(t, "template", values...)
}

func (c chart) run(t *testing.T, command string, values ...string) (stdout, stderr string, err error) {
	t.Helper()
	arguments := []string{command, c.release, c.directory(), "--namespace", c.namespace}
	for i, document := range values {
		file := filepath.Join(t.TempDir(), fmt.Sprintf("values-%d.yaml", i))
		if err := os.WriteFile(file, []byte(document), 0o600); err != nil {
			t.Fatal(err)
		}
		arguments = append(arguments, "--values", file)
	}
	return helm(t, append(arguments, c.arguments...)...)
}

// manifests are the documents of a render by the file name of their template, without its directory.
type manifests map[string][]string

// render returns the chart's render of the values. The test fails if helm does.
func render(t *testing.T, c chart, values ...string) manifests {
	t.Helper()
	stdout, stderr, err := c.template(t, values...)
	if err != nil {
		t.Fatalf("helm template %s: %v\n%s", c.name, err, stderr)
	}
	for _, said := range validated(t, c, values) {
		// A bare helm template takes a set without the volume; an installation doesn't.
		if ofChart := said.Reason == "InvalidValues" || said.Reason == "UnknownValue"; ofChart &&
			!strings.Contains(said.Message, "kubernetesModeWorkVolumeClaim is required") {
			t.Errorf("helm takes the values, but manager validate says: %s\n%s", said.Message,
				strings.Join(values, "\n"))
		}
	}
	rendered := manifests{}
	for document := range strings.SplitSeq("\n"+stdout, "\n---\n") {
		source, _, found := strings.Cut(strings.TrimPrefix(document, "# Source: "), "\n")
		if !found {
			continue
		}
		rendered[path.Base(source)] = append(rendered[path.Base(source)], document)
	}
	return rendered
}

// refusal returns helm's message when it refuses the values. The test fails if it takes them.
func refusal(t *testing.T, c chart, values ...string) string {
	t.Helper()
	_, stderr, err := c.template(t, values...)
	if err == nil {
		t.Fatalf("helm template %s took the values:\n%s", c.name, strings.Join(values, "\n"))
	}
	if c.usual() && len(validated(t, c, values)) == 0 &&
		!strings.Contains(stderr, "No gha-rs-controller deployment found") {
		t.Errorf("helm refuses the values, but manager validate takes them:\n%s\n%s", stderr,
			strings.Join(values, "\n"))
	}
	return stderr
}

// usual reports whether validate knows as much as helm: it sees neither arguments nor the release's name.
func (c chart) usual() bool {
	usual := map[string]chart{scaleSet.name: scaleSet, controller.name: controller}[c.name]
	return len(c.arguments) == 0 && c.release == usual.release && c.namespace == usual.namespace
}

// validated returns the problems that manager validate finds in values. One more value, which changes nothing, tells it
// the values' chart.
func validated(t *testing.T, c chart, values []string) (problems []finding.Finding) {
	t.Helper()
	if !c.usual() {
		return nil
	}
	mark := map[string]string{scaleSet.name: "jobProtection: 'true'", controller.name: "pprof: {}"}[c.name]
	findings, err := validation.Validate([]byte(strings.Join(append([]string{mark}, values...), "\n---\n")), nil,
		c.namespace)
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range findings {
		if found.Severity == finding.Problem {
			problems = append(problems, found)
		}
	}
	return problems
}

// one decodes the only document of a template. Fields that the type doesn't have and keys given twice fail the test.
func one[T any](t *testing.T, rendered manifests, file string) T {
	t.Helper()
	objects := all[T](t, rendered, file)
	if len(objects) != 1 {
		t.Fatalf("%s renders %d objects, want 1", file, len(objects))
	}
	return objects[0]
}

// all decodes all documents of a template.
func all[T any](t *testing.T, rendered manifests, file string) []T {
	t.Helper()
	var objects []T
	for _, document := range rendered[file] {
		objects = append(objects, decode[T](t, document))
	}
	return objects
}

func decode[T any](t *testing.T, document string) T {
	t.Helper()
	var object T
	if err := yaml.UnmarshalStrict([]byte(document), &object); err != nil {
		t.Fatalf("decode: %v\n%s", err, document)
	}
	return object
}
