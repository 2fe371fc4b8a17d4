package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// longest is the number of words that a page may have: what one reads in twenty minutes. References are looked up in,
// not read.
const longest = 4000

var references = []string{"crds.md", "values-gha-runner-scale-set.md", "values-gha-runner-scale-set-controller.md"}

func TestPagesAreShort(t *testing.T) {
	t.Parallel()
	for _, p := range pages(t) {
		words := len(strings.Fields(p.text))
		if words > longest && !slices.Contains(references, filepath.Base(p.path)) {
			t.Errorf("%s has %d words, at most %d: cut it by what its readers ask", p.path, words, longest)
		}
	}
}

// alike is the number of characters by which lines of a page may begin alike. More are what a merge has left twice.
const alike = 60

func TestPagesSayThingsOnce(t *testing.T) {
	t.Parallel()
	for _, p := range pages(t) {
		if strings.HasPrefix(p.text, generated) {
			continue
		}
		for _, left := range p.saidTwice() {
			t.Errorf("%s says this twice, as after a merge: %s", p.path, left)
		}
	}
}

// saidTwice returns the lines that begin like an earlier one of the page, and the rows of a table that are about the
// same as an earlier row of it: their first cells are equal and long, or their first two cells are equal.
func (p page) saidTwice() (found []string) {
	const long = 30
	lines := strings.Split(p.prose(), "\n")
	beginnings, rows := map[string]bool{}, map[string]bool{}
	for i, line := range lines {
		line = strings.TrimSpace(line)
		isRow := strings.HasPrefix(line, "|")
		if !isRow {
			clear(rows)
		}
		if isRow && (rule.MatchString(line) || i+1 < len(lines) && rule.MatchString(strings.TrimSpace(lines[i+1]))) {
			continue // tables may have the same columns
		}
		characters := []rune(line)
		beginning := string(characters[:min(alike, len(characters))])
		isAlike := len(characters) >= alike && beginnings[beginning]
		beginnings[beginning] = true
		if isRow {
			cells := cell.FindAllString(line, 2)
			both := strings.Join(cells, "")
			isAlike = isAlike || rows[both] || (len(cells[0]) > long && rows[cells[0]])
			rows[both], rows[cells[0]] = true, true
		}
		if isAlike {
			found = append(found, line)
		}
	}
	return found
}

var (
	// rule is the line below the head of a table, cell a cell with the line before it.
	rule = regexp.MustCompile(`^\|[-:| ]+\|$`)
	cell = regexp.MustCompile(`\|(?:\\\||[^|])+`)
)

// What a merge leaves is found, and what may stand twice is not.
func TestWhatIsSaidTwiceIsFound(t *testing.T) {
	t.Parallel()
	begin := strings.Repeat("The same words. ", 5)
	for text, want := range map[string]int{
		begin + "one\n" + begin + "two\n":                                        1,
		"short\nshort\n":                                                         0,
		"```sh\n" + begin + "\n" + begin + "\n```\n":                             0,
		"| a | b |\n|---|---|\n| x | y | z |\n| x | y | w |\n":                   1,
		"| a | b |\n|---|---|\n| x | y |\n| x | z |\n":                           0,
		"| a | b |\n|---|---|\n| x | y |\n\n| a | b |\n|---|---|\n| x | y |\n":   0,
		"| a |\n|---|\n| " + begin[:40] + " | y |\n| " + begin[:40] + " | z |\n": 1,
	} {
		if got := (page{text: text}).saidTwice(); len(got) != want {
			t.Errorf("%q: found %q, want %d", text, got, want)
		}
	}
}

// named is a page that a program, a chart, a script or a test names, with or without a heading.
var named = regexp.MustCompile(`\bdocs/([a-z0-9-]+(?:/[a-z0-9-]+)?\.md)(?:#([a-z0-9_-]+))?`)

// What doctor, charts, Events and comments say of the documentation is there.
func TestPagesThatTheProductNamesAreThere(t *testing.T) {
	t.Parallel()
	found := 0
	for _, directory := range []string{"apis", "charts", "cmd", "github", "hack", "internal", "operations", "test", "Makefile"} {
		err := filepath.WalkDir(filepath.Join(root, directory), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			for _, match := range named.FindAllStringSubmatch(string(read(t, path)), -1) {
				found++
				file, anchor := filepath.Join(root, "docs", match[1]), match[2]
				if _, err := os.Stat(file); err != nil {
					t.Errorf("%s names %s, which is not there", path, match[0])
				} else if anchor != "" && !anchors(page{text: string(read(t, file))})[anchor] {
					t.Errorf("%s names %s, which is no heading", path, match[0])
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 50 {
		t.Errorf("found %d pages that are named only", found)
	}
}
