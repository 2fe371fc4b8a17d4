package convert_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/harrier-ci/harrier/operations/convert/legacy"
	"github.com/harrier-ci/harrier/operations/finding"
)

const deployment = "apiVersion: actions.summerwind.dev/v1alpha1\nkind: RunnerDeployment\nmetadata: {name: a}\nspec: " +
	"{template: {spec: {organization: acme}}}\n"

// acceptable matches names of scale sets that are releases of Helm and files, too.
var acceptable = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$`)

func TestNames(t *testing.T) {
	long := strings.Repeat("long-name.", 20)
	taken := map[string]bool{}
	for _, name := range []string{"", "plain", "Capital_Letters", "../../etc/passwd", "..", "-", "a..b", "a.-.b", long,
		long + "x", "ünïcode", "a b", `a\nb`, "a/b", "123", "a\u202eb"} {
		o := run(t, fmt.Sprintf("kind: Runner\nmetadata: {name: %q}\nspec: {organization: acme}\n", name))
		if len(o.report.Sets) != 1 {
			t.Errorf("%q: %v", name, o.err)
			continue
		}
		set := o.report.Sets[0]
		if !acceptable.MatchString(set.Name) || len(set.Name) > 45 || filepath.Base(set.File) != set.Name+".yaml" {
			t.Errorf("%q: the scale set is called %q, in %s", name, set.Name, set.File)
		}
		if len(name) > 45 && taken[set.Name] {
			t.Errorf("%q: another one is called %s", name, set.Name)
		}
		taken[set.Name] = true
	}
	// Many of one name are told apart, and so is one whose name another has by then.
	many := strings.Repeat(deployment+"---\n", 5) + strings.Replace(deployment, "name: a", "name: a-2", 1)
	o := run(t, many)
	seen := map[string]bool{}
	for _, set := range o.report.Sets {
		seen[set.Name] = true
	}
	if len(o.report.Sets) != 6 || len(seen) != 6 {
		t.Errorf("%d scale sets have %d names", len(o.report.Sets), len(seen))
	}
}

// No document is lost, however it ends.
func TestEveryDocumentIsRead(t *testing.T) {
	const one, two = `{"kind": "Runner", "metadata": {"name": "one"}, "spec": {"organization": "acme"}}`,
		`{"kind": "Runner", "metadata": {"name": "two"}, "spec": {"organization": "acme"}}`
	for _, between := range []string{"", "\n", "\n...\n", "\n---\n", "\n--- "} {
		if o := run(t, one+between+two); len(o.report.Sets) != 2 {
			t.Errorf("with %q between them, two documents are %d scale sets; %v", between, len(o.report.Sets), o.err)
		}
	}
	if o := run(t, one+"\nkind: Runner\n"); o.err == nil || errors.Is(o.err, finding.ErrProblems) ||
		!strings.Contains(o.err.Error(), "there is more") {
		t.Errorf("what is after an object is lost: %v", o.err)
	}
	if o := run(t, deployment+"password: *hunter2\n"); o.err == nil || strings.Contains(o.err.Error(), "hunter2") {
		t.Errorf("ends with %v", o.err)
	}
}

// Input that is made to be large when it is read, or to say something to a terminal, ends with an answer.
func TestHostileInput(t *testing.T) {
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 10; i++ {
		bomb += fmt.Sprintf("a%d: &a%d [%s]\n", i, i,
			strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	labels := "kind: Runner\nspec: {organization: acme, labels: [" + strings.Repeat("x, ", 50_000) +
		strings.Repeat("y", 300) + "]}\n"
	for name, test := range map[string]struct {
		input, want string
		fails       bool
	}{
		"a bomb of aliases":       {deployment + bomb, "aliasing", true},
		"too many objects":        {"kind: SecretList\nitems: [" + strings.Repeat("{}, ", 20_001) + "{}]\n", legacy.ErrTooMany.Error(), true},
		"too many scale sets":     {"kind: RunnerList\nitems: [" + strings.Repeat("{}, ", 1000) + "{}]\n", legacy.ErrTooManySets.Error(), true},
		"lists in lists":          {strings.Repeat("{kind: List, items: [", 2000) + "{kind: Runner, spec: {organization: acme}}" + strings.Repeat("]}", 2000), "scale set", false},
		"nested deeply":           {"kind: Runner\nspec: {organization: acme, affinity: " + strings.Repeat("{a: ", 2000) + "1" + strings.Repeat("}", 2000) + "}\n", "scale set", false},
		"fifty thousand labels":   {labels, "255 characters", false},
		"a terminal's commands":   {"kind: Runner\nmetadata: {name: \"a\\e[31m\\nb\", \"x\\e]0;y\": 1}\nspec: {organization: acme, \"z\\e[1m\": 1}\n", "UnknownField", false},
		"everything wrong":        {"kind: RunnerSet\nmetadata: []\nspec: {template: 5, labels: {}, replicas: -1, volumeClaimTemplates: [5], image: {}, dockerEnabled: maybe, workDir: []}\n", "InvalidField", false},
		"an address that is none": {"kind: Runner\nspec: {organization: 'a/../../b?x#y'}\n", "NoAddress", false},
		"templates":               {"kind: Runner\nspec: {organization: acme, group: '{{ fail \"x\" }}', env: [{name: A, value: '{{ .Values }}'}]}\n", "scale set", false},
	} {
		t.Run(name, func(t *testing.T) {
			o := run(t, test.input)
			said := o.text
			if failed := o.err != nil && !errors.Is(o.err, finding.ErrProblems); failed != test.fails {
				t.Fatalf("ends with %v", o.err)
			} else if failed {
				said = o.err.Error()
			}
			if !strings.Contains(said, test.want) {
				t.Errorf("says %.2000s, want %q", said, test.want)
			}
			if strings.ContainsAny(said, "\x1b\u202e") {
				t.Errorf("what others wrote reaches the terminal: %q", said)
			}
			for line := range strings.Lines(o.files) { // a header of comments has nothing but comments
				if strings.HasPrefix(line, "b ") {
					t.Errorf("a name begins a line: %q", line)
				}
			}
		})
	}
}

// FuzzConvert looks for manifests that end the program, and for values that say nothing of what becomes of them.
func FuzzConvert(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.yaml")
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(content))
	}
	f.Add("kind: RunnerSet\nspec: {containerMode: kubernetes, workVolumeClaimTemplate: 5, template: {spec: " +
		"{containers: [{name: runner, env: [5]}, {}]}}}")
	f.Fuzz(func(t *testing.T, input string) {
		if len(input) > 10_000 {
			t.Skip()
		}
		file := filepath.Join(t.TempDir(), "input.yaml")
		if err := os.WriteFile(file, []byte(input), 0o600); err != nil {
			t.Fatal(err)
		}
		values, said, err := command(t, "-f", file)
		done := err == nil || errors.Is(err, finding.ErrProblems)
		if done != (len(values) > 0) || done != (len(said) > 0) {
			t.Errorf("%q: %v, with %d bytes of values and a report of %d", input, err, len(values), len(said))
		}
		if strings.ContainsAny(said, "\x1b\r\x00") {
			t.Errorf("%q: the report has %q", input, said)
		}
	})
}
