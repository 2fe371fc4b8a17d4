package convert_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/operations/convert"
	"github.com/harrier-ci/harrier/operations/convert/remarks"
	"github.com/harrier-ci/harrier/operations/finding"
)

// outcome is what a command line prints and writes: the report as JSON and as text, and the values, also as in the
// files.
type outcome struct {
	report      remarks.Report
	text, files string
	err         error
	values      map[string]map[string]any
}

// run converts a file.
func run(t testing.TB, input string, arguments ...string) outcome {
	t.Helper()
	file := filepath.Join(t.TempDir(), "input.yaml")
	if err := os.WriteFile(file, []byte(input), 0o600); err != nil {
		t.Fatal(err)
	}
	return runFiles(t, append([]string{"-f", file}, arguments...)...)
}

func runFiles(t testing.TB, arguments ...string) outcome {
	t.Helper()
	o := outcome{values: map[string]map[string]any{}}
	stdout, _, err := command(t, append(arguments, "-d", filepath.Join(t.TempDir(), "values"), "-o", "json")...)
	if o.err = err; err != nil && !errors.Is(err, finding.ErrProblems) {
		return o
	}
	if err := json.Unmarshal([]byte(stdout), &o.report); err != nil {
		t.Fatalf("the report is no JSON: %v\n%s", err, stdout)
	}
	var text bytes.Buffer
	if err := o.report.Write(&text, "text"); err != nil {
		t.Fatal(err)
	}
	o.text = text.String()
	var contents []string
	for _, set := range o.report.Sets {
		content, err := os.ReadFile(set.File)
		if err != nil {
			t.Fatal(err)
		}
		contents = append(contents, string(content))
		var values map[string]any
		if err := yaml.Unmarshal(content, &values); err != nil {
			t.Fatal(err)
		}
		o.values[set.Name] = values
	}
	o.files = strings.Join(contents, "---\n")
	return o
}

// command runs a command line.
func command(t testing.TB, arguments ...string) (stdout, stderr string, err error) {
	t.Helper()
	flags := flag.NewFlagSet("convert", flag.ContinueOnError)
	options := convert.NewOptions(flags)
	if err := flags.Parse(arguments); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	err = options.Run(t.Context(), flags.Args(), &out, &errs)
	return out.String(), errs.String(), err
}

// Without a directory, values are printed as they would be written, and the report goes elsewhere.
func TestStandardOutput(t *testing.T) {
	const file = "testdata/several.yaml"
	o := runFiles(t, "-f", file)
	stdout, stderr, err := command(t, "-f", file)
	if stdout != o.files || !errors.Is(err, finding.ErrProblems) {
		t.Errorf("prints\n%s\nwant\n%s\n%v", stdout, o.files, err)
	}
	for _, said := range []string{"RunnerDeployment b/twins is now the scale set twins-b\n",
		"[self-hosted, Linux, X64], or some of these -> twins-b\n",
		"1. PROBLEM CredentialsNeeded (RunnerDeployment a/twins)\n"} {
		if !strings.Contains(stderr, said) {
			t.Errorf("the report lacks %q:\n%s", said, stderr)
		}
	}
	if stdout, stderr, _ := command(t, "-f", file, "-o", "json"); !json.Valid([]byte(stdout)) || stderr != "" {
		t.Errorf("-o json prints\n%s\n%s", stdout, stderr)
	}
	for _, wrong := range [][]string{{}, {"-f", file, "more"}, {"-f", file, "-o", "xml"},
		{"-f", "testdata/none.yaml"}} {
		if stdout, _, err := command(t, wrong...); err == nil || errors.Is(err, finding.ErrProblems) || stdout != "" {
			t.Errorf("%v: %v, %s", wrong, err, stdout)
		}
	}
}

// problems returns the reasons of findings that need a hand.
func (o *outcome) problems() (reasons []string) {
	for _, found := range o.report.Findings {
		if found.Severity == finding.Problem {
			reasons = append(reasons, found.Reason)
		}
	}
	slices.Sort(reasons)
	return slices.Compact(reasons)
}

