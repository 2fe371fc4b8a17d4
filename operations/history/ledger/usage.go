package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/harrier-ci/harrier/operations/history/ledger/sums"
	"github.com/harrier-ci/harrier/operations/history/rows"
)

// Usage is the sum of jobs that have finished.
type Usage = rows.Usage

// Usage is UsageBy or, if the filter has a limit or a place, a page of the groups, of which none is put together with
// others because there are many. The row of ByAll is there also if no job suits the filter.
func (l *Ledger) Usage(ctx context.Context, by By, filter Filter, prices Prices) (page Part[Usage], err error) {
	if by != ByAll && !filter.paged() {
		page.Rows, err = l.UsageBy(ctx, by, filter, prices)
		return page, err
	}
	if _, known := groups[by]; !known && by != ByAll {
		return page, &FilterError{"by", string(by), wantedBy + " or all"}
	}
	leave, err := enter(ctx, l.pricing)
	if err != nil {
		return page, err
	}
	defer leave()
	costs, err := l.costs(ctx, by, &filter, prices)
	if err != nil {
		return page, err
	}
	if by == ByAll {
		page.Rows = []Usage{{}}
		all, err := l.sums(ctx, by, &filter, nil)
		if whole := all[Group{}]; whole != nil {
			page.Rows[0] = whole.Usage(Group{}, costOf(costs, Group{}))
		}
		return page, err
	}
	chosen, err := groupsPage(dearest(costs, ofDays, compareGroups), filter)
	if err != nil {
		return page, err
	}
	found, err := l.sums(ctx, by, &filter, chosen.Rows)
	page.Rows, page.Next, page.Total = []Usage{}, chosen.Next, chosen.Total
	for _, of := range chosen.Rows {
		if part := found[of]; part != nil { // or it is gone since
			page.Rows = append(page.Rows, part.Usage(of, costs[of]))
		}
	}
	return page, err
}

// costOf returns the cost of a group, which may have no jobs.
func costOf(costs map[Group]*sums.Cost, of Group) *sums.Cost {
	if cost := costs[of]; cost != nil {
		return cost
	}
	return &sums.Cost{}
}

// UsageBy returns the usage of the jobs that the filter chooses, the largest cost or run time first. From and To are
// widened to whole hours.
func (l *Ledger) UsageBy(ctx context.Context, by By, filter Filter, prices Prices) ([]Usage, error) {
	if _, known := groups[by]; !known {
		return nil, &FilterError{"by", string(by), wantedBy}
	}
	leave, err := enter(ctx, l.pricing)
	if err != nil {
		return nil, err
	}
	defer leave()
	costs, err := l.costs(ctx, by, &filter, prices)
	if err != nil {
		return nil, err
	}
	order := dearest(costs, ofDays, compareGroups)
	chosen, others := order, sums.Cost{}
	if len(order) > MaxGroups && othersOf[by] != nil {
		chosen = slices.DeleteFunc(slices.Clone(order), func(of Group) bool { return of == *othersOf[by] })[:MaxGroups-1]
	}
	named := chosen
	if len(chosen) == len(order) {
		named = nil
	}
	found, err := l.sums(ctx, by, &filter, named)
	if err != nil {
		return nil, err
	}
	usage, apart, kept := []Usage{}, sums.New(), map[Group]bool{}
	for _, of := range chosen {
		kept[of] = true
		if part := found[of]; part != nil { // or it is gone since
			usage = append(usage, part.Usage(of, costs[of]))
			apart.MergeNumbers(part)
		}
	}
	if len(chosen) < len(order) {
		for _, of := range order {
			if !kept[of] {
				others.Plus(costs[of])
			}
		}
		whole, err := l.sums(ctx, ByAll, &filter, nil)
		if err != nil {
			return nil, err
		}
		if rest := whole[Group{}]; rest != nil {
			usage = append(usage, rest.Without(apart).Usage(*othersOf[by], &others))
		}
	}
	sortUsage(usage, by)
	return usage, nil
}

// sortUsage has the largest cost or run time first, and days in their order.
func sortUsage(usage []Usage, by By) {
	slices.SortStableFunc(usage, func(a, b Usage) int {
		if by == ByDay {
			return a.Day.Compare(b.Day)
		}
		return cmp.Or(cmp.Compare(b.Cost, a.Cost), cmp.Compare(b.RunHours, a.RunHours),
			cmp.Compare(a.Repository+a.Workflow+a.Name, b.Repository+b.Workflow+b.Name))
	})
}

// sums returns the sums of some groups, of all if chosen is nil, and of ByAll those of all jobs.
func (l *Ledger) sums(ctx context.Context, by By, filter *Filter, chosen []Group) (map[Group]*sums.Sums, error) {
	columns, group := sums.SummedColumns, groups[by]
	if group != "" {
		columns = group + ", " + columns
	}
	q, err := l.periods(ctx, "SELECT "+columns+" FROM usage_periods", filter, by)
	if err != nil {
		return nil, err
	}
	if by != ByDay && chosen != nil { // days have no names, and are few
		in(q, group, chosen, by.names)
	}
	if group != "" {
		q.add(" GROUP BY " + group)
	}
	found := map[Group]*sums.Sums{}
	err = l.periodRows(ctx, q, func(rows *sql.Rows) error {
		numbers := make([]sql.NullFloat64, strings.Count(sums.NumberColumns, ",")+1)
		var targets []any
		for i := range numbers {
			targets = append(targets, &numbers[i])
		}
		var of Group
		if group == "" {
			err = rows.Scan(targets...)
		} else {
			err = scanGroup(rows, by, &of, targets...)
		}
		var part sums.Sums
		for i, number := range part.Numbers() {
			*number = int64(min(numbers[i].Float64, math.MaxInt64/2))
		}
		found[of] = &part
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read what jobs come to: %w", err)
	}
	return found, nil
}
