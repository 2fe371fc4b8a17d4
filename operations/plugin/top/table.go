package top

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/harrier-ci/harrier/internal/output"
)

// figures are the columns of numbers, between the names and the reason.
var figures = []struct {
	head string
	of   func(*Row) string
}{
	{"BUSY", func(r *Row) string { return strconv.Itoa(r.Busy) }},
	{"IDLE", func(r *Row) string { return strconv.Itoa(r.Idle) }},
	{"PEND", func(r *Row) string { return strconv.Itoa(r.Pending) }},
	{"JOBS", func(r *Row) string { return strconv.Itoa(r.Jobs) }},
	{"WAIT", func(r *Row) string { return strconv.Itoa(r.Waiting) }},
	{"MIN", func(r *Row) string { return strconv.Itoa(r.Min) }},
	{"MAX", func(r *Row) string {
		if r.Max == nil {
			return "-"
		}
		return strconv.Itoa(*r.Max)
	}},
}

const (
	// The last column keeps leastWhy characters if names are long: the longest of our own few words has 21.
	leastWhy = 21
	// Of a name that is cut leastName characters stay.
	leastName = 8
)

// table is the layout of rows: names on the left, numbers to the right of their columns, the reason at the end.
type table struct {
	namespaces           bool
	namespace, name, why int
	// widths are those of the figures.
	widths []int
}

// layout returns the layout in which rows fit into so many columns; 0 is any number. Only names and reasons are cut,
// never numbers.
func layout(rows []Row, namespaces bool, width int) *table {
	t := &table{namespaces: namespaces, name: len("SCALE SET")}
	if namespaces {
		t.namespace = len("NAMESPACE")
	}
	for _, figure := range figures {
		t.widths = append(t.widths, len(figure.head))
	}
	longestWhy := len("WHY NOT MORE")
	for i := range rows {
		row := &rows[i]
		if namespaces {
			t.namespace = max(t.namespace, utf8.RuneCountInString(row.Namespace))
		}
		t.name, longestWhy = max(t.name, utf8.RuneCountInString(row.Name)),
			max(longestWhy, utf8.RuneCountInString(row.Why))
		for i, figure := range figures {
			t.widths[i] = max(t.widths[i], len(figure.of(row)))
		}
	}
	t.why = longestWhy
	if width == 0 {
		return t
	}
	left := width - 2 // the spaces before the reason
	for _, one := range t.widths {
		left -= one + 1
	}
	if namespaces {
		left--
	}
	names := left - min(longestWhy, leastWhy)
	for t.namespace+t.name > names && max(t.namespace, t.name) > leastName { // the longer one gives
		if t.namespace > t.name {
			t.namespace--
		} else {
			t.name--
		}
	}
	t.why = max(0, left-t.namespace-t.name)
	return t
}

// header returns the names of the columns.
func (t *table) header() string {
	var numbers []string
	for _, figure := range figures {
		numbers = append(numbers, figure.head)
	}
	return t.line("NAMESPACE", "SCALE SET", numbers, "WHY NOT MORE")
}

// row returns a set's line.
func (t *table) row(row *Row) string {
	var numbers []string
	for _, figure := range figures {
		numbers = append(numbers, figure.of(row))
	}
	why := row.Why
	if why == "" {
		why = "-"
	}
	return t.line(row.Namespace, row.Name, numbers, why)
}

func (t *table) line(namespace, name string, numbers []string, why string) string {
	var line strings.Builder
	if t.namespaces {
		fmt.Fprintf(&line, "%-*s ", t.namespace, output.Cut(namespace, t.namespace))
	}
	fmt.Fprintf(&line, "%-*s", t.name, output.Cut(name, t.name))
	for i, number := range numbers {
		fmt.Fprintf(&line, " %*s", t.widths[i], number)
	}
	line.WriteString("  " + output.Cut(why, t.why))
	return strings.TrimRight(line.String(), " ")
}
