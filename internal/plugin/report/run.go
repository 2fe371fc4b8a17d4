// Package report tells how much each repository, workflow, job or scale set has used, and which jobs request more than
// they use, from the sums of the ledger. It only tells: nothing is changed.
//
//	ledger ─▶ rows ─▶ columns (pure) ─▶ table, CSV or JSON
package report

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/internal/doctor/finding"
	"github.com/harrier-ci/harrier/internal/output"
	"github.com/harrier-ci/harrier/internal/plugin/ledger"
)

// Groups can each be what usage is added up by.
var Groups = []string{"repository", "workflow", "job", "set", "day"}

// Options select what is asked, and the form of the answer.
type Options struct {
	// By is one of Groups. Waits tells what jobs waited for, of all together if By is empty, and RightSizing what each
	// job uses of its requests.
	By                 string
	Waits, RightSizing bool
	// Since is a time, or a duration before now: 30d, 24h, 2026-03-04T12:00:00Z. The ledger reads it.
	Since string
	// What is empty chooses all.
	Namespace, Set, Repository, Workflow string
	Format                               string
}

// document is the answer in JSON.
type document struct {
	Ledger string `json:"ledger"`
	Since  string `json:"since"`
	By     string `json:"by,omitempty"`
	Rows   any    `json:"rows"`
	// Total is that of the rows.
	Total *ledger.Usage `json:"total,omitempty"`
	Notes []string      `json:"notes,omitempty"`

	// what names the content of the rows for people.
	what string
}

// The ledger returns mostRows at most.
const mostRows = 1000

// Run asks the ledger, and tells the answer. What there is to say of a table in CSV goes to notes.
func Run(ctx context.Context, from *ledger.Ledger, options Options, to, notes io.Writer) error {
	filter := url.Values{}
	for name, value := range map[string]string{
		"from": options.Since, "namespace": options.Namespace, "set": options.Set,
		"repository": options.Repository, "workflow": options.Workflow,
	} {
		if value != "" {
			filter.Set(name, value)
		}
	}
	told := document{Ledger: from.Where, Since: options.Since}
	if options.RightSizing {
		sizes, err := from.Sizes(ctx, filter)
		if err != nil {
			return err
		}
		told.what, told.Rows, told.Notes = "What jobs that have finished use of what they request", orEmpty(sizes),
			sizeNotes(sizes)
		told.Notes = append(told.Notes, notesBesides(ctx, from, options, len(sizes))...)
		return write(to, notes, options.Format, &told, sizeTable(sizes))
	}
	if told.By = options.By; told.By != "" {
		filter.Set("by", told.By)
	}
	if options.Waits {
		waits, err := from.Waits(ctx, filter)
		if err != nil {
			return err
		}
		told.what, told.Rows = "How long jobs waited that have finished", orEmpty(waits)
		told.Notes = notesBesides(ctx, from, options, groupsOf(waits))
		return write(to, notes, options.Format, &told, waitTable(told.By, waits))
	}
	usage, err := from.Usage(ctx, filter)
	if err != nil {
		return err
	}
	total := totalOf(usage)
	told.what, told.Rows, told.Total, told.Notes = "Jobs that have finished", orEmpty(usage), &total, usageNotes(&total)
	told.Notes = append(told.Notes, notesBesides(ctx, from, options, len(usage))...)
	return write(to, notes, options.Format, &told, usageTable(told.By, usage, total))
}

// groupsOf counts groups: each has one row for the whole wait.
func groupsOf(waits []ledger.Wait) (groups int) {
	for i := range waits {
		if waits[i].Phase == ledger.WholeWait {
			groups++
		}
	}
	return groups
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
	return shown.write(to, told.heading(), told.Notes)
}

// orEmpty has JSON's empty list in the place of null.
func orEmpty[T any](rows []T) []T { return append([]T{}, rows...) }

// heading returns the line above the table: its content, its time and its ledger.
func (d *document) heading() string {
	since := "since the ledger began"
	if d.Since != "" {
		since = "since " + d.Since
		if _, err := time.Parse(time.RFC3339, d.Since); err != nil {
			since += " ago"
		}
	}
	return fmt.Sprintf("%s %s, from the ledger at %s:", d.what, since, d.Ledger)
}

// usageNotes returns what the table of usage can't show.
func usageNotes(total *ledger.Usage) (notes []string) {
	if total.Jobs > 0 && total.Cost == 0 {
		notes = append(notes, "There are no costs, because no prices are set: history.prices of the "+
			"controller's chart.")
	}
	if unknown := total.Jobs - total.JobsWithKnownWait; total.JobsWithKnownWait > 0 && unknown > 0 {
		notes = append(notes, fmt.Sprintf("Of %d of %d jobs it is not known what they waited for.", unknown,
			total.Jobs))
	}
	return notes
}

// notesBesides returns notes about any table: why it may be empty or short, and for how long no ledger looked.
func notesBesides(ctx context.Context, from *ledger.Ledger, options Options, rows int) (notes []string) {
	switch {
	case rows >= mostRows:
		notes = append(notes, fmt.Sprintf("These are the largest %d only; choose a repository, workflow or scale "+
			"set, or less time, for the others.", mostRows))
	case rows == 0 && options.Namespace != "":
		notes = append(notes, "-n names the namespace of runners; the ledger itself is found by --history-namespace.")
	}
	since := url.Values{}
	if options.Since != "" {
		since.Set("from", options.Since)
	}
	gaps, err := from.Gaps(ctx, since)
	if err != nil {
		return append(notes, "Whether a ledger looked all the time is not known: "+err.Error())
	}
	if len(gaps) == 0 {
		return notes
	}
	var reasons []string
	long := time.Duration(0)
	for _, gap := range gaps {
		reasons, long = append(reasons, gap.Reason), long+max(0, gap.To.Sub(gap.From))
	}
	slices.Sort(reasons)
	return append(notes, fmt.Sprintf("No ledger looked for %s in all (%s: %s). Jobs that began and whose runners "+
		"were gone within that time are missing.", output.Duration(long), finding.Counted(len(gaps), "gap", "gaps"),
		strings.Join(slices.Compact(reasons), ", ")))
}
