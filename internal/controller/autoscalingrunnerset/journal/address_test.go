package journal_test

import (
	"testing"

	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/journal"
)

// An address that is only spelt differently is the same: the scale set registered there is the one in use.
func TestSameURL(t *testing.T) {
	for address, want := range map[string]bool{
		"https://github.com/my-org":      true,
		"https://github.com/my-org/":     true,
		"https://GitHub.com/My-Org":      true,
		"https://www.github.com/my-org":  false,
		"http://github.com/my-org":       false,
		"https://github.com:8443/my-org": false,
		"https://github.com/my-org/repo": false,
		"https://ghes.example.com/org":   false,
		"no address":                     false,
	} {
		if got := journal.SameURL("https://github.com/my-org", address); got != want {
			t.Errorf("%q: %t, want %t", address, got, want)
		}
	}
}

// TestSameServer: credentials for one address go to no other server, and never in the clear.
func TestSameServer(t *testing.T) {
	for address, want := range map[string]bool{
		"https://github.com/other":       true,
		"https://www.github.com/other":   true,
		"http://github.com/my-org":       false,
		"https://ghes.example.com/other": false,
		"no address":                     false,
	} {
		if got := journal.SameServer("https://github.com/my-org", address); got != want {
			t.Errorf("%q: %t, want %t", address, got, want)
		}
	}
	if journal.SameServer("https://ghes.example.com/org", "https://ghes.example.com:8443/org") {
		t.Error("another port is another server")
	}
}
