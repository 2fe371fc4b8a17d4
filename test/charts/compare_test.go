package charts

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
)

// check fails the test unless got and want are equal.
func check(t *testing.T, what string, got, want any) {
	t.Helper()
	if difference := cmp.Diff(want, got); difference != "" {
		t.Errorf("%s (-want +got):\n%s", what, difference)
	}
}

// checkContains fails the test unless the text has the part.
func checkContains(t *testing.T, text, part string) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("want %q in:\n%s", part, text)
	}
}

// rules renders policy rules one per line: "group/resource: verbs", in their order.
func rules(list []rbacv1.PolicyRule) []string {
	var lines []string
	for _, rule := range list {
		lines = append(lines,
			strings.Join(rule.APIGroups, ",")+"/"+strings.Join(rule.Resources, ",")+": "+strings.Join(rule.Verbs, " "))
	}
	return lines
}

// names returns the result of name for every element.
func names[T any](list []T, name func(T) string) []string {
	var result []string
	for _, element := range list {
		result = append(result, name(element))
	}
	return result
}

func sortedKeys[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

func sorted(lists ...[]string) []string { return slices.Sorted(slices.Values(slices.Concat(lists...))) }

// nonBlankLines returns the lines of the text that have more than spaces.
func nonBlankLines(text string) (lines []string) {
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) != "" {
			lines = append(lines, line)
		}
	}
	return lines
}
