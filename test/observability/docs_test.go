package observability

import (
	"regexp"
	"testing"
)

// The page's queries ask for existing metrics and labels.
func TestQueriesOfThePageAskForWhatThereIs(t *testing.T) {
	names, queries := known(), 0
	for _, span := range regexp.MustCompile("(?m)^\\| [^|]*\\? \\| `([^`]+)` \\|$").
		FindAllStringSubmatch(string(read(t, docs+"/observability.md")), -1) {
		queries++
		checkQuery(t, names, span[1])
	}
	if queries < 6 {
		t.Errorf("%d queries, want those of the table", queries)
	}
}
