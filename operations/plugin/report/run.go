// Package report tells how much each repository, workflow, job or scale set has used, and which jobs request more than
// they use, from the sums of the ledger. It only tells: nothing is changed.
//
//	ledger ─▶ rows ─▶ columns (pure) ─▶ table, CSV or JSON
package report

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/internal/output"
	"github.com/harrier-ci/harrier/operations/finding"
	"github.com/harrier-ci/harrier/operations/history/rows"
	"github.com/harrier-ci/harrier/operations/plugin/ledger"
)

// Groups can each be what usage is added up by.
var Groups = []string{"repository", "workflow", "job", "set", "day"}

// Options select what is asked, and the form of the answer.
type Options struct {
	// By is one of Groups. Waits tells what jobs waited for, of all together if By is empty, and RightSizing what each
	// job uses of its requests.
	By                 string
	Waits, RightSizing bool
	// Budgets tells what is spent of budgets, in this month or in Month, such as 2026-03.
	Budgets bool
	Month   string
	// Trends tells how jobs ended, ran and waited over time, by TrendGroups, and Every of Everies; Changes what got worse.
	Trends, Changes bool
	Every           string
	// Branch and Event are for trends, and empty for all.
	Branch, Event string
	// Since is a time, or a duration before now: 30d, 24h, 2026-03-04T12:00:00Z. The ledger reads it.
	Since string
	// What is empty chooses all.
	Namespace, Set, Repository, Workflow string
	// Limit is the number of rows, of waits that of groups, 0 for as many as the ledger returns; After is the Next of a
	// page, and continues behind it.
	Limit  int
	After  string
	Format string
}

// The ledger returns mostRows at most.
const mostRows = 1000

// Run asks the ledger, and tells the answer. What there is to say of a table in CSV goes to notes.
func Run(ctx context.Context, from *ledger.Ledger, options Options, to, notes io.Writer) error {
	if options.Budgets {
		return runBudgets(ctx, from, options, to, notes)
	}
	filter := url.Values{}
	for name, value := range map[string]string{
		"from": options.Since, "namespace": options.Namespace, "set": options.Set,
		"repository": options.Repository, "workflow": options.Workflow,
	} {
		if value != "" {
			filter.Set(name, value)
		}
	}
	if options.Limit > 0 {
		filter.Set("limit", strconv.Itoa(options.Limit))
	}
	if options.After != "" {
		filter.Set("after", options.After)
	}
	told := document{Ledger: from.Where, Since: options.Since}
	if options.RightSizing {
		sizes, err := from.Sizes(ctx, filter)
		if err != nil {
			return err
		}
		told.what, told.Rows = "What jobs that have finished use of what they request", orEmpty(sizes.Rows)
		told.Notes = append(sizeNotes(sizes.Rows), pageNotes(&told, &sizes, "rows")...)
		told.Notes = append(told.Notes, notesBesides(ctx, from, options, len(sizes.Rows))...)
		return write(to, notes, options.Format, &told, sizeTable(sizes.Rows))
	}
	if told.By = options.By; told.By != "" {
		filter.Set("by", told.By)
	}
	switch {
	case options.Trends:
		return runTrends(ctx, from, options, filter, &told, to, notes)
	case options.Changes:
		return runChanges(ctx, from, options, filter, &told, to, notes)
	}
	if options.Waits {
		waits, err := from.Waits(ctx, filter)
		if err != nil {
			return err
		}
		told.what, told.Rows = "How long jobs waited that have finished", orEmpty(waits.Rows)
		told.Notes = append(pageNotes(&told, &waits, "groups"), notesBesides(ctx, from, options, groupsOf(waits.Rows))...)
		return write(to, notes, options.Format, &told, waitTable(told.By, waits.Rows))
	}
	return runUsage(ctx, from, options, filter, &told, to, notes)
}

// runUsage tells what jobs that have finished come to.
func runUsage(ctx context.Context, from *ledger.Ledger, options Options, filter url.Values, told *document, to,
	notes io.Writer) error {
	whole := url.Values{}
	maps.Copy(whole, filter)
	whole.Set("by", "all")
	whole.Del("limit")
	whole.Del("after")
	usage, err := from.Usage(ctx, filter)
	if err != nil {
		return err
	}
	total := totalOf(usage.Rows)
	all, err := from.Usage(ctx, whole)
	paged := options.Limit > 0 || options.After != ""
	switch {
	case err == nil && len(all.Rows) == 1:
		total = all.Rows[0]
	case paged: // an older ledger has neither pages nor this sum
		return fmt.Errorf("the ledger at %s doesn't tell the sum of all jobs, which pages of usage need; leave out --limit and "+
			"--after, or upgrade the controller's release: %w", from.Where, cmp.Or(err, errOneRow))
	}
	told.what, told.Rows, told.Total, told.Notes = "Jobs that have finished", orEmpty(usage.Rows), &total,
		usageNotes(usage.Rows, &total)
	if more := pageNotes(told, &usage, "rows"); more != nil {
		told.Notes = append(told.Notes, more[0]+" The total is of all.")
	}
	told.Notes = append(told.Notes, notesBesides(ctx, from, options, len(usage.Rows))...)
	return write(to, notes, options.Format, told, usageTable(told.By, usage.Rows, total))
}

var errOneRow = errors.New("it doesn't answer with one row")

// groupsOf counts groups: each has one row for the whole wait.
func groupsOf(waits []ledger.Wait) (groups int) {
	for i := range waits {
		if waits[i].Phase == rows.WholeWait {
			groups++
		}
	}
	return groups
}

// usageNotes returns what the table of usage can't show.
func usageNotes(usage []ledger.Usage, total *ledger.Usage) (notes []string) {
	notes = uncosted(usage, total)
	if unknown := total.Jobs - total.JobsWithKnownWait; total.JobsWithKnownWait > 0 && unknown > 0 {
		notes = append(notes, fmt.Sprintf("Of %d of %d jobs it is not known what they waited for.", unknown,
			total.Jobs))
	}
	return notes
}

// notesBesides returns notes about any table: why it may be empty or short, and for how long no ledger looked.
func notesBesides(ctx context.Context, from *ledger.Ledger, options Options, rows int) (notes []string) {
	switch {
	case rows >= mostRows && options.Limit == 0 && options.After == "":
		notes = append(notes, fmt.Sprintf("These are the largest %d only; choose a repository, workflow or scale "+
			"set, or less time, for the others; --limit shows all of them, page by page.", mostRows))
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
