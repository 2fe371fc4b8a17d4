package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/harrier-ci/harrier/operations/history/fold"
	"github.com/harrier-ci/harrier/operations/history/ledger/sums"
	"github.com/harrier-ci/harrier/operations/history/rows"
)

// Wait has the times that jobs which have finished waited for one phase.
type Wait = rows.Wait

// WholeWait stands in the place of a phase for all of them together.
const WholeWait = rows.WholeWait

// WaitsBy returns the waits of the jobs that the filter chooses, for each phase, for each limit and in all: of the
// groups with most jobs, that with the longest whole wait first. Jobs are added up as for usage or, if by is empty, all
// together. A page has groups, and all rows of each: those with most jobs first, and none put together with others because
// there are many; days are in their order.
func (l *Ledger) WaitsBy(ctx context.Context, by By, filter Filter) (page Part[Wait], err error) {
	if by == ByAll {
		by = ""
	}
	group, known := groups[by]
	if !known && by != "" {
		return page, &FilterError{"by", string(by), wantedBy + ", or all"}
	}
	var chosen Part[Group]
	named := filter.paged() && known && by != ByDay
	if named {
		if chosen, err = l.mostJobs(ctx, by, &filter); err != nil {
			return page, err
		}
	}
	selected := sums.WaitColumns
	if known {
		selected = group + ", " + sums.WaitColumns
	}
	q, err := l.periods(ctx, "SELECT "+selected+" FROM usage_periods", &filter, by)
	if err != nil {
		return page, err
	}
	q.and("wait_times <> ''")
	if named {
		in(q, group, chosen.Rows, by.names)
	}
	all, err := l.readWaits(ctx, q, by)
	if err != nil {
		return page, err
	}
	if !named {
		if chosen, err = PartOf(longest(all), &filter); err != nil {
			return page, err
		}
	}
	page.Rows, page.Next, page.Total = []Wait{}, chosen.Next, chosen.Total
	for _, of := range chosen.Rows {
		page.Rows = append(page.Rows, all.Of(of).Rows(of)...)
	}
	return page, nil
}

// mostJobs reads the groups of a page: those with most jobs whose wait is known first.
func (l *Ledger) mostJobs(ctx context.Context, by By, filter *Filter) (page Part[Group], err error) {
	limit, first, err := filter.part(MaxGroups)
	if err != nil {
		return page, err
	}
	group := groups[by]
	q, err := l.periods(ctx, "SELECT "+group+", "+sums.Summed("waited")+" AS size FROM usage_periods", filter, by)
	if err != nil {
		return page, err
	}
	q.and("wait_times <> ''")
	q.add(" GROUP BY " + group)
	if page, err = groupsOf(ctx, l, q, group, limit, first, by.names); err != nil {
		return page, fmt.Errorf("read which jobs waited: %w", err)
	}
	return page, nil
}

// readWaits adds up what a question is answered, by group.
func (l *Ledger) readWaits(ctx context.Context, q *query, by By) (*fold.Groups[Group, *sums.Waits], error) {
	all := fold.NewGroups(MaxGroups, othersOf[by], sums.WaitRules)
	err := l.periodRows(ctx, q, func(rows *sql.Rows) error {
		var of Group
		var row sums.WaitRow
		if err := scanGroup(rows, by, &of, row.Columns()...); err != nil {
			return err
		}
		all.Of(of).Add(&row)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read how long jobs waited: %w", err)
	}
	return all, nil
}

// longest returns the groups, days in their order and then that with the longest whole wait first.
func longest(all *fold.Groups[Group, *sums.Waits]) []Group {
	slow := map[Group]int64{}
	sorted := all.Largest(func(a, b *sums.Waits) int {
		return cmp.Compare(b.Jobs(), a.Jobs())
	})
	for _, of := range sorted {
		slow[of] = all.Sums(of).P95Seconds()
	}
	slices.SortFunc(sorted, func(a, b Group) int {
		return cmp.Or(a.Day.Compare(b.Day), cmp.Compare(slow[b], slow[a]),
			cmp.Compare(a.Cluster+a.Namespace+a.Set, b.Cluster+b.Namespace+b.Set),
			cmp.Compare(a.Repository+a.Workflow+a.Name, b.Repository+b.Workflow+b.Name))
	})
	return sorted
}
