package report

import (
	"context"
	"io"
	"net/url"
	"strconv"
	"time"

	"github.com/harrier-ci/harrier/internal/output"
	"github.com/harrier-ci/harrier/operations/history/rows"
	"github.com/harrier-ci/harrier/operations/plugin/ledger"
)

// TrendGroups can each be what trends are told apart by, besides all together.
var TrendGroups = []string{"repository", "workflow", "job", "set", "branch", "event"}

// Everies are the times by which trends are told.
var Everies = []string{rows.EveryAll, rows.EveryDay, rows.EveryWeek}

// runTrends tells how jobs ended, ran and waited, over time.
func runTrends(ctx context.Context, from *ledger.Ledger, options Options, filter url.Values, told *document, to,
	notes io.Writer) error {
	for name, value := range map[string]string{"every": options.Every, "branch": options.Branch, "event": options.Event} {
		if value != "" {
			filter.Set(name, value)
		}
	}
	trends, err := from.Trends(ctx, filter)
	if err != nil {
		return err
	}
	var shown []ledger.Trend
	groups := 0
	for i := range trends.Rows {
		if trends.Rows[i].Every == rows.EveryAll {
			groups++
		}
		if trends.Rows[i].Every == options.Every {
			shown = append(shown, trends.Rows[i])
		}
	}
	told.what, told.Rows = "How jobs that have finished ended, ran and waited", orEmpty(shown)
	told.Notes = append(pageNotes(told, &trends, "groups"), notesBesides(ctx, from, options, groups)...)
	return write(to, notes, options.Format, told, trendTable(told.By, options.Every, shown))
}

// trendTable is the table of trends, by groups or of all jobs together.
func trendTable(by, every string, trends []ledger.Trend) *table[ledger.Trend] {
	seconds := func(head, name string, of func(*ledger.Trend) *int64) column[ledger.Trend] {
		return column[ledger.Trend]{head: head, name: name, of: func(t *ledger.Trend) (string, string) {
			took := of(t)
			if took == nil {
				return "unknown", ""
			}
			return output.Duration(time.Duration(*took) * time.Second), strconv.FormatInt(*took, 10)
		}}
	}
	columns := namesOf(by, func(t *ledger.Trend) *ledger.Group { return &t.Group })
	branch, event := func(t *ledger.Trend) string { return t.Branch }, func(t *ledger.Trend) string { return t.Event }
	switch by {
	case "branch":
		columns = append(namesOf("repository", func(t *ledger.Trend) *ledger.Group { return &t.Group }),
			named("BRANCH", "branch", branch, branch))
	case "event":
		columns = append(columns, named("EVENT", "event", event, event))
	}
	head := "" // of the whole time nobody needs to see it
	if every != rows.EveryAll {
		head = "FROM"
	}
	return &table[ledger.Trend]{rows: trends, columns: append(columns,
		column[ledger.Trend]{head: head, name: "from", of: func(t *ledger.Trend) (string, string) {
			return t.From.UTC().Format(time.DateOnly), t.From.UTC().Format(time.RFC3339)
		}},
		count("JOBS", "jobs", func(t *ledger.Trend) int64 { return t.Jobs }),
		count("", "succeeded", func(t *ledger.Trend) int64 { return t.Succeeded }),
		count("FAILED", "failed", func(t *ledger.Trend) int64 { return t.Failed }),
		count("", "canceled", func(t *ledger.Trend) int64 { return t.Canceled }),
		count("LOST", "lost", func(t *ledger.Trend) int64 { return t.Lost }),
		seconds("RAN P50", "runSecondsP50", func(t *ledger.Trend) *int64 { return t.RunSecondsP50 }),
		seconds("P95", "runSecondsP95", func(t *ledger.Trend) *int64 { return t.RunSecondsP95 }),
		seconds("WAITED P50", "waitSecondsP50", func(t *ledger.Trend) *int64 { return t.WaitSecondsP50 }),
		seconds("P95", "waitSecondsP95", func(t *ledger.Trend) *int64 { return t.WaitSecondsP95 }),
	)}
}

// runChanges tells what got worse in the last week.
func runChanges(ctx context.Context, from *ledger.Ledger, options Options, filter url.Values, told *document, to,
	notes io.Writer) error {
	filter.Del("from")
	filter.Del("by")
	changes, err := from.Changes(ctx, filter)
	if err != nil {
		return err
	}
	told.Since, told.By = "7d", ""
	told.what, told.Rows = "What got worse, compared with the 21 days before,", orEmpty(changes.Rows)
	told.Notes = pageNotes(told, &changes, "rows")
	if len(changes.Rows) == 0 {
		told.Notes = append(told.Notes, "Nothing got worse by more than chance explains, of what has 20 jobs in the last seven "+
			"whole days and 40 in the 21 days before.")
	}
	return write(to, notes, options.Format, told, changeTable(changes.Rows))
}

// changeTable is the table of what got worse.
func changeTable(changes []ledger.Change) *table[ledger.Change] {
	words := map[string]string{rows.Slower: "slower", rows.FailsMore: "fails more", rows.WaitsLonger: "waits longer"}
	what, set := func(c *ledger.Change) string { return c.What }, func(c *ledger.Change) string { return c.Set }
	namespace, event := func(c *ledger.Change) string { return c.Namespace }, func(c *ledger.Change) string { return c.Event }
	figure := func(head, name string, of func(*ledger.Change) float64) column[ledger.Change] {
		return column[ledger.Change]{head: head, name: name, of: func(c *ledger.Change) (string, string) {
			value := strconv.FormatFloat(of(c), 'f', -1, 64)
			if c.What == rows.FailsMore {
				return strconv.FormatFloat(of(c), 'f', 1, 64) + " %", value
			}
			return output.Duration(time.Duration(of(c)) * time.Second), value
		}}
	}
	job := func(c *ledger.Change) string {
		if c.What == rows.WaitsLonger {
			return c.Namespace + "/" + c.Set
		}
		return c.Name
	}
	repository, workflow := func(c *ledger.Change) string { return c.Repository }, func(c *ledger.Change) string { return c.Workflow }
	return &table[ledger.Change]{rows: changes, columns: []column[ledger.Change]{
		named("WHAT", "what", what, func(c *ledger.Change) string { return words[c.What] }),
		named("JOB OR SCALE SET", "name", func(c *ledger.Change) string { return c.Name }, job),
		named("", "namespace", namespace, namespace), named("", "set", set, set),
		named("WORKFLOW", "workflow", workflow, func(c *ledger.Change) string {
			if c.What == rows.WaitsLonger {
				return "-"
			}
			return workflow(c)
		}),
		named("", "repository", repository, repository),
		named("EVENT", "event", event, func(c *ledger.Change) string {
			if c.Event == "" {
				return "-"
			}
			return c.Event
		}),
		figure("BEFORE", "before", func(c *ledger.Change) float64 { return c.Before }),
		figure("LAST WEEK", "after", func(c *ledger.Change) float64 { return c.After }),
		count("", "jobsBefore", func(c *ledger.Change) int64 { return c.JobsBefore }),
		count("JOBS", "jobsAfter", func(c *ledger.Change) int64 { return c.JobsAfter }),
	}}
}
