package tenants

import (
	"testing"

	"k8s.io/utils/ptr"
)

// What the policies of the chart decide about sets, and that this is the same, is tested in test/charts on an API
// server.

func TestTheFirstEntryThatAllowsASetIsNamed(t *testing.T) {
	entries, err := Read([]byte("tenants:\n- {namespaces: [a], maxRunners: 5}\n- {namespaces: [a], gitHubURLs: " +
		"[https://github.com/acme]}\n- {}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		set  Set
		want int
	}{
		{Set{"a", "https://github.com/acme", "", ptr.To(5)}, 0},
		{Set{"a", "https://github.com/acme", "", ptr.To(6)}, 1},
		{Set{"a", "https://github.com/other", "", ptr.To(6)}, 2},
		{Set{"b", "https://github.com/acme", "", nil}, 2},
	} {
		if got, refusal := entries.Decide(test.set); got != test.want || refusal != "" {
			t.Errorf("%+v: entry %d, %q; want %d", test.set, got, refusal, test.want)
		}
	}
}

func TestAnAddressIsBelowAnotherByWholeSegments(t *testing.T) {
	for allowed, addresses := range map[string]map[string]bool{
		"https://github.com/Acme/": {
			"https://github.com/acme": true, "https://github.com/acme/": true, "https://GITHUB.com:443/acme/repo": true,
			"https://github.com/acme-evil": false, "https://github.com/acme/../evil": false,
			"https://github.com/acme%2fevil": false,
			"https://github.com:4430/acme":   false, "https://user@github.com/acme": false,
			"http://github.com/acme": false,
			"":                       false,
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

func FuzzTenantsNeverPanic(f *testing.F) {
	f.Add("tenants: [{namespaces: ['*'], gitHubURLs: [https://github.com/acme], runnerGroups: [a], maxRunners: 1}]",
		"https://github.com/acme")
	f.Add("tenants: null", "https://u:p@h:443/%2f")
	f.Fuzz(func(t *testing.T, values, address string) {
		entries, err := Read([]byte(values))
		if err != nil {
			return
		}
		number, refusal := entries.Decide(Set{Namespace: "a", URL: address, MaxRunners: ptr.To(1)})
		if (number >= 0) == (refusal != "") {
			t.Errorf("entry %d and the refusal %q", number, refusal)
		}
	})
}
