package report

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/harrier-ci/harrier/internal/output"
	"github.com/harrier-ci/harrier/operations/plugin/ledger"
)

// document is the answer in JSON.
type document struct {
	Ledger string `json:"ledger"`
	Since  string `json:"since"`
	Month  string `json:"month,omitempty"`
	By     string `json:"by,omitempty"`
	Rows   any    `json:"rows"`
	// Total is that of all jobs that the question is about, also of those in no row.
	Total *ledger.Usage `json:"total,omitempty"`
	// Next is what --after takes for the next page, Count the number of rows, or of groups, on all pages.
	Next  string   `json:"next,omitempty"`
	Count int64    `json:"count,omitempty"`
	Notes []string `json:"notes,omitempty"`

	// what names the content of the rows for people, unless there is a whole heading.
	what, heading string
}

// pageNotes says of a page how to see the next one, and how much there is in all.
func pageNotes[T any](told *document, page *ledger.Part[T], what string) []string {
	told.Next, told.Count = page.Next, page.Total
	if page.Next == "" {
		return nil
	}
	in := ""
	if page.Total > 0 {
		in = fmt.Sprintf(", of %d in all", page.Total)
	}
	return []string{fmt.Sprintf("There are more %s%s: --after %s shows the next ones.", what, in, page.Next)}
}

// write writes the answer in a format.
func write[T any](to, notes io.Writer, format string, told *document, shown *table[T]) error {
	switch format {
	case output.JSON:
		return output.WriteJSON(to, told, true)
	case output.CSV:
		for _, note := range told.Notes {
			fmt.Fprintln(notes, output.Clean(note))
		}
		return shown.writeCSV(to)
	}
	return shown.write(to, told.title(), told.Notes)
}

// orEmpty has JSON's empty list in the place of null.
func orEmpty[T any](rows []T) []T { return append([]T{}, rows...) }

// title returns the line above the table: its content, its time and its ledger.
func (d *document) title() string {
	if d.heading != "" {
		return d.heading
	}
	since := "since the ledger began"
	if d.Since != "" {
		since = "since " + d.Since
		if _, err := time.Parse(time.RFC3339, d.Since); err != nil {
			since += " ago"
		}
	}
	return fmt.Sprintf("%s %s, from the ledger at %s:", d.what, since, d.Ledger)
}

// column is a column of a table of rows. What people see of a row and what programs read differ: the first is short,
// the second in the unit of the column's name, and empty if it is not known.
type column[T any] struct {
	// head is empty for columns that only CSV has, and name for those that only people see.
	head, name string
	// named is set for names that others have given.
	named bool
	of    func(*T) (text, value string)
}

// named is a column of names, of which people see as much as short leaves.
func named[T any](head, name string, of, short func(*T) string) column[T] {
	return column[T]{head, name, true, func(row *T) (string, string) {
		return cmp.Or(short(row), "unknown"), of(row)
	}}
}

// count is a column of whole numbers.
func count[T any](head, name string, of func(*T) int64) column[T] {
	return column[T]{head, name, false, func(row *T) (string, string) {
		text := strconv.FormatInt(of(row), 10)
		return text, text
	}}
}

// amount is a column of other numbers, of which people see so many digits.
func amount[T any](head, name string, digits int, of func(*T) float64) column[T] {
	return column[T]{head, name, false, func(row *T) (string, string) {
		return strconv.FormatFloat(of(row), 'f', digits, 64), strconv.FormatFloat(of(row), 'g', -1, 64)
	}}
}

