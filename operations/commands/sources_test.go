package commands

import (
	"bytes"
	"log"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const plainValues = "githubConfigUrl: https://github.com/acme\ngithubConfigSecret: gh\n"

// indented moves a text some spaces to the right, to be put below a key.
func indented(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ") + "\n"
}

// said runs the command on files of one directory. Arguments name some of them.
func said(t *testing.T, files map[string]string, arguments ...string) (code int, output string) {
	t.Helper()
	directory := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(directory, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i, argument := range arguments {
		if _, ok := files[argument]; ok {
			arguments[i] = filepath.Join(directory, argument)
		}
	}
	written := &bytes.Buffer{}
	code = Main(t.Context(), append([]string{"validate"}, arguments...), written, written)
	return code, strings.ReplaceAll(written.String(), directory+"/", "")
}

// What stands below the charts' names or aliases in values of a parent chart is checked as their values. The rest is
// named.
func TestValidateValuesOfAParentChart(t *testing.T) {
	set := indented(plainValues)
	for name, test := range map[string]struct {
		values string
		code   int
		says   []string
	}{
		"by name":                     {"gha-runner-scale-set:\n" + set, ExitFine, []string{"Nothing is wrong"}},
		"wrong":                       {"gha-runner-scale-set:\n" + set + "  maxRuners: 5\n", ExitProblems, []string{"document 1, gha-runner-scale-set: UnknownValue: maxRuners"}},
		"both charts":                 {"gha-runner-scale-set:\n" + set + "gha-runner-scale-set-controller: {replicaCnt: 2}\n", ExitProblems, []string{"document 1, gha-runner-scale-set-controller: UnknownValue: replicaCnt"}},
		"by an alias":                 {"linux:\n" + set + "arm:\n" + set + "  minRunners: many\n  maxRuners: 1\n", ExitFine, []string{"document 1, arm: InvalidValues: minRunners", "document 1, arm: UnknownValue: maxRuners", "linux: taken for values of gha-runner-scale-set"}},
		"beside others":               {"gha-runner-scale-set:\n" + set + "redis: {enabled: true}\nglobal: {a: b}\n", ExitFine, []string{"Nothing is wrong", "document 1: not checked, because it isn't known to be for our charts: redis"}},
		"disabled":                    {"gha-runner-scale-set: {enabled: false, maxRuners: 1}\nlinux:\n" + set, ExitFine, []string{"not checked, because it isn't enabled: gha-runner-scale-set"}},
		"by its name, a guess beside": {"gha-runner-scale-set: {maxRuners: 1}\nlinux:\n" + set, ExitProblems, []string{"document 1, gha-runner-scale-set: UnknownValue"}},
		"two levels down":             {"platform:\n  gha-runner-scale-set:\n" + indented(set) + "    maxRuners: 5\n", ExitProblems, []string{"document 1, platform.gha-runner-scale-set: UnknownValue"}},
		"no values of ours":           {"redis: {enabled: true}\nweb: {image: {tag: a}}\n", ExitUnable, []string{"nothing was checked", "redis, web"}},
		"a set's, not below":          {plainValues + "gha-runner-scale-set: {}\n", ExitProblems, []string{"UnknownValue: gha-runner-scale-set"}},
	} {
		if code, output := said(t, map[string]string{"values.yaml": test.values}, "-f",
			"values.yaml"); code != test.code ||
			!containsAll(output, test.says) {
			t.Errorf("%s: exit code %d, want %d and %q: %s", name, code, test.code, test.says, output)
		}
	}
}

func containsAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

// The aliases are those of the Chart.yaml beside the file, and a further file lies on the values of that chart.
func TestValidateReadsTheParentChart(t *testing.T) {
	files := map[string]string{
		"Chart.yaml": "name: ours\ndependencies:\n- {name: gha-runner-scale-set, alias: big}\n- {name: gha-runner-scale-set-controller, alias: arc}\n- {name: redis}\n",
		"values.yaml": "big:\n" + indented(plainValues) +
			"arc: {replicaCount: 2}\n", "large.yaml": "big: {maxRunners: 9}\n",
		"wrong.yaml": "arc: {replicaCnt: 1}\nbig: {maxRuners: 1}\n",
		"own.yaml":   "own: {githubConfigUrl: 'https://github.com/acme', for: a template of this chart}\n",
	}
	for file, want := range map[string]int{"values.yaml": ExitFine, "large.yaml": ExitFine, "own.yaml": ExitFine,
		"wrong.yaml": ExitProblems} {
		code, output := said(t, files, "-f", file)
		if code != want || (code == ExitProblems &&
			!containsAll(output, []string{", arc: UnknownValue: replicaCnt", ", big: UnknownValue: maxRuners"})) {
			t.Errorf("%s: exit code %d, want %d: %s", file, code, want, output)
		}
	}
}

// The command line says whose values a file has that doesn't show it, or shows another chart than is meant.
func TestValidateTakesTheChartOfTheCommandLine(t *testing.T) {
	files := map[string]string{
		"Chart.yaml": "name: ours\ndependencies:\n- {name: gha-runner-scale-set, alias: big}\n", "misspelt.yaml": "replicaCnt: 2\n",
		"both.yaml": "nameOverride: a\n", "set.yaml": plainValues + "big: {maxRuners: 1}\n",
	}
	const set, controller = "--chart=gha-runner-scale-set", "--chart=gha-runner-scale-set-controller"
	for _, test := range []struct {
		file, chart string
		code        int
		want        string
	}{
		{"misspelt.yaml", "", ExitUnable, "nothing was checked"},
		{"misspelt.yaml", controller, ExitProblems, "UnknownValue: replicaCnt"},
		{"both.yaml", controller, ExitFine, "Nothing is wrong"},
		{"both.yaml", set, ExitProblems, "githubConfigUrl"},
		{"set.yaml", set, ExitProblems, "UnknownValue: big"},
		{"set.yaml", controller, ExitProblems, "githubConfigUrl"},
		{"set.yaml", "--chart=gha-runner", ExitUnable, "use gha-runner-scale-set or gha-runner-scale-set-controller"},
	} {
		arguments := []string{"-f", test.file}
		if test.chart != "" {
			arguments = append(arguments, test.chart)
		}
		if code, output := said(t, files, arguments...); code != test.code || !strings.Contains(output, test.want) {
			t.Errorf("%s %s: exit code %d, want %d and %q: %s", test.file, test.chart, code, test.code, test.want, output)
		}
	}
}

// Which dependencies are installed is for their conditions and tags to say, as for Helm.
func TestValidateLeavesOutWhatIsSwitchedOff(t *testing.T) {
	const chart = "name: ours\ndependencies:\n- {name: gha-runner-scale-set, alias: arm, condition: 'none.such, " +
		"runners.arm', tags: [all]}\n"
	for values, off := range map[string]bool{
		"runners: {arm: false}": true, "runners: {arm: true}\ntags: {all: false}": false, "tags: {all: false}": true,
		"tags: {all: true, other: false}": false,
		"runners: {arm: 'false'}":         false, "{}": false,
	} {
		values, want := values+"\narm: {maxRuners: 1}\n", ExitProblems
		if values[0] == '{' {
			values = values[3:]
		}
		if off {
			want = ExitUnable
		}
		if code, output := said(t, map[string]string{"Chart.yaml": chart, "values.yaml": values}, "-f",
			"values.yaml"); code != want || (off && !strings.Contains(output, "it isn't enabled: arm")) {
			t.Errorf("%q: exit code %d, want %d: %s", values, code, want, output)
		}
	}
}

// Several files, and several documents in one, are merged as Helm merges them.
func TestValidateMergesValues(t *testing.T) {
	files := map[string]string{"a.yaml": plainValues + "minRunners: 5\n", "b.yaml": "maxRunners: 3\n",
		"c.yaml": "minRunners: 1\n", "d.yaml": plainValues + "---\nmaxRunners: 2\nminRunners: 3\n"}
	for name, test := range map[string]struct {
		code  int
		files []string
	}{
		"each is right, both are wrong": {ExitProblems, []string{"a.yaml", "b.yaml"}},
		"the last wins":                 {ExitFine, []string{"a.yaml", "b.yaml", "c.yaml"}},
		"documents":                     {ExitProblems, []string{"d.yaml"}},
	} {
		var arguments []string
		for _, file := range test.files {
			arguments = append(arguments, "-f", file)
		}
		if code, output := said(t, files, arguments...); code != test.code {
			t.Errorf("%s: exit code %d, want %d: %s", name, code, test.code, output)
		}
	}
	for text, want := range map[string]int{
		// alone it would be nobody's
		"maxRuners: 1\n---\n" + plainValues:                                         ExitProblems,
		plainValues + "---\nmaxRuners: 1\n":                                         ExitProblems,
		plainValues + "---\nresourceMeta: {githubConfigSecret: {labels: {a: b}}}\n": ExitFine,
		"labels: {}\n---\nreplicaCount: 1\n":                                        ExitFine,
		"labels: {}\n---\nreplicaCont: 1\n":                                         ExitProblems,
		plainValues + "---\nreplicaCount: 1\n":                                      ExitFine, // of two charts
	} {
		if code, output := said(t, map[string]string{"values.yaml": text}, "-f", "values.yaml"); code != want {
			t.Errorf("%q: exit code %d, want %d: %s", text, code, want, output)
		}
	}
	if code, output := said(t, map[string]string{"twice.yaml": plainValues + "maxRunners: 1\nmaxRunners: 2\n"}, "-f",
		"twice.yaml"); code != ExitFine || !strings.Contains(output, "maxRunners") {
		t.Errorf("a key that comes twice: exit code %d: %s", code, output)
	}
}

// Values of the command line win over those of files, as helm's flags of the same names do, and go where the files' go.
func TestValidateTakesValuesOfTheCommandLine(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("t"), 0o600); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"values.yaml":    plainValues + "template: {spec: {containers: [{name: runner, image: mine, command: [run]}]}}\n",
		"no-secret.yaml": "githubConfigUrl: https://github.com/acme\n", "secret.yaml": "apiVersion: v1\nkind: Secret\n",
		"controller.yaml": "replicaCount: 1\n",
	}
	for name, test := range map[string]struct {
		arguments []string
		code      int
		says      string
	}{
		"a wrong one":             {[]string{"-f", "values.yaml", "--set", "maxRunners=1,minRunners=2"}, ExitProblems, "maxRunners has to be greater or equal to minRunners"},
		"the missing one":         {[]string{"-f", "no-secret.yaml", "--set", "githubConfigSecret=gh"}, ExitFine, "Nothing is wrong"},
		"of a file":               {[]string{"-f", "no-secret.yaml", "--set-file", "githubConfigSecret.github_token=" + token}, ExitFine, "Nothing is wrong"},
		"no such file":            {[]string{"-f", "no-secret.yaml", "--set-file", "githubConfigSecret.github_token=none"}, ExitUnable, "--set-file"},
		"into a list":             {[]string{"-f", "values.yaml", "--set", "template.spec.containers[0].imagePullPolicy=always"}, ExitProblems, "imagePullPolicy: Unsupported value"},
		"a number that is a text": {[]string{"-f", "values.yaml", "--set-string", "template.spec.terminationGracePeriodSeconds=30"}, ExitProblems, "terminationGracePeriodSeconds"},
		"JSON":                    {[]string{"-f", "values.yaml", "--set-json", `{"maxRunners": 0}`, "--set-json", "minRunners=1"}, ExitProblems, "maxRunners has to be"},
		"literally":               {[]string{"-f", "values.yaml", "--set-literal", "runnerGroup=a,b"}, ExitFine, "Nothing is wrong"},
		"null":                    {[]string{"-f", "values.yaml", "--set", "githubConfigSecret=null"}, ExitProblems, "CredentialsMissing"},
		"alone":                   {[]string{"--set", "githubConfigUrl=https://github.com/acme,githubConfigSecret=gh,maxRuners=1"}, ExitProblems, "the command line: UnknownValue: maxRuners"},
		"for the other chart":     {[]string{"-f", "controller.yaml", "--set", "flags.logLevl=debug"}, ExitProblems, "UnknownValue: flags.logLevl"},
		"nothing to belong to":    {[]string{"-f", "secret.yaml", "--set", "maxRunners=1"}, ExitUnable, "there are only objects"},
		"no setting":              {[]string{"-f", "values.yaml", "--set", "maxRunners"}, ExitUnable, "--set: "},
	} {
		if code, output := said(t, files, test.arguments...); code != test.code ||
			!strings.Contains(output, test.says) {
			t.Errorf("%s: exit code %d, want %d and %q: %s", name, code, test.code, test.says, output)
		}
	}
}

