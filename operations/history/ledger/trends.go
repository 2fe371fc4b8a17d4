package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/operations/history/fold"
	"github.com/harrier-ci/harrier/operations/history/ledger/addup"
	"github.com/harrier-ci/harrier/operations/history/ledger/period"
	"github.com/harrier-ci/harrier/operations/history/ledger/trends"
	"github.com/harrier-ci/harrier/operations/history/rows"
)

// Trend has what the jobs of a group came to in a day, a week or all of a time.
type Trend = rows.Trend

// The properties by which trends are added up, besides those of usage.
const (
	ByBranch By = "branch"
	ByEvent  By = "event"
)

// trendGroup has what is common to jobs of a trend; value is their event or branch.
type trendGroup struct{ cluster, namespace, set, repository, workflow, name, value string }

// group is what it has besides a branch or an event.
func (g *trendGroup) group() Group {
	return Group{Cluster: g.cluster, Namespace: g.namespace, Set: g.set, Repository: g.repository, Workflow: g.workflow,
		Name: g.name}
}

// trendGroups are the columns of each property. Branches of one name in two repositories have nothing in common.
var trendGroups = map[By]string{
	BySet: groups[BySet], ByRepository: groups[ByRepository], ByWorkflow: groups[ByWorkflow], ByJob: groups[ByJob],
	ByBranch: "repository, value", ByEvent: "value",
}

func (by By) trendNames(g *trendGroup) []any {
	return map[By][]any{
		BySet: {&g.cluster, &g.namespace, &g.set}, ByRepository: {&g.repository}, ByWorkflow: {&g.repository, &g.workflow},
		ByJob: {&g.repository, &g.workflow, &g.name}, ByBranch: {&g.repository, &g.value}, ByEvent: {&g.value},
	}[by]
}

// everySpan are the spans of what can be asked for.
var everySpan = map[string]int64{rows.EveryDay: addup.TrendSpans[0], rows.EveryWeek: addup.TrendSpans[1]}

// trendQuery is a question about trends: whose jobs, and the property by which their rows are told apart.
type trendQuery struct {
	Filter
	by       By
	property string
}

// newTrendQuery refuses what there are no sums of.
func newTrendQuery(by By, filter Filter) (*trendQuery, error) {
	q := &trendQuery{filter, by, trends.ByEvent}
	kinds := filter.Repository + filter.Workflow + filter.Name
	switch {
	case by != "" && trendGroups[by] == "":
		return nil, &FilterError{"by", string(by), "set, repository, workflow, job, branch, event or all"}
	case filter.Branch != "" && filter.Event != "":
		return nil, &FilterError{"branch", filter.Branch, "left out, or event: trends are kept by branch and by event, not by both"}
	case filter.Branch != "" && by == ByEvent:
		return nil, &FilterError{"by", string(by), "something else with a branch: trends are kept by branch and by event, not by both"}
	case filter.Event != "" && by == ByBranch:
		return nil, &FilterError{"by", string(by), "something else with an event: trends are kept by branch and by event, not by both"}
	case filter.Branch != "" || by == ByBranch:
		q.property = trends.ByBranch
	case filter.Event == "" && kinds == "" && (by == "" || by == BySet):
		q.property = trends.OfSet
	}
	return q, nil
}

// from begins a query of the rows of periods.
func (t *trendQuery) ofPeriods(columns string, parts []period.Part) *query {
	q := &query{}
	q.add("SELECT " + columns + " FROM trend_periods")
	q.and("property = ?", t.property)
	q.within(parts, period.OfKinds)
	q.same(&t.Filter)
	if value := t.Branch + t.Event; value != "" {
		q.and("value = ?", Clean(value))
	}
	return q
}

// busy begins a query of the rows with some jobs of the periods of a span. A list of times, unlike a range, leads an index on
// to the number of jobs, and past the many names that never repeat.
func (t *trendQuery) busy(columns string, span, from, to int64) *query {
	var starts []any
	for started := from; started < to; started += span {
		starts = append(starts, started)
	}
	q := &query{}
	q.add("SELECT " + columns + " FROM trend_periods")
	q.and("property = ? AND span = ? AND jobs >= ?", t.property, span, trends.FewestADay)
	q.and("started IN (?"+strings.Repeat(", ?", len(starts)-1)+")", starts...)
	q.same(&t.Filter)
	if t.Event != "" {
		q.and("value = ?", Clean(t.Event))
	}
	return q
}

// touched returns the periods of one span that a time touches.
func touched(span int64, from, to time.Time) period.Part {
	part := period.Part{Span: span, To: period.Latest}
	if !from.IsZero() {
		part.From = max(0, from.Unix()-from.Unix()%span)
	}
	if !to.IsZero() {
		part.To = to.Unix() + (span-to.Unix()%span)%span
	}
	return part
}

