package report

import (
	"strings"
	"testing"
)

func TestSomeNamesOfMany(t *testing.T) {
	long := strings.Repeat("x", MaxQuoted)
	for want, names := range map[string][]string{
		"a, b":               {"a", "b"},
		long + " and 2 more": {long, "a", "b"},
		"a and 1 more":       {"a", long},
		long + "x":           {long + "x"},
	} {
		if got := SomeOf(names); got != want {
			t.Errorf("SomeOf() = %q, want %q", got, want)
		}
	}
}
