package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/harrier-ci/harrier/operations/history/fold"
	"github.com/harrier-ci/harrier/operations/history/ledger/addup"
	"github.com/harrier-ci/harrier/operations/history/ledger/sums"
	"github.com/harrier-ci/harrier/operations/history/prices"
	"github.com/harrier-ci/harrier/operations/history/rows"
)

// Size has the requests of a workflow's job, and what it uses of them.
type Size = rows.Size

// coversFit reports whether a filter's time has the last 14 days before its end, or before the present.
func (f *Filter) coversFit() bool {
	to := f.To
	if to.IsZero() {
		to = f.Now
	}
	return f.From.IsZero() || to.Sub(f.From) >= sums.FitTime
}

// kindOfJob has what is common to jobs whose use is told together.
type kindOfJob struct{ cluster, namespace, set, repository, workflow, name string }

// sizedKinds bounds the rows of a period that Sizes looks at, which are those of the largest kinds of each scale set.
// Each row has several histograms to be read: 5 µs. Of each set minSizedKinds are read, however many sets there are.
const (
	sizedKinds    = 3000
	minSizedKinds = 20
)

func (k *kindOfJob) names() []any {
	return []any{&k.cluster, &k.namespace, &k.set, &k.repository, &k.workflow, &k.name}
}

// Sizes returns the use of each job of a workflow that the filter chooses, the largest saving first. Pages have all kinds,
// the dearest first. Kinds that are folded are left out: no size suits all of them.
func (l *Ledger) Sizes(ctx context.Context, filter Filter, rules Prices) (page Part[Size], err error) {
	leave, err := enter(ctx, l.pricing)
	if err != nil {
		return page, err
	}
	defer leave()
	q, err := l.periods(ctx, "SELECT "+addup.KindColumns+", "+sums.NumberColumns+", "+sums.HistogramColumns+" FROM usage_periods", &filter,
		ByJob)
	if err != nil {
		return page, err
	}
	var chosen Part[kindOfJob]
	if filter.paged() {
		if chosen, err = l.dearestKinds(ctx, &filter, rules); err != nil {
			return page, err
		}
		in(q, addup.KindColumns, chosen.Rows, (*kindOfJob).names)
	} else {
		sets, err := l.countSets(ctx, &filter)
		if err != nil {
			return page, err
		}
		q.and("position < ?", max(minSizedKinds, sizedKinds/max(1, sets)))
	}
	q.and("job_name <> ?", fold.Others)
	all := fold.NewGroups[kindOfJob](MaxGroups, nil, sums.Rules)
	err = l.periodRows(ctx, q, func(rows *sql.Rows) error {
		var kind kindOfJob
		var part sums.Sums
		var texts sums.Histograms
		targets := kind.names()
		for _, number := range part.Numbers() {
			targets = append(targets, number)
		}
		if err := rows.Scan(append(targets, texts.Columns()...)...); err != nil {
			return err
		}
		texts.Times = "" // no waits are asked for
		of := all.Of(kind)
		of.MergeNumbers(&part)
		of.MergeHistograms(&texts)
		return nil
	})
	if err != nil {
		return page, fmt.Errorf("read what jobs use: %w", err)
	}
	page.Rows, page.Next, page.Total = []Size{}, chosen.Next, chosen.Total
	at := prices.NewLookup(rules)
	add := func(kind *kindOfJob) {
		size := all.Of(*kind).Size(at)
		size.Cluster, size.Namespace, size.Set = kind.cluster, kind.namespace, kind.set
		size.Repository, size.Workflow, size.Name = kind.repository, kind.workflow, kind.name
		if !filter.coversFit() {
			size.MemoryFitBytes = nil
		}
		page.Rows = append(page.Rows, size)
	}
	if filter.paged() {
		for i := range chosen.Rows {
			add(&chosen.Rows[i])
		}
		return page, nil
	}
	costs := map[*sums.Sums]sums.Cost{}
	cost := func(of *sums.Sums) *sums.Cost {
		known, is := costs[of]
		if !is {
			known = of.Cost(at)
			costs[of] = known
		}
		return &known
	}
	for _, kind := range all.Largest(func(a, b *sums.Sums) int { return cost(a).Compare(cost(b)) }) {
		add(&kind)
	}
	slices.SortFunc(page.Rows, bySaving)
	return page, nil
}

// bySaving has the largest saving first, then those that ran longest.
func bySaving(a, b Size) int {
	return cmp.Or(cmp.Compare(b.Saving, a.Saving), cmp.Compare(b.RunHours, a.RunHours),
		cmp.Compare(a.Cluster+a.Namespace+a.Set, b.Cluster+b.Namespace+b.Set),
		cmp.Compare(a.Repository+a.Workflow+a.Name, b.Repository+b.Workflow+b.Name))
}

// countSets counts the scale sets that a filter chooses.
func (l *Ledger) countSets(ctx context.Context, filter *Filter) (sets int, err error) {
	q := &query{}
	q.add("SELECT COUNT(*) FROM scale_sets")
	q.same(&Filter{Cluster: filter.Cluster, Namespace: filter.Namespace, Set: filter.Set})
	if err := l.rows(ctx, q, func(rows *sql.Rows) error { return rows.Scan(&sets) }); err != nil {
		return 0, fmt.Errorf("count scale sets: %w", err)
	}
	return sets, nil
}

// dearestKinds reads the kinds of a page: those with the largest cost or run time first.
func (l *Ledger) dearestKinds(ctx context.Context, filter *Filter, rules Prices) (page Part[kindOfJob], err error) {
	q, err := l.periods(ctx, "SELECT "+addup.KindColumns+", "+sums.CostColumns(rules)+" FROM usage_periods", filter, ByJob)
	if err != nil {
		return page, err
	}
	q.and("job_name <> ?", fold.Others)
	costs, err := costsOf(ctx, l, q, rules, func(rows *sql.Rows, of *kindOfJob, more []any) error {
		return rows.Scan(append(of.names(), more...)...)
	})
	if err != nil {
		return page, err
	}
	return groupsPage(dearest(costs, func(_, _ kindOfJob) int { return 0 }, compareKinds), *filter)
}

func compareKinds(a, b kindOfJob) int {
	return cmp.Or(cmp.Compare(a.cluster, b.cluster), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.set, b.set),
		cmp.Compare(a.repository, b.repository), cmp.Compare(a.workflow, b.workflow), cmp.Compare(a.name, b.name))
}
