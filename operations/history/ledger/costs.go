package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/harrier-ci/harrier/operations/history/ledger/sums"
	"github.com/harrier-ci/harrier/operations/history/prices"
	"github.com/harrier-ci/harrier/operations/history/rows"
)

// Prices are the rules by which jobs have a cost.
type Prices = prices.Rules

// costs returns what the jobs of each group cost, of ByAll of the one without names. Which rule prices a machine no
// database knows, so all rows are read: 130,000 by job, the most of a question, take about half a second.
func (l *Ledger) costs(ctx context.Context, by By, filter *Filter, rules Prices) (map[Group]*sums.Cost, error) {
	selected := sums.CostColumns(rules)
	if group := groups[by]; group != "" {
		selected = group + ", " + selected
	}
	q, err := l.periods(ctx, "SELECT "+selected+" FROM usage_periods", filter, by)
	if err != nil {
		return nil, err
	}
	return costsOf(ctx, l, q, rules, func(rows *sql.Rows, of *Group, more []any) error {
		if by == ByAll {
			return rows.Scan(more...)
		}
		return scanGroup(rows, by, of, more...)
	})
}

// costsOf adds up the costs of the rows of a query that ends with sums.CostColumns. scan reads what comes before them.
func costsOf[G comparable](
	ctx context.Context, l *Ledger, q *query, rules Prices, scan func(rows *sql.Rows, of *G, more []any) error,
) (map[G]*sums.Cost, error) {
	at, costs := prices.NewLookup(rules), map[G]*sums.Cost{}
	var row sums.CostRow
	columns := row.Columns()
	err := l.periodRows(ctx, q, func(rows *sql.Rows) error {
		var of G
		if err := scan(rows, &of, columns); err != nil {
			return err
		}
		cost := costs[of]
		if cost == nil {
			cost = &sums.Cost{}
			costs[of] = cost
		}
		cost.Add(&row, at)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read what jobs cost: %w", err)
	}
	return costs, nil
}

// dearest returns groups in the order of their costs or run times, the largest first. first comes before that, and byName
// where both are the same.
func dearest[G comparable](costs map[G]*sums.Cost, first, byName func(a, b G) int) []G {
	return slices.SortedFunc(maps.Keys(costs), func(a, b G) int {
		return cmp.Or(first(a, b), costs[a].Compare(costs[b]), byName(a, b))
	})
}

// groupsPage returns the page of groups that a filter asks for.
func groupsPage[G any](order []G, filter Filter) (Part[G], error) {
	if filter.Limit <= 0 || filter.Limit > MaxGroups {
		filter.Limit = MaxGroups
	}
	return PartOf(order, &filter)
}

// ofDays has days in their order.
func ofDays(a, b Group) int { return a.Day.Compare(b.Day) }

func compareGroups(a, b Group) int {
	return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Set, b.Set), cmp.Compare(a.Repository, b.Repository), cmp.Compare(a.Workflow, b.Workflow),
		cmp.Compare(a.Name, b.Name))
}

// Machine is a kind of machine on which jobs have run.
type Machine = rows.Machine

// Machines returns the kinds of machines on which the jobs ran that the filter chooses, those without a price first. There
// are MaxGroups at most, if it isn't asked for pages.
func (l *Ledger) Machines(ctx context.Context, filter Filter, rules Prices) (page Part[Machine], err error) {
	q, err := l.periods(ctx, "SELECT "+sums.MachineColumns+" FROM usage_periods", &filter, ByAll)
	if err != nil {
		return page, err
	}
	at, all := prices.NewLookup(rules), sums.Machines{}
	var row sums.CostRow
	if err := l.periodRows(ctx, q, func(rows *sql.Rows) error {
		err := rows.Scan(row.Columns()...)
		all.Add(&row, at)
		return err
	}); err != nil {
		return page, fmt.Errorf("read on which machines jobs ran: %w", err)
	}
	return groupsPage(all.Rows(), filter)
}

// Spending is what has been spent of a budget in a month.
type Spending = rows.Spending

// Spending returns what has been spent of budgets in the calendar month of a moment, in UTC: of those that the filter
// chooses by its repository or namespace. With a namespace that are only budgets of it: what a repository spends in one
// namespace is not what its budget is about. Two questions answer all budgets.
func (l *Ledger) Spending(
	ctx context.Context, budgets []prices.Budget, month time.Time, filter Filter, rules Prices,
) ([]Spending, error) {
	from, to := prices.Month(month)
	chosen := slices.DeleteFunc(slices.Clone(budgets), func(b prices.Budget) bool {
		return filter.Repository != "" && b.Repository != filter.Repository ||
			filter.Namespace != "" && b.Namespace != filter.Namespace
	})
	within := Filter{From: from, To: to, Cluster: filter.Cluster}
	repositories, err := l.spent(ctx, "repository", ByRepository, &within, rules, chosen,
		func(b *prices.Budget) string { return b.Repository })
	if err != nil {
		return nil, err
	}
	namespaces, err := l.spent(ctx, "namespace", BySet, &within, rules, chosen,
		func(b *prices.Budget) string { return b.Namespace })
	if err != nil {
		return nil, err
	}
	spending := []Spending{}
	for i := range chosen {
		b := &chosen[i]
		cost := repositories[b.Repository]
		if b.Namespace != "" {
			cost = namespaces[b.Namespace]
		}
		if cost == nil {
			cost = &sums.Cost{}
		}
		spending = append(spending, Spending{Repository: b.Repository, Namespace: b.Namespace, Month: from,
			PerMonth: b.PerMonth, Cost: cost.Amount, RunHours: cost.Hours(), UnpricedHours: cost.UnpricedHours()})
	}
	return spending, nil
}

// spent returns what the jobs cost of each name that a budget has of a property.
func (l *Ledger) spent(
	ctx context.Context, property string, by By, within *Filter, rules Prices, budgets []prices.Budget,
	name func(*prices.Budget) string,
) (map[string]*sums.Cost, error) {
	var named []string
	for i := range budgets {
		if of := name(&budgets[i]); of != "" {
			named = append(named, Clean(of))
		}
	}
	if len(named) == 0 {
		return nil, nil
	}
	q, err := l.periods(ctx, "SELECT "+property+", "+sums.CostColumns(rules)+" FROM usage_periods", within, by)
	if err != nil {
		return nil, err
	}
	in(q, property, named, func(of *string) []any { return []any{of} })
	return costsOf(ctx, l, q, rules, func(rows *sql.Rows, of *string, more []any) error {
		return rows.Scan(append([]any{of}, more...)...)
	})
}
