package failpoints

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// page has the table of what was counted, between its head and the row of all.
const page = "../../docs/failpoints.md"

var update = flag.Bool("failpoints.update", false, "write what is counted into "+page)

// counts are what is kept of the runs of a scenario: how many effects are tried, with how many ends, and how many plays
// that was, which have met so many faults.
type counts struct {
	effects, ends, runs, reached int
	took                         time.Duration
}

// table has a row for each scenario.
type table struct {
	names []string
	rows  map[string]counts
}

func (t *table) add(name string, c counts) {
	if t.rows == nil {
		t.rows = map[string]counts{}
	}
	t.names, t.rows[name] = append(t.names, name), c
}

// text is the table in Markdown, with a sum.
func (t *table) text() string {
	text := &strings.Builder{}
	text.WriteString("| scenario | effects | ends | runs | faults met | seconds |\n|---|---|---|---|---|---|\n")
	row := func(name string, c counts) {
		fmt.Fprintf(text, "| %s | %d | %d | %d | %d | %.0f |\n", name, c.effects, c.ends, c.runs, c.reached, c.took.Seconds())
	}
	var sum counts
	for _, name := range t.names {
		c := t.rows[name]
		row(name, c)
		sum = counts{
			sum.effects + c.effects, sum.ends + c.ends, sum.runs + c.runs, sum.reached + c.reached, sum.took + c.took,
		}
	}
	row("all", sum)
	return text.String()
}

var (
	tableOfPage = regexp.MustCompile(`(?m)^\| scenario \|(?:.*\n)+?\| all \|.*\n`)
	rowOfPage   = regexp.MustCompile(`(?m)^\| ([^|]+) \| (\d+) \| (\d+) \|`)
)

// check holds the page's table against what was counted. Workers run at the same time, so plays differ a little.
func (t *table) check(test *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		test.Fatal(err)
	}
	if *update {
		text = tableOfPage.ReplaceAllLiteral(text, []byte(t.text()))
		if err := os.WriteFile(page, text, 0o644); err != nil {
			test.Fatal(err)
		}
	}
	for _, wrong := range t.differs(string(text)) {
		test.Errorf("%s: %s; -failpoints.update writes what is counted", page, wrong)
	}
}

// differs returns what the table of a page says that isn't so.
func (t *table) differs(page string) (wrong []string) {
	said := map[string]bool{}
	for _, row := range rowOfPage.FindAllStringSubmatch(tableOfPage.FindString(page), -1) {
		name := row[1]
		if name == "all" {
			continue
		}
		said[name] = true
		is, known := t.rows[name]
		if !known {
			wrong = append(wrong, fmt.Sprintf("there is no scenario %q", name))
			continue
		}
		for i, counted := range []int{is.effects, is.ends} {
			number, _ := strconv.Atoi(row[2+i]) // digits
			if !near(number, counted) {
				wrong = append(wrong, fmt.Sprintf("%q has %s %s, and not %d", name, row[2+i],
					[]string{"effects", "ends"}[i], counted))
			}
		}
	}
	for _, name := range t.names {
		if !said[name] {
			wrong = append(wrong, fmt.Sprintf("the scenario %q has no row", name))
		}
	}
	return wrong
}

// near allows a quarter and twenty more.
func near(said, counted int) bool {
	const share, more = 4, 20
	difference := said - counted
	return max(difference, -difference) <= counted/share+more
}

// The check finds each way in which the page can be wrong.
func TestTheTableIsHeldAgainstWhatWasCounted(t *testing.T) {
	is := &table{}
	is.add("burst", counts{effects: 100, ends: 500})
	is.add("drain", counts{effects: 100, ends: 500})
	for name, test := range map[string]struct {
		page  string
		wrong int
	}{
		"true":             {is.text(), 0},
		"no table":         {"", 2},
		"no row":           {strings.ReplaceAll(is.text(), "| drain | 100", "| all | 100"), 1},
		"another name":     {strings.ReplaceAll(is.text(), "| drain |", "| flood |"), 2},
		"another number":   {strings.ReplaceAll(is.text(), "| drain | 100 | 500 |", "| drain | 100 | 900 |"), 1},
		"within the limit": {strings.ReplaceAll(is.text(), "| drain | 100 | 500 |", "| drain | 110 | 550 |"), 0},
	} {
		if wrong := is.differs(test.page); len(wrong) != test.wrong {
			t.Errorf("%s: %v", name, wrong)
		}
	}
}