// mostTrends bounds the days or weeks of all groups of an answer: each has two histograms, of 7 KiB at most and mostly 400
// bytes. Of a time without a begin, and of a long one, there are fewestGroups.
const (
	mostTrends   = 10_000
	fewestGroups = 20
)

// groupsIn is the number of groups that an answer has at most.
func groupsIn(parts []period.Part, span int64) int64 {
	if span == 0 {
		return MaxGroups
	}
	periods := int64(1)
	for _, part := range parts {
		periods += max(0, part.To-part.From) / span
	}
	return max(fewestGroups, min(MaxGroups, mostTrends/periods))
}

// Trends returns what the jobs that the filter chooses came to that have finished: of each group a row for the whole
// time and, for every day or week, one for each in which jobs finished. The groups with most jobs come first: a page of them,
// of MaxGroups at most, or of mostTrends days or weeks. From and To are widened to whole days or weeks.
func (l *Ledger) Trends(ctx context.Context, by By, every string, filter Filter) (page Part[Trend], err error) {
	if by == ByAll {
		by = ""
	}
	span, known := everySpan[every]
	if !known && every != rows.EveryAll {
		return page, &FilterError{"every", every, "day, week or all"}
	}
	t, err := newTrendQuery(by, filter)
	if err != nil {
		return page, err
	}
	parts := period.Cover(filter.From, filter.To, addup.TrendSpans)
	if known {
		parts = []period.Part{touched(span, filter.From, filter.To)}
	}
	chosen := Part[trendGroup]{Rows: []trendGroup{{}}}
	if by != "" {
		if chosen, err = l.largest(ctx, t, parts, int(groupsIn(parts, span))); err != nil {
			return page, err
		}
	}
	found, err := l.readTrends(ctx, t, parts, span, chosen.Rows)
	if err != nil {
		return page, err
	}
	page.Rows, page.Next, page.Total = []Trend{}, chosen.Next, chosen.Total
	for _, of := range chosen.Rows {
		page.Rows = append(page.Rows, found.trendsOf(t, of, span, every)...)
	}
	return page, nil
}

// largest reads the groups of a page: those with most jobs first.
func (l *Ledger) largest(ctx context.Context, t *trendQuery, parts []period.Part, most int) (page Part[trendGroup], err error) {
	limit, first, err := t.part(most)
	if err != nil {
		return page, err
	}
	group := trendGroups[t.by]
	q := t.ofPeriods(group+", SUM(jobs) AS size", parts)
	q.add(" GROUP BY " + group)
	if page, err = groupsOf(ctx, l, q, group, limit, first, t.by.trendNames); err != nil {
		return page, fmt.Errorf("read which groups have most jobs: %w", err)
	}
	return page, nil
}

// foundTrends are the sums of groups by the begin of a period.
type foundTrends map[trendGroup]map[int64]*trends.Sums

func (f foundTrends) sumsOf(group trendGroup, started int64) *trends.Sums {
	if f[group] == nil {
		f[group] = map[int64]*trends.Sums{}
	}
	if f[group][started] == nil {
		f[group][started] = &trends.Sums{}
	}
	return f[group][started]
}