// namesOf returns the columns of names of a group, whose part a row has.
func namesOf[T any](by string, part func(*T) *ledger.Group) []column[T] {
	name := func(head, name string, of func(*ledger.Group) string) column[T] {
		whole := func(row *T) string { return of(part(row)) }
		return named(head, name, whole, whole)
	}
	repository := name("REPOSITORY", "repository", func(g *ledger.Group) string { return g.Repository })
	workflow := named("WORKFLOW", "workflow", func(row *T) string { return part(row).Workflow },
		func(row *T) string { return shortWorkflow(part(row).Repository, part(row).Workflow) })
	return map[string][]column[T]{
		"repository": {repository},
		"workflow":   {repository, workflow},
		"job":        {repository, workflow, name("JOB", "name", func(g *ledger.Group) string { return g.Name })},
		"set": {
			name("", "cluster", func(g *ledger.Group) string { return g.Cluster }),
			name("NAMESPACE", "namespace", func(g *ledger.Group) string { return g.Namespace }),
			name("SCALE SET", "set", func(g *ledger.Group) string { return g.Set }),
		},
		"day": {name("DAY", "day", func(g *ledger.Group) string { return g.Day.Format(time.DateOnly) })},
	}[by]
}

// shortWorkflow returns the name of a workflow's file, or all of its path if it is another repository's.
func shortWorkflow(repository, workflow string) string {
	if file, own := strings.CutPrefix(workflow, repository+"/.github/workflows/"); own {
		return file
	}
	return workflow
}

// percent returns a share in percent: neither nothing for a little, nor all for most.
func percent(share float64) string {
	whole := strconv.FormatFloat(100*share, 'f', 0, 64)
	switch {
	case share > 0 && whole == "0":
		return "<1%"
	case share < 1 && whole == "100":
		return ">99%"
	}
	return whole + "%"
}

// table is an answer before it is written.
type table[T any] struct {
	columns []column[T]
	rows    []T
	// total is the last row for people, nil if there is none. CSV has none: programs add up themselves.
	total *T
	// none stands in the place of a table without rows.
	none string
}

// People see longestName characters of a name; CSV and JSON have it whole.
const longestName = 60

// write writes the table for people, with a line above and lines below.
func (t *table[T]) write(to io.Writer, heading string, notes []string) error {
	var text strings.Builder
	fmt.Fprintln(&text, output.Clean(heading)+"\n")
	if len(t.rows) == 0 {
		text.WriteString(cmp.Or(t.none, "No jobs.") + "\n")
	}
	for _, line := range t.lines() {
		text.WriteString(line + "\n")
	}
	for _, note := range notes {
		text.WriteString("\n" + output.Clean(note) + "\n")
	}
	_, err := io.WriteString(to, text.String())
	return err
}

// lines returns header and rows, each column as wide as it must be; names are on the left of theirs.
func (t *table[T]) lines() (lines []string) {
	if len(t.rows) == 0 {
		return nil
	}
	lines = make([]string, len(t.rows)+2)
	for _, column := range t.columns {
		if column.head == "" {
			continue
		}
		cells := []string{column.head}
		for i := range t.rows {
			text, _ := column.of(&t.rows[i])
			cells = append(cells, output.Cut(output.Clean(text), longestName))
		}
		cells = append(cells, t.totalOf(&column, lines[0] == ""))
		width := 0
		for _, cell := range cells {
			width = max(width, utf8.RuneCountInString(cell))
		}
		for i, cell := range cells {
			gap := strings.Repeat(" ", width-utf8.RuneCountInString(cell))
			if column.named {
				lines[i] += cell + gap + "  "
			} else {
				lines[i] += gap + cell + "  "
			}
		}
	}
	if t.total == nil {
		lines = lines[:len(lines)-1]
	}
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return lines
}

// totalOf returns the value of the last row in a column.
func (t *table[T]) totalOf(column *column[T], first bool) string {
	switch {
	case column.named && first:
		return "Total"
	case column.named || t.total == nil:
		return ""
	}
	text, _ := column.of(t.total)
	return text
}

// writeCSV writes the table with a line of names. No cell is a formula.
func (t *table[T]) writeCSV(to io.Writer) error {
	lines := csv.NewWriter(to)
	var head []string
	for _, column := range t.columns {
		if column.name != "" {
			head = append(head, column.name)
		}
	}
	_ = lines.Write(head) // Error below has it
	for i := range t.rows {
		var cells []string
		for _, column := range t.columns {
			_, value := column.of(&t.rows[i])
			if column.named {
				value = output.Cell(value)
			}
			if column.name != "" {
				cells = append(cells, value)
			}
		}
		_ = lines.Write(cells)
	}
	lines.Flush()
	return lines.Error()
}
