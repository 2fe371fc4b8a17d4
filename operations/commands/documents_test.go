package commands

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/harrier-ci/harrier/operations/validation"
)

// goodSet and wrongSet are items of lists; the wrong one has a minRunners that is greater than its maxRunners.
const (
	goodSet = `{apiVersion: actions.github.com/v1alpha1, kind: AutoscalingRunnerSet,
  metadata: {namespace: runners, name: linux, uid: 5c2e, resourceVersion: "12", managedFields: [{manager: helm, operation: Update}]},
  spec: {githubConfigUrl: https://github.com/acme, githubConfigSecret: github, maxRunners: 2,
    template: {spec: {containers: [{name: runner, image: mine, command: [run.sh]}]}}}, status: {currentRunners: 1}}`
	listStart = "apiVersion: v1\nkind: List\nmetadata: {resourceVersion: ''}\nitems:\n- "
)

var (
	wrongSet = strings.NewReplacer("maxRunners: 2", "minRunners: 3, maxRunners: 2", "name: linux",
		"name: windows").Replace(goodSet)
	withoutID = strings.NewReplacer("apiVersion: actions.github.com/v1alpha1, kind: AutoscalingRunnerSet,",
		"").Replace(wrongSet)
)

// A list of objects, as kubectl get prints it, is checked like each object by itself, and a problem names its object.
func TestValidateLists(t *testing.T) {
	const windows = "AutoscalingRunnerSet runners/windows: "
	for name, test := range map[string]struct {
		input string
		want  []string // objects with their reasons
	}{
		"a good set":              {listStart + goodSet, nil},
		"a wrong set":             {listStart + goodSet + "\n- " + wrongSet, []string{windows + "InvalidManifest"}},
		"beside other kinds":      {listStart + "{apiVersion: v1, kind: Secret}\n- " + wrongSet, []string{windows + "InvalidManifest"}},
		"in a second document":    {"kind: Role\n---\n" + listStart + wrongSet, []string{windows + "InvalidManifest"}},
		"the API server's list":   {"kind: AutoscalingRunnerSetList\nitems:\n- " + wrongSet, []string{windows + "InvalidManifest"}},
		"the same, without kinds": {"kind: AutoscalingRunnerSetList\nitems:\n- " + withoutID, []string{windows + "InvalidManifest"}},
		"a list in a list":        {listStart + "{kind: List, items: [" + wrongSet + "]}", []string{windows + "InvalidManifest"}},
		"an unknown field":        {listStart + strings.ReplaceAll(wrongSet, "maxRunners", "most"), []string{windows + "InvalidManifest"}},
		"a field that comes twice": {listStart + strings.ReplaceAll(goodSet, "maxRunners: 2",
			"maxRunners: 2, maxRunners: 3"),
			[]string{"document 1: InvalidManifest"}},
		"a set without a name":   {listStart + goodSet + "\n- {kind: AutoscalingRunnerSet, spec: 1}", []string{"document 1, item 2: InvalidManifest", "document 1, item 2: InvalidManifest"}},
		"an item without a kind": {listStart + withoutID, []string{"document 1, item 1: InvalidManifest"}},
		"an item that is none":   {listStart + "linux", []string{"document 1, item 1: InvalidManifest"}},
		"items that are no list": {"kind: List\nitems: {a: b}", []string{"document 1: InvalidManifest"}},
	} {
		t.Run(name, func(t *testing.T) {
			findings, err := validation.Validate([]byte(test.input), nil, "")
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, found := range findings {
				got = append(got, found.Object+": "+found.Reason)
				if found.Message == "" || found.Fix == "" {
					t.Errorf("%+v lacks what is wrong or what to do", found)
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("found %q, want %q", got, test.want)
			}
		})
	}
}

// Only input that was checked is called valid. Input without anything to check is neither valid nor wrong.
func TestValidateSaysWhatItChecked(t *testing.T) {
	const nothing = "nothing was checked: FILE has "
	for name, test := range map[string]struct {
		input string
		code  int
		says  string
	}{
		"a set":                {goodSet, ExitFine, "Nothing is wrong in FILE."},
		"a list of sets":       {listStart + goodSet, ExitFine, "Nothing is wrong in FILE."},
		"other kinds beside":   {"kind: Role\n---\n" + goodSet, ExitFine, "Nothing is wrong in FILE."},
		"a wrong list":         {listStart + wrongSet, ExitProblems, "FILE: AutoscalingRunnerSet runners/windows: InvalidManifest: "},
		"an item of no kind":   {listStart + "{}", ExitProblems, "FILE: document 1, item 1: InvalidManifest: "},
		"other kinds alone":    {"kind: Secret\n---\nkind: Role\n---\nkind: Role\n", ExitUnable, nothing + "only content that is not checked: Role, Secret; pass values"},
		"a list of others":     {listStart + "{kind: EphemeralRunnerSet}", ExitUnable, nothing + "only content that is not checked: EphemeralRunnerSet; pass values"},
		"a list without sets":  {"apiVersion: v1\nkind: List\nitems: []\n", ExitUnable, nothing + "no values and no object; pass values"},
		"nothing at all":       {"", ExitUnable, nothing + "no values and no object; pass values"},
		"the controller's":     {"replicaCount: 2\nlabels: {}\n", ExitFine, "Nothing is wrong in FILE."},
		"wrong controller's":   {"replicaCount: 2\nflag: {}\n", ExitProblems, "FILE: document 1: UnknownValue: flag: "},
		"another chart's":      {"ingress: {enabled: true}\nweb: {}\n", ExitUnable, nothing + "only content that is not checked: values of another chart: ingress, web; pass"},
		"a set's all the same": {"replicaCount: 2\ngithubConfigUrl: https://github.com/acme\n", ExitProblems, "FILE: document 1: UnknownValue: "},
		"one after the end":    {goodSet + "\n...\n" + wrongSet, ExitProblems, "FILE: AutoscalingRunnerSet runners/windows: InvalidManifest: "},
		"more after an object": {"{a: 1}\nb: 2\n", ExitUnable, "FILE: document 1 is not YAML: there is more after the end"},
		"no YAML":              {"a: [", ExitUnable, "FILE: document 1 is not YAML: "},
		"a comment":            {"# later\n", ExitUnable, nothing + "no values and no object; pass values"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "input.yaml")
			if err := os.WriteFile(file, []byte(test.input), 0o600); err != nil {
				t.Fatal(err)
			}
			output := &bytes.Buffer{}
			if code := Main(t.Context(), []string{"validate", "-f", file}, output, output); code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			if said := strings.ReplaceAll(output.String(), file, "FILE"); !strings.HasPrefix(said, test.says) {
				t.Errorf("says %q, want %q", said, test.says)
			}
		})
	}
}
