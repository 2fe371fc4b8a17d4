package load

import (
	"strings"
	"testing"
)

// A figure that was not measured, such as CPU time outside of Linux, is called unknown.
func TestComparisonWithNothing(t *testing.T) {
	table := Result{Single: &Result{}}.String()
	if strings.Contains(table, "NaN") || strings.Contains(table, "Inf") ||
		!strings.Contains(table, "API server's CPU unknown") {
		t.Error(table)
	}
}