// readTrends reads the sums of some groups.
func (l *Ledger) readTrends(ctx context.Context, t *trendQuery, parts []period.Part, span int64, chosen []trendGroup) (
	foundTrends, error,
) {
	columns := addup.TrendNumbers + ", started"
	if t.by != "" {
		columns += ", " + trendGroups[t.by]
	}
	q := t.ofPeriods(columns, parts)
	if t.by != "" {
		in(q, trendGroups[t.by], chosen, t.by.trendNames)
	}
	found := foundTrends{}
	err := l.periodRows(ctx, q, func(row *sql.Rows) error {
		var group trendGroup
		var started int64
		var of addup.TrendRow
		if err := row.Scan(append(append(of.Targets(), &started), t.by.trendNames(&group)...)...); err != nil {
			return err
		}
		of.AddTo(found.sumsOf(group, started-started%max(span, addup.TrendSpans[0])))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read what jobs came to: %w", err)
	}
	return found, nil
}

// trendsOf returns the rows of a group. Without a span there is one, of all the time.
func (f foundTrends) trendsOf(t *trendQuery, of trendGroup, span int64, every string) (rowsOf []Trend) {
	row := func(sums *trends.Sums, every string, from, to int64) {
		row := sums.Row()
		row.Group = of.group()
		row.Branch, row.Event = t.Branch, t.Event
		switch t.by {
		case ByBranch:
			row.Branch = of.value
		case ByEvent:
			row.Event = of.value
		}
		row.Every, row.From, row.To = every, time.Unix(from, 0).UTC(), time.Unix(to, 0).UTC()
		rowsOf = append(rowsOf, row)
	}
	starts := make([]int64, 0, len(f[of]))
	all := &trends.Sums{}
	for started, sums := range f[of] {
		starts = append(starts, started)
		all.Merge(sums)
	}
	if len(starts) == 0 {
		return nil
	}
	slices.Sort(starts)
	from, to := starts[0], starts[len(starts)-1]+max(span, addup.TrendSpans[0])
	if !t.From.IsZero() {
		from = t.From.Unix()
	}
	if !t.To.IsZero() {
		to = t.To.Unix()
	}
	row(all, rows.EveryAll, from, to)
	if every != rows.EveryAll {
		for _, started := range starts {
			row(f[of][started], every, started, started+span)
		}
	}
	return rowsOf
}

// Change is something that was worse in the last seven days than before, by more than chance explains.
type Change = rows.Change

// comparedJobs bounds the jobs and events that Changes compares, those with most jobs: each has 28 rows, of 5 µs.
const comparedJobs = 500

// Changes returns what was worse in the seven days before the last midnight, in UTC, or before To than in the 21 days
// before: what takes longest in all first. Now must be set.
func (l *Ledger) Changes(ctx context.Context, filter Filter) ([]Change, error) {
	end := filter.To
	if end.IsZero() {
		end = filter.Now
	}
	last := end.Unix() - end.Unix()%period.Day
	first := last - (trends.DaysAfter+trends.DaysBefore)*period.Day
	changes := []Change{}
	jobs := &trendQuery{filter, ByJob, trends.ByEvent}
	for _, kinds := range []struct {
		*trendQuery
		columns string
		fields  func(*trendGroup) []any
		changed func([]*trends.Sums) []Change
	}{
		{jobs, groups[ByJob] + ", value", func(g *trendGroup) []any { return append(ByJob.trendNames(g), &g.value) },
			trends.ChangesOfJob},
		{&trendQuery{filter, BySet, trends.OfSet}, groups[BySet], BySet.trendNames, trends.ChangesOfSet},
	} {
		found, err := l.compared(ctx, kinds.trendQuery, kinds.columns, kinds.fields, first, last)
		if err != nil {
			return nil, err
		}
		for of, days := range found {
			for _, change := range kinds.changed(days) {
				change.Group = of.group()
				change.Event = of.value
				change.From, change.To = time.Unix(last-trends.DaysAfter*period.Day, 0).UTC(), time.Unix(last, 0).UTC()
				changes = append(changes, change)
			}
		}
	}
	slices.SortFunc(changes, rows.CompareChanges)
	return changes, nil
}

// compared reads the sums of the kinds with most jobs, by day.
func (l *Ledger) compared(ctx context.Context, t *trendQuery, columns string, fields func(*trendGroup) []any, first, last int64,
) (map[trendGroup][]*trends.Sums, error) {
	week := addup.TrendSpans[1]
	q := t.busy(columns+", SUM(jobs) AS size", week, first-first%week, last)
	q.and("job_name <> ? AND value <> ?", fold.Others, fold.Others)
	q.add(" GROUP BY "+columns+" HAVING SUM(jobs) >= ?", trends.FewestJobs)
	chosen, err := groupsOf(ctx, l, q, columns, comparedJobs, 0, fields)
	if err != nil {
		return nil, fmt.Errorf("read which jobs are to be compared: %w", err)
	}
	columnsOfDay := addup.TrendNumbers + ", started, " + columns
	q = t.busy(columnsOfDay, period.Day, first, last)
	in(q, columns, chosen.Rows, fields)
	q.add(" UNION ALL SELECT " + columnsOfDay + " FROM trend_periods")
	q.joined = false // the second query has conditions of its own
	condition, bounds := addup.Apart([]period.Part{{Span: period.Day, From: first, To: last}}, period.OfKinds)
	q.and("property = ? AND "+condition, append([]any{t.property}, bounds...)...)
	q.same(&t.Filter)
	if t.Event != "" {
		q.and("value = ?", Clean(t.Event))
	}
	in(q, columns, chosen.Rows, fields)
	found := map[trendGroup][]*trends.Sums{}
	err = l.periodRows(ctx, q, func(row *sql.Rows) error {
		var group trendGroup
		var started int64
		var of addup.TrendRow
		if err := row.Scan(append(append(of.Targets(), &started), fields(&group)...)...); err != nil {
			return err
		}
		if t.property == trends.OfSet { // sets are compared by waits alone, and jobs by all else
			of.Runs = ""
		} else {
			of.Waits = ""
		}
		if found[group] == nil {
			found[group] = make([]*trends.Sums, trends.DaysBefore+trends.DaysAfter)
		}
		day := &found[group][(started-first)/period.Day]
		if *day == nil {
			*day = &trends.Sums{}
		}
		of.AddTo(*day)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read what jobs came to by day: %w", err)
	}
	return found, nil
}
