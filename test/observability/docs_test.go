package observability

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// link is one to a file of this repository, with or without a heading.
	link = regexp.MustCompile(`\]\(([^):#]*)(#[^)]*)?\)`)
	// heading is any of a page, and dropped what GitHub leaves out of its anchor.
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	dropped = regexp.MustCompile(`[^a-z0-9 _-]`)
	// code is what is set as such: text in it is no link.
	code = regexp.MustCompile("(?s)```.*?```|`[^`]*`")
)

func pages(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, pattern := range []string{"/*.md", "/*/*.md"} {
		files, err := filepath.Glob(docs + pattern)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, files...)
	}
	return found
}

func TestLinksLeadSomewhere(t *testing.T) {
	for _, page := range pages(t) {
		text := code.ReplaceAllString(string(read(t, page)), "")
		for _, target := range link.FindAllStringSubmatch(text, -1) {
			file := page
			if target[1] != "" {
				file = filepath.Join(filepath.Dir(page), target[1])
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s links to %s, which is not there", page, target[1])
				continue
			}
			if anchor := strings.TrimPrefix(target[2], "#"); anchor != "" && !anchors(string(read(t, file)))[anchor] {
				t.Errorf("%s links to %s%s, which is no heading", page, target[1], target[2])
			}
		}
	}
}

// anchors are those that GitHub gives the headings of a page.
func anchors(page string) map[string]bool {
	found := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(page, -1) {
		found[strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-")] = true
	}
	return found
}

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

// Pages of the documentation are all reached from its first one.
func TestEveryPageIsListed(t *testing.T) {
	first := string(read(t, docs+"/README.md"))
	for _, page := range pages(t) {
		name, err := filepath.Rel(docs, page)
		if err != nil {
			t.Fatal(err)
		}
		if name != "README.md" && !strings.Contains(first, "("+name+")") {
			t.Errorf("docs/README.md does not list %s", name)
		}
	}
}
