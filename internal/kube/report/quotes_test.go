package report_test

import (
	"strings"
	"testing"

	"github.com/harrier-ci/harrier/internal/kube/report"
)

func TestSomeNamesOfMany(t *testing.T) {
	long := strings.Repeat("x", 512) // as many as a message quotes
	for want, names := range map[string][]string{
		"a, b":               {"a", "b"},
		long + " and 2 more": {long, "a", "b"},
		"a and 1 more":       {"a", long},
		long + "x":           {long + "x"},
	} {
		if got := report.SomeOf(names); got != want {
			t.Errorf("SomeOf() = %q, want %q", got, want)
		}
	}
}
