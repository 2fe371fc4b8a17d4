package doctor

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/utils/ptr"
)

// What the policies of the chart decide about sets, and that this is the same, is tested in test/charts on an API server.

func TestTheFirstEntryThatAllowsASetIsNamed(t *testing.T) {
	entries, err := readTenants([]byte("tenants:\n- {namespaces: [a], maxRunners: 5}\n- {namespaces: [a], gitHubURLs: [https://github.com/acme]}\n- {}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		set  limited
		want int
	}{
		{limited{"a", "https://github.com/acme", "", ptr.To(5)}, 0},
		{limited{"a", "https://github.com/acme", "", ptr.To(6)}, 1},
		{limited{"a", "https://github.com/other", "", ptr.To(6)}, 2},
		{limited{"b", "https://github.com/acme", "", nil}, 2},
	} {
		if got, refusal := entries.decide(test.set); got != test.want || refusal != "" {
			t.Errorf("%+v: entry %d, %q; want %d", test.set, got, refusal, test.want)
		}
	}
}

func TestAnAddressIsBelowAnotherByWholeSegments(t *testing.T) {
	for allowed, addresses := range map[string]map[string]bool{
		"https://github.com/Acme/": {
			"https://github.com/acme": true, "https://github.com/acme/": true, "https://GITHUB.com:443/acme/repo": true,
			"https://github.com/acme-evil": false, "https://github.com/acme/../evil": false, "https://github.com/acme%2fevil": false,
			"https://github.com:4430/acme": false, "https://user@github.com/acme": false, "http://github.com/acme": false, "": false,
		},
		"http://[::1]:80": {"http://[::1]/o": true, "http://[::1]:80/o": true, "http://[::1]:8080/o": false, "http://[::1]": false},
		"https://h:443/o": {"https://h/o": true, "https://h:443/o": true, "https://h:443443/o": false},
	} {
		for address, want := range addresses {
			if got := (tenant{GitHubURLs: []string{allowed}}).allowsAddress(address); got != want {
				t.Errorf("%s below %s: %t", address, allowed, got)
			}
		}
	}
}

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
	const set = "githubConfigUrl: https://github.com/acme\ngithubConfigSecret: github\nmaxRunners: '9'\nrunnerGroup: 5\n"
	const entries = "tenants:\n- {namespaces: [other]}\n- {namespaces: ['team-*'], maxRunners: 9, runnerGroups: ['5']}\n"
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

func FuzzTenantsNeverPanic(f *testing.F) {
	f.Add("tenants: [{namespaces: ['*'], gitHubURLs: [https://github.com/acme], runnerGroups: [a], maxRunners: 1}]", "https://github.com/acme")
	f.Add("tenants: null", "https://u:p@h:443/%2f")
	f.Fuzz(func(t *testing.T, values, address string) {
		entries, err := readTenants([]byte(values))
		if err != nil {
			return
		}
		number, refusal := entries.decide(limited{namespace: "a", url: address, maxRunners: ptr.To(1)})
		if (number >= 0) == (refusal != "") {
			t.Errorf("entry %d and the refusal %q", number, refusal)
		}
	})
}
