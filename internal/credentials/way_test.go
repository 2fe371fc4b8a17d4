package credentials_test

import (
	"testing"

	"github.com/harrier-ci/harrier/internal/credentials"
)

func certificate(body string) string {
	return "-----BEGIN CERTIFICATE-----\n" + body + "\n-----END CERTIFICATE-----\n"
}

// Two sets reach one server exactly if nobody but that server can have answered both.
func TestWays(t *testing.T) {
	const organization = "https://github.com/my-org"
	ours, theirs := certificate("b3Vycw=="), certificate("dGhlaXJz")
	type end struct{ url, namespace, rootCAs string }
	for name, test := range map[string]struct {
		a, b end
		same bool
	}{
		"two namespaces":           {end{organization, "a", ""}, end{organization, "b", ""}, true},
		"another organization":     {end{organization, "a", ""}, end{"https://github.com/other", "b", ""}, true},
		"spelling":                 {end{organization, "a", ""}, end{"https://GitHub.com:443/my-org/", "b", ""}, true},
		"own certificates":         {end{organization, "a", ""}, end{organization, "b", theirs}, false},
		"the same certificates":    {end{organization, "a", ours + theirs}, end{organization, "b", "x\n" + theirs + theirs + ours}, true},
		"one certificate more":     {end{organization, "a", ours}, end{organization, "b", ours + theirs}, false},
		"not read as certificates": {end{organization, "a", ours + theirs}, end{organization, "b", ours + "-----BEGIN FOO-----\ndGhlaXJz\n-----END FOO-----\n"}, false},
		"another host":             {end{organization, "a", ""}, end{"https://ghes.example.com/my-org", "b", ""}, false},
		"another port":             {end{organization, "a", ""}, end{"https://github.com:8443/my-org", "b", ""}, false},
		"http":                     {end{organization, "a", ""}, end{"http://github.com/my-org", "a", ""}, false},
		"http of two namespaces":   {end{"http://ghes/my-org", "a", ""}, end{"http://ghes/my-org", "b", ""}, false},
		"http of one namespace":    {end{"http://ghes/my-org", "a", ours}, end{"http://ghes/my-org", "a", theirs}, true},
	} {
		a := credentials.WayTo(test.a.url, test.a.namespace, test.a.rootCAs)
		b := credentials.WayTo(test.b.url, test.b.namespace, test.b.rootCAs)
		if a == "" || (a == b) != test.same {
			t.Errorf("%s: %q and %q, want the same: %t", name, a, b, test.same)
		}
	}
	if way := credentials.WayTo("not an address", "a", ""); way != "" {
		t.Errorf("way to an invalid address: %q", way)
	}
}
