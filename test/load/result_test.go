package load

import (
	"strings"
	"testing"
)

// What was not measured, as no CPU time is outside of Linux, is called unknown.
func TestComparisonWithNothing(t *testing.T) {
	table := Result{Single: &Result{}}.String()
	if strings.Contains(table, "NaN") || strings.Contains(table, "Inf") || !strings.Contains(table, "API server's CPU unknown") {
		t.Error(table)
	}
}
