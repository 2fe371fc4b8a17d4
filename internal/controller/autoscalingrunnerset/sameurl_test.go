package autoscalingrunnerset

import "testing"

// An address that is only spelt differently is the same: the scale set registered there is the one in use.
func TestSameURL(t *testing.T) {
	for address, want := range map[string]bool{
		"https://github.com/my-org":      true,
		"https://github.com/my-org/":     true,
		"https://GitHub.com/My-Org":      true,
		"https://github.com/my-org/repo": false,
		"https://ghes.example.com/org":   false,
		"no address":                     false,
	} {
		if got := sameURL("https://github.com/my-org", address); got != want {
			t.Errorf("%q: %t, want %t", address, got, want)
		}
	}
}