// The manifests have the shapes of those in ARC's documentation.
func TestExamplesOfTheLegacyMode(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) < 25 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	seen := map[string]bool{}
	for _, test := range examples {
		seen[test.file+".yaml"] = true
		t.Run(test.file+" "+test.set, func(t *testing.T) {
			o := runFiles(t, "-f", "testdata/"+test.file+".yaml", "--github-config-secret", "github")
			if got := strings.Join(o.problems(), " "); got != test.problems {
				t.Errorf("needs a hand for %q, want %q\n%s", got, test.problems, o.text)
			}
			if wantErr := test.problems != ""; errors.Is(o.err, finding.ErrProblems) != wantErr {
				t.Errorf("fails with %v", o.err)
			}
			var want map[string]any
			if err := yaml.UnmarshalStrict([]byte(test.values), &want); err != nil {
				t.Fatal(err)
			}
			for key, value := range want {
				if got := o.values[test.set][key]; !reflect.DeepEqual(got, value) {
					t.Errorf("%s is\n%s\nwant\n%s", key, toYAML(t, got), toYAML(t, value))
				}
			}
		})
	}
	for _, file := range files {
		if !seen[filepath.Base(file)] {
			t.Errorf("%s: nobody says what becomes of it", file)
		}
	}
}

func toYAML(t *testing.T, value any) string {
	t.Helper()
	content, err := yaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// Whatever becomes of a manifest, the chart and the API server take it.
func TestValuesAreValid(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.yaml")
	for _, file := range files {
		o := runFiles(t, "-f", file)
		for _, found := range o.report.Findings {
			if slices.Contains([]string{"InvalidValues", "UnknownValue", "InvalidManifest", "UnknownField",
				"CredentialsMissing", "InvalidVolumeClaim"}, found.Reason) && len(found.Fields) == 0 {
				t.Errorf("%s: %s: %s", file, found.Reason, found.Message)
			}
		}
	}
}

// Nothing is left to do only if there is nothing to look at, either.
func TestEndOfTheReport(t *testing.T) {
	const nothing = "Nothing is left to do by hand."
	set := runFiles(t, "-f", "testdata/repository.yaml", "--github-config-secret", "github")
	if set.err != nil || strings.Contains(set.text, nothing) ||
		!strings.Contains(set.text, "warnings don't count for the exit code") {
		t.Errorf("with warnings alone, %v; the report ends\n%s", set.err, set.text)
	}
	set.report.Findings = slices.DeleteFunc(set.report.Findings,
		func(f remarks.Finding) bool { return f.Severity == finding.Warning })
	var text bytes.Buffer
	if err := set.report.Write(&text, "text"); err != nil || !strings.HasSuffix(text.String(), "\n"+nothing+"\n") {
		t.Errorf("without warnings, the report ends\n%s", text.String())
	}
}

func TestOneSecretForAll(t *testing.T) {
	o := runFiles(t, "-f", "testdata/repository.yaml")
	if got := o.problems(); !slices.Equal(got, []string{"CredentialsNeeded"}) ||
		o.values["one-repository"]["githubConfigSecret"] != "github-credentials" {
		t.Errorf("needs a hand for %v; %v", got, o.values)
	}
}

func TestGitHubEnterpriseServer(t *testing.T) {
	for url, want := range map[string]string{
		"https://github.example.com":   "https://github.example.com/acme",
		"https://github.example.com/":  "https://github.example.com/acme",
		"http://github.internal:8080/": "http://github.internal:8080/acme",
	} {
		if got := runFiles(t, "-f", "testdata/organization.yaml", "--github-url",
			url).values["whole-organization"]["githubConfigUrl"]; got != want {
			t.Errorf("%s: %v, want %s", url, got, want)
		}
	}
	if got := runFiles(t, "-f", "testdata/enterprise.yaml", "--github-url",
		"https://github.example.com").values["whole-enterprise"]["githubConfigUrl"]; got != "https://github.example.com/enterprises/acme-corp" {
		t.Errorf("an enterprise is at %v", got)
	}
	for _, url := range []string{"github.example.com", "https://user:s3cret@github.example.com",
		"https://github.example.com/acme", "ftp://github.example.com", "https://", "https://a?s3cret"} {
		if o := runFiles(t, "-f", "testdata/organization.yaml", "--github-url", url); o.err == nil ||
			strings.Contains(o.err.Error(), "s3cret") {
			t.Errorf("%s: %v", url, o.err)
		}
	}
}

// A file that exists with other content is not overwritten.
func TestFilesAreNotOverwritten(t *testing.T) {
	directory := t.TempDir()
	convertTo := func(file string) error {
		_, _, err := command(t, "-f", file, "-d", directory, "--github-config-secret", "github")
		return err
	}
	for range 2 {
		if err := convertTo("testdata/several.yaml"); err != nil {
			t.Fatal(err)
		}
	}
	changed := filepath.Join(directory, "twins-b.yaml")
	if err := os.WriteFile(changed, []byte("mine: true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(directory, "twins.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := convertTo("testdata/several.yaml"); err == nil || !strings.Contains(err.Error(), changed) {
		t.Errorf("ends with %v", err)
	}
	content, _ := os.ReadFile(changed)
	if _, err := os.Stat(filepath.Join(directory, "twins.yaml")); string(content) != "mine: true\n" || err == nil {
		t.Errorf("%q is left, and the other file: %v", content, err)
	}
}

// A directory, several files, and standard input are read alike.
func TestInputs(t *testing.T) {
	all := runFiles(t, "-f", "testdata")
	if len(all.report.Sets) < 27 {
		t.Errorf("a directory has %d scale sets", len(all.report.Sets))
	}
	if two := runFiles(t, "-f", "testdata/repository.yaml", "-f",
		"testdata/organization.yaml"); len(two.report.Sets) != 2 {
		t.Errorf("two files have %d scale sets", len(two.report.Sets))
	}
	directory := t.TempDir()
	if err := os.Mkdir(filepath.Join(directory, "more"), 0o700); err != nil {
		t.Fatal(err)
	}
	if o := runFiles(t, "-f", directory); !errors.Is(o.err, convert.ErrNothingToConvert) ||
		!strings.Contains(o.err.Error(), "found no object at all, and directories that are not read: "+directory) {
		t.Errorf("a directory of directories: %v", o.err)
	}
	if o := runFiles(t, "-f", directory, "-f", "testdata/repository.yaml"); !strings.Contains(o.text,
		"WARNING NotRead\n   "+filepath.Join(directory, "more")+"\n") {
		t.Errorf("the report doesn't name the directory that isn't read:\n%s", o.text)
	}
	for _, input := range []string{"", "a: b", "kind: [RunnerDeployment]", "apiVersion: apps/v1\nkind: RunnerSet",
		"kind: List\nitems: [5, {kind: Secret}]"} {
		if o := run(t, input); !errors.Is(o.err, convert.ErrNothingToConvert) {
			t.Errorf("%q: %v", input, o.err)
		}
	}
	alone := run(t, "apiVersion: actions.summerwind.dev/v1alpha1\nkind: HorizontalRunnerAutoscaler\nmetadata: {name: a}\n"+
		"spec: {scaleTargetRef: {name: builders}, maxReplicas: 2}")
	if !errors.Is(alone.err, convert.ErrNothingToConvert) || !strings.Contains(alone.err.Error(),
		`give the file with its RunnerDeployment "builders", too`) {
		t.Errorf("an autoscaler alone: %v", alone.err)
	}
	for _, input := range []string{"a: [", "- 1\n- 2", "5"} {
		if o := run(t, input); o.err == nil || errors.Is(o.err, finding.ErrProblems) {
			t.Errorf("%q: %v", input, o.err)
		}
	}
}
