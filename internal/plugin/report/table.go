package report

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/harrier-ci/harrier/internal/output"
)

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

// table is an answer before it is written.
type table[T any] struct {
	columns []column[T]
	rows    []T
	// total is the last row for people, nil if there is none. CSV has none: programs add up themselves.
	total *T
}

// People see longestName characters of a name; CSV and JSON have it whole.
const longestName = 60

// write writes the table for people, with a line above and lines below.
func (t *table[T]) write(to io.Writer, heading string, notes []string) error {
	var text strings.Builder
	fmt.Fprintln(&text, output.Clean(heading)+"\n")
	if len(t.rows) == 0 {
		text.WriteString("No jobs.\n")
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
