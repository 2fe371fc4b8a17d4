package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/operations/history/fold"
	"github.com/harrier-ci/harrier/operations/history/ledger/addup"
	"github.com/harrier-ci/harrier/operations/history/ledger/period"
	"github.com/harrier-ci/harrier/operations/history/rows"
)

// By is a property of jobs by which their usage is added up.
type By string

// The properties by which usage can be added up.
const (
	BySet        By = "set"
	ByRepository By = "repository"
	ByWorkflow   By = "workflow"
	ByJob        By = "job"
	ByDay        By = "day"
)

// groups are the columns of each.
var groups = map[By]string{
	BySet: "cluster, namespace, set_name", ByRepository: "repository", ByWorkflow: "repository, workflow",
	ByJob: "repository, workflow, job_name", ByDay: "started - started % 86400",
}

// wantedBy names them.
const wantedBy = "set, repository, workflow, job or day"

// ByAll adds all jobs up together.
const ByAll By = "all"

// Group has what is common to jobs that are added up together.
type Group = rows.Group

// names are the columns of a group; those of days are no names.
func (by By) names(g *Group) []any {
	return map[By][]any{
		BySet: {&g.Cluster, &g.Namespace, &g.Set}, ByRepository: {&g.Repository}, ByWorkflow: {&g.Repository, &g.Workflow},
		ByJob: {&g.Repository, &g.Workflow, &g.Name},
	}[by]
}

// scanGroup reads a row that begins with the columns of a group.
func scanGroup(row *sql.Rows, by By, g *Group, more ...any) error {
	var started int64
	targets := by.names(g)
	if by == ByDay {
		targets = []any{&started}
	}
	err := row.Scan(append(targets, more...)...)
	if by == ByDay {
		g.Day = time.Unix(started, 0).UTC()
	}
	return err
}

// MaxGroups bounds the answers of Usage, Waits and Sizes. The largest are kept; further ones of Usage and Waits are
// together in a group whose names are fold.Others.
const MaxGroups = 1000

// othersOf are the groups in which groups beyond MaxGroups count. There are never so many days.
var othersOf = map[By]*Group{
	BySet:        {Cluster: fold.Others, Namespace: fold.Others, Set: fold.Others},
	ByRepository: {Repository: fold.Others}, ByWorkflow: {Repository: fold.Others, Workflow: fold.Others},
	ByJob: {Repository: fold.Others, Workflow: fold.Others, Name: fold.Others},
}

// periods begins a query of the periods that cover the filter's time: the longest that fit, and shorter ones at its
// ends. For a question by day no period is longer than a day. A question that tells only scale sets apart reads the
// sums of whole sets, and one that tells no names of jobs apart those of workflows.
func (l *Ledger) periods(ctx context.Context, text string, filter *Filter, by By) (*query, error) {
	q := &query{}
	q.add(text)
	fitting := period.Spans
	if by == ByDay {
		fitting = period.Spans[:2]
	}
	of := period.OfKinds
	if whole := sumsFor(filter, by); whole != nil {
		folded, err := l.allFolded(ctx)
		if err != nil {
			return nil, err
		}
		if folded {
			of = whole
		}
	}
	q.within(period.Cover(filter.From, filter.To, fitting), of)
	q.same(filter)
	return q, nil
}

// sumsFor returns which sums answer a question without those of each kind of jobs, nil if none do.
func sumsFor(filter *Filter, by By) func(span int64) int64 {
	switch {
	case filter.Name != "" || by == ByJob:
		return nil
	case filter.Repository+filter.Workflow != "" || by == ByRepository || by == ByWorkflow:
		return period.OfWorkflows
	}
	return period.OfSets
}

// within chooses the sums of periods, and those of hours that are apart from them. of is what they are of.
func (q *query) within(parts []period.Part, of func(span int64) int64) {
	var conditions []string
	var values []any
	for _, part := range parts {
		conditions = append(conditions, "(span = ? AND started >= ? AND started < ?)")
		values = append(values, of(part.Span), part.From, part.To)
	}
	if condition, more := addup.Apart(parts, of); condition != "" {
		conditions, values = append(conditions, condition), append(values, more...)
	}
	if len(conditions) == 0 {
		conditions = []string{"1 = 0"}
	}
	q.and("("+strings.Join(conditions, " OR ")+")", values...)
}

// allFolded reports whether there are sums of whole sets and workflows for all periods.
func (l *Ledger) allFolded(ctx context.Context) (bool, error) {
	if l.folded.Load() {
		return true, nil
	}
	folded := true
	q := &query{}
	q.add("SELECT 1 FROM unfolded_periods LIMIT 1")
	if err := l.rows(ctx, q, func(*sql.Rows) error {
		folded = false
		return nil
	}); err != nil {
		return false, fmt.Errorf("read whether all periods are folded: %w", err)
	}
	l.folded.Store(folded) // it stays so: AddUp writes them all
	return folded, nil
}

// enter waits for a place in a room, and returns how to leave it.
func enter(ctx context.Context, room chan struct{}) (leave func(), err error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case room <- struct{}{}:
		return func() { <-room }, nil
	}
}

// periodRows is rows for a question that adds up periods.
func (l *Ledger) periodRows(ctx context.Context, q *query, scan func(*sql.Rows) error) error {
	leave, err := enter(ctx, l.adding)
	if err != nil {
		return err
	}
	defer leave()
	return l.rows(ctx, q, scan)
}

// groupsOf reads a page of the groups of a query, which selects their columns, and their sizes as size: the largest first.
// Histograms, which no database adds up, are read of these groups alone. names are the columns of a group. Groups are counted
// where they are found once: to number them instead (COUNT(*) OVER) takes half as long again.
func groupsOf[G any](ctx context.Context, l *Ledger, found *query, columns string, limit, first int, names func(*G) []any,
) (Part[G], error) {
	var page Part[G]
	q := &query{arguments: found.arguments}
	q.add("WITH found AS MATERIALIZED (" + found.text.String() + ") SELECT " + columns + ", (SELECT COUNT(*) FROM found) FROM found")
	q.add(" ORDER BY size DESC, "+columns+" LIMIT ? OFFSET ?", limit+1, first)
	err := l.periodRows(ctx, q, func(rows *sql.Rows) error {
		var group G
		page.Rows = append(page.Rows, group)
		return rows.Scan(append(names(&page.Rows[len(page.Rows)-1]), &page.Total)...)
	})
	if page.Next = nextOf(len(page.Rows), limit, first); page.Next != "" {
		page.Rows = page.Rows[:limit]
	}
	return page, err
}

// in has a query choose rows of some groups only.
func in[G any](q *query, columns string, groups []G, names func(*G) []any) {
	if len(groups) == 0 {
		q.and("1 = 0")
		return
	}
	var values []any
	for i := range groups {
		for _, name := range names(&groups[i]) {
			values = append(values, *name.(*string))
		}
	}
	tuple := "(" + strings.Repeat("?, ", strings.Count(columns, ",")) + "?)"
	q.and(fmt.Sprintf("(%s) IN (VALUES %s%s)", columns, strings.Repeat(tuple+", ", len(groups)-1), tuple), values...)
}
