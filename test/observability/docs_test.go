package observability

import (
	"regexp"
	"testing"
)

// Queries that the page offers ask for what there is.
func TestQueriesOfThePageAskForWhatThereIs(t *testing.T) {
	names, queries := known(), 0
	for _, span := range regexp.MustCompile("(?m)^\\| [^|]*\\? \\| `([^`]+)` \\|$").FindAllStringSubmatch(string(read(t, docs+"/observability.md")), -1) {
		queries++
		checkQuery(t, names, span[1])
	}
	if queries < 6 {
		t.Errorf("%d queries, want those of the table", queries)
	}
}