// A credential that somebody wrote in the wrong place isn't shown, in whatever a build prints, and no text of a file
// begins a line there.
func TestValidateShowsNoCredentialAndNoLineOfOthers(t *testing.T) {
	const secret = "s3cr3t"
	resources := `template: {spec: {containers: [{name: runner, image: i, command: [run], resources: {limits: {"a\n::error::x\u001b[2J": 1}}}]}}` + "\n"
	for name, test := range map[string]struct {
		values    string
		arguments []string
		code      int
	}{
		"a token as the name of a Secret": {"githubConfigUrl: https://github.com/acme\ngithubConfigSecret: ghp_" + secret + "\n", nil, ExitProblems},
		"the same, of the command line":   {"githubConfigUrl: https://github.com/acme\n", []string{"--set", "githubConfigSecret=ghp_" + secret}, ExitProblems},
		"a comma in a token":              {plainValues, []string{"--set", "githubConfigSecret.github_token=a," + secret}, ExitUnable},
		"a query":                         {"githubConfigUrl: https://github.com/acme?token=" + secret + "\ngithubConfigSecret: gh\n", nil, ExitProblems},
		"a password":                      {"githubConfigUrl: https://bot:" + secret + "@github.com/acme\ngithubConfigSecret: gh\n", nil, ExitProblems},
		"a password with a query in it":   {"githubConfigUrl: 'https://bot:" + secret + "?a@github.com/acme'\ngithubConfigSecret: gh\n", nil, ExitProblems},
		"a password with slashes":         {"githubConfigUrl: https://bot:" + secret + "/b?c@github.com/acme\ngithubConfigSecret: gh\n", nil, ExitProblems},
		"a line and a code for terminals": {plainValues + resources, nil, ExitProblems},
	} {
		code, output := said(t, map[string]string{"values.yaml": test.values},
			append([]string{"-f", "values.yaml"}, test.arguments...)...)
		if code != test.code || strings.Contains(output, secret) || strings.Contains(output, "\n::error") ||
			strings.Contains(output, "\x1b") {
			t.Errorf("%s: exit code %d, want %d: %q", name, code, test.code, output)
		}
	}
}

