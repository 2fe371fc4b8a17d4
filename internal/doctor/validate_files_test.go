package doctor

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Files as users write them: those in testdata/good pass, and each in testdata/bad is refused for the reason that its first line
// names.
func TestValidateFiles(t *testing.T) {
	bad := files(t, "testdata/bad/*.yaml")
	if len(bad) < 10 {
		t.Errorf("%d bad files, want ten", len(bad))
	}
	for _, file := range bad {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(string(content), "\n")
		reason, output := strings.TrimPrefix(first, "# "), &bytes.Buffer{}
		if code := Main(t.Context(), []string{"validate", "-f", file}, output, output); code != ExitProblems {
			t.Errorf("%s: exit code %d, want %d: %s", file, code, ExitProblems, output)
		}
		if said := output.String(); !strings.Contains(said, ": "+reason+": ") || !strings.Contains(said, "To do: ") {
			t.Errorf("%s: output %swant %s and what to do", file, said, reason)
		}
	}
	for _, file := range files(t, "testdata/good/*.yaml") {
		output := &bytes.Buffer{}
		if code := Main(t.Context(), []string{"validate", "-f", file}, output, output); code != ExitFine {
			t.Errorf("%s: exit code %d, want %d: %s", file, code, ExitFine, output)
		}
	}
}

func files(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) == 0 {
		t.Fatalf("%s: %v, %v", pattern, found, err)
	}
	return found
}

// schemaKeys returns the top-level keys of a chart's values.
func schemaKeys(t *testing.T, chart string) []string {
	t.Helper()
	content, err := os.ReadFile("../../charts/" + chart + "/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties map[string]any `json:"properties"`
	}
	if err := json.Unmarshal(content, &schema); err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(schema.Properties))
}

// knownValues are exactly the values of the chart.
func TestKnownValuesAreTheCharts(t *testing.T) {
	ofSets, ofController := schemaKeys(t, "gha-runner-scale-set"), schemaKeys(t, "gha-runner-scale-set-controller")
	if difference := cmp.Diff(ofSets, knownValues); difference != "" {
		t.Error(difference)
	}
	for _, key := range controllerValues {
		if slices.Contains(ofSets, key) || !slices.Contains(ofController, key) {
			t.Errorf("%s is no value of the controller's chart alone", key)
		}
	}
}
