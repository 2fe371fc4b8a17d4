package commands

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// validateWith runs the command on values of a set and of the controller.
func validateWith(t *testing.T, controllerValues, set string, more ...string) (code int, said string) {
	t.Helper()
	var paths []string
	for name, content := range map[string]string{"controller.yaml": controllerValues, "set.yaml": set} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if name == "set.yaml" {
			paths = append(paths, "-f", path)
		} else {
			paths = append(paths, "--controller-values", path)
		}
	}
	output := &bytes.Buffer{}
	code = Main(t.Context(), append(append([]string{"validate"}, paths...), more...), output, output)
	return code, output.String()
}

func TestValidateSaysWhatTheControllersTenantsDecide(t *testing.T) {
	const set = "githubConfigUrl: https://github.com/acme\ngithubConfigSecret: github\nmaxRunners: " +
		"'9'\nrunnerGroup: 5\n"
	const entries = "tenants:\n- {namespaces: [other]}\n- {namespaces: ['team-*'], maxRunners: 9, runnerGroups: " +
		"['5']}\n"
	for name, test := range map[string]struct {
		controller, set string
		more            []string
		code            int
		want            string
	}{
		"allowed":             {entries, set, []string{"-n", "team-a"}, ExitFine, "document 1: entry 2 of tenants allows it in namespace team-a."},
		"own namespace":       {entries, set + "namespaceOverride: team-b\n", []string{"-n", "nobody"}, ExitFine, "allows it in namespace team-b."},
		"no namespace":        {entries, set, nil, ExitProblems, "NamespaceUnknown: "},
		"no entry":            {entries, set, []string{"-n", "nobody"}, ExitProblems, "TenantsRefuse: namespace nobody is in no entry of tenants. The value tenants of the chart"},
		"a manifest":          {entries, goodSet, []string{"-n", "nobody"}, ExitProblems, "TenantsRefuse: namespace "},
		"no tenants":          {"replicaCount: 2", set, nil, ExitFine, "Nothing is wrong"},
		"no values at all":    {"", set, nil, ExitFine, "Nothing is wrong"},
		"unknown key":         {"tenants: [{namespace: [a]}]", set, nil, ExitUnable, `unknown field "namespace"`},
		"a map":               {"tenants: {namespaces: [a]}", set, nil, ExitUnable, "tenants: "},
		"pattern":             {"tenants: [{namespaces: ['a?']}]", set, nil, ExitUnable, `entry 1: namespaces has "a?", which the chart refuses`},
		"address with a user": {"tenants: [{}, {gitHubURLs: ['https://u@h/o']}]", set, nil, ExitUnable, "entry 2: gitHubURLs has"},
		"negative":            {"tenants: [{maxRunners: -1}]", set, nil, ExitUnable, "maxRunners is negative"},
		"not YAML":            {"tenants: [", set, nil, ExitUnable, "not values of the chart gha-runner-scale-set-controller"},
	} {
		t.Run(name, func(t *testing.T) {
			code, said := validateWith(t, test.controller, test.set, test.more...)
			if code != test.code || !strings.Contains(said, test.want) {
				t.Errorf("exit code %d, want %d:\n%s\nwant %s", code, test.code, said, test.want)
			}
		})
	}
}
