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

	"github.com/harrier-ci/harrier/internal/convert"
	"github.com/harrier-ci/harrier/internal/convert/report"
	"github.com/harrier-ci/harrier/internal/doctor/finding"
)

// outcome is what a command line says and writes.
type outcome struct {
	report         report.Report
	text           string
	err            error
	values         map[string]map[string]any
	files, printed string
}

// run converts a file. The report is read as JSON, and as text without the values' help.
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
	var o outcome
	directory := filepath.Join(t.TempDir(), "values")
	var stdout, stderr bytes.Buffer
	command := func(more ...string) error {
		stdout.Reset()
		flags := flag.NewFlagSet("convert", flag.ContinueOnError)
		options := convert.NewOptions(flags)
		if err := flags.Parse(append(slices.Clone(arguments), more...)); err != nil {
			t.Fatal(err)
		}
		return options.Run(t.Context(), flags.Args(), &stdout, &stderr)
	}
	if o.err = command("-d", directory, "-o", "json"); o.err != nil && !errors.Is(o.err, finding.ErrProblems) {
		return o
	}
	if err := json.Unmarshal(stdout.Bytes(), &o.report); err != nil {
		t.Fatalf("the report is no JSON: %v\n%s", err, stdout.String())
	}
	if err := command(); !errors.Is(err, o.err) {
		t.Fatalf("fails with %v, and as JSON with %v", err, o.err)
	}
	o.printed, o.text = stdout.String(), stderr.String()
	o.values = map[string]map[string]any{}
	var texts []string
	for _, set := range o.report.Sets {
		content, err := os.ReadFile(set.File)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(content))
		var values map[string]any
		if err := yaml.Unmarshal(content, &values); err != nil {
			t.Fatal(err)
		}
		o.values[set.Name] = values
	}
	if o.files = strings.Join(texts, "---\n"); o.files != o.printed {
		t.Errorf("standard output and files differ:\n%s\n%s", o.printed, o.files)
	}
	return o
}

// problems are the reasons of what needs a hand.
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
			if slices.Contains([]string{"InvalidValues", "UnknownValue", "InvalidManifest", "UnknownField", "CredentialsMissing", "InvalidVolumeClaim"}, found.Reason) && len(found.Fields) == 0 {
				t.Errorf("%s: %s: %s", file, found.Reason, found.Message)
			}
		}
	}
}

func TestOneSecretForAll(t *testing.T) {
	o := runFiles(t, "-f", "testdata/repository.yaml")
	if got := o.problems(); !slices.Equal(got, []string{"CredentialsNeeded"}) || o.values["one-repository"]["githubConfigSecret"] != "github-credentials" {
		t.Errorf("needs a hand for %v; %v", got, o.values)
	}
}

func TestGitHubEnterpriseServer(t *testing.T) {
	for url, want := range map[string]string{
		"https://github.example.com":   "https://github.example.com/acme",
		"https://github.example.com/":  "https://github.example.com/acme",
		"http://github.internal:8080/": "http://github.internal:8080/acme",
	} {
		if got := runFiles(t, "-f", "testdata/organization.yaml", "--github-url", url).values["whole-organization"]["githubConfigUrl"]; got != want {
			t.Errorf("%s: %v, want %s", url, got, want)
		}
	}
	if got := runFiles(t, "-f", "testdata/enterprise.yaml", "--github-url", "https://github.example.com").values["whole-enterprise"]["githubConfigUrl"]; got != "https://github.example.com/enterprises/acme-corp" {
		t.Errorf("an enterprise is at %v", got)
	}
	for _, url := range []string{"github.example.com", "https://user:s3cret@github.example.com", "https://github.example.com/acme", "ftp://github.example.com", "https://", "https://a?s3cret"} {
		if o := runFiles(t, "-f", "testdata/organization.yaml", "--github-url", url); o.err == nil || strings.Contains(o.err.Error(), "s3cret") {
			t.Errorf("%s: %v", url, o.err)
		}
	}
}

// What is there already stays, unless it says the same.
func TestFilesAreNotOverwritten(t *testing.T) {
	directory := t.TempDir()
	convertTo := func(file string) error {
		flags := flag.NewFlagSet("convert", flag.ContinueOnError)
		options := convert.NewOptions(flags)
		if err := flags.Parse([]string{"-f", file, "-d", directory, "--github-config-secret", "github"}); err != nil {
			t.Fatal(err)
		}
		return options.Run(t.Context(), nil, &bytes.Buffer{}, &bytes.Buffer{})
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
	if two := runFiles(t, "-f", "testdata/repository.yaml", "-f", "testdata/organization.yaml"); len(two.report.Sets) != 2 {
		t.Errorf("two files have %d scale sets", len(two.report.Sets))
	}
	for _, input := range []string{"", "a: b", "kind: [RunnerDeployment]", "apiVersion: apps/v1\nkind: RunnerSet", "kind: List\nitems: [5, {kind: Secret}]"} {
		if o := run(t, input); !errors.Is(o.err, convert.ErrNothingToConvert) {
			t.Errorf("%q: %v", input, o.err)
		}
	}
	for _, input := range []string{"a: [", "- 1\n- 2", "5"} {
		if o := run(t, input); o.err == nil || errors.Is(o.err, finding.ErrProblems) {
			t.Errorf("%q: %v", input, o.err)
		}
	}
}