func TestValidateTakesValuesOfTheCommandLineForAParentChart(t *testing.T) {
	files := map[string]string{"Chart.yaml": "name: ours\ndependencies:\n- {name: gha-runner-scale-set, alias: big}\n",
		"big.yaml": "big:\n" + indented(plainValues)}
	for setting, want := range map[string]int{"big.maxRunners=1": ExitFine, "big.maxRuners=1": ExitProblems,
		"maxRuners=1": ExitFine} {
		if code, output := said(t, files, "-f", "big.yaml", "--set", setting); code != want {
			t.Errorf("%s: exit code %d, want %d: %s", setting, code, want, output)
		}
	}
}

// Helm's warnings about values are reported with the values' names, and the program's own log is left alone.
func TestValidateTellsWhatHelmWarnsOf(t *testing.T) {
	written := &bytes.Buffer{}
	log.SetOutput(written)
	defer log.SetOutput(os.Stderr)
	code, output := said(t, map[string]string{"values.yaml": plainValues + "template: {spec: []}\n"}, "-f",
		"values.yaml")
	if code != ExitProblems || !strings.Contains(output,
		"values.yaml: document 1: InvalidValues: Helm: cannot overwrite table with non table for "+
			"gha-runner-scale-set.template.spec") {
		t.Errorf("exit code %d: %s", code, output)
	}
	log.Print("on")
	if got := written.String(); !strings.HasSuffix(got, " on\n") || strings.Count(got, "\n") != 1 {
		t.Errorf("the program's log has %q", got)
	}
}

func TestValidateInJSON(t *testing.T) {
	code, output := said(t, map[string]string{"values.yaml": plainValues +
		"containerMode: {type: custom}\nmaxRuners: 1\n"}, "-f", "values.yaml", "-o", "json")
	if code != ExitProblems || !containsAll(output,
		[]string{`"severity": "problem"`, `"reason": "UnknownValue"`, `"file": "values.yaml"`, `"notes": []`}) {
		t.Errorf("exit code %d: %s", code, output)
	}
}
