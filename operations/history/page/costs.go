package page

import (
	"context"
	"slices"

	"github.com/harrier-ci/harrier/operations/history/ledger"
	"github.com/harrier-ci/harrier/operations/history/page/link"
	"github.com/harrier-ci/harrier/operations/history/page/words"
	"github.com/harrier-ci/harrier/operations/history/prices"
)

// unpricedRows are the kinds of machines without a price that a page names. The API has all.
const unpricedRows = 5

// unpriced returns the kinds of machines that have most of the hours of unknown cost.
func (p *pages) unpriced(ctx context.Context, r *request, total *ledger.Usage) ([]ledger.Machine, error) {
	if len(p.Prices) == 0 || total.UnpricedHours == 0 {
		return nil, nil
	}
	machines, err := p.Ledger.Machines(ctx, r.Filter, p.Prices)
	if err != nil {
		return nil, err
	}
	unpriced := slices.DeleteFunc(machines.Rows, func(m ledger.Machine) bool { return m.Priced })
	return unpriced[:min(len(unpriced), unpricedRows)], nil
}

// uncosted says what is missing for the costs of jobs, or for a part of them.
func uncosted(used []ledger.Usage, total *ledger.Usage, rules prices.Rules) (missing []string) {
	var without, all int64
	for i := range used {
		u := &used[i]
		if all += u.Jobs; u.RunHours > 0 && u.CPUHoursRequested+u.GiBHoursRequested == 0 {
			without += u.Jobs
		}
	}
	var freeCPU, freeMemory bool
	for i := range rules {
		freeCPU, freeMemory = freeCPU || rules[i].CPUHour == 0, freeMemory || rules[i].GiBHour == 0
	}
	for _, part := range []struct {
		is   bool
		text string
	}{
		{len(rules) == 0, "Costs are told when history.prices says what a CPU and a GiB cost."},
		{len(rules) > 0 && total.UnpricedHours > 0, "Of " + words.Amount(total.UnpricedHours) + " of " +
			words.Amount(total.RunHours) + " hours (" + words.Percent(total.Unknown()) + ") the cost is unknown, and in no sum: no rule of " +
			"history.prices fits their node and what they request, or nobody has seen the node."},
		{freeCPU && total.CPUHoursRequested > 0, "CPU has no price: history.prices, or one of its rules, lacks cpuHour."},
		{freeMemory && total.GiBHoursRequested > 0, "Memory has no price: history.prices, or one of its rules, lacks gibHour."},
		{all > 0 && total.RunHours == 0, "No run time of these jobs is known, so they have no cost."},
		{without > 0, words.Grouped(without) + " of " + words.Grouped(all) + " jobs are in rows whose pods request neither CPU nor memory, " +
			"so they have no cost: give the runner container of the scale set's template resources.requests."},
	} {
		if part.is {
			missing = append(missing, part.text)
		}
	}
	return missing
}

// budgetLine is what is spent of a budget, with the address at which that is told in detail.
type budgetLine struct {
	ledger.Spending
	Of, Month, Link string
	// Used is the share of the budget that is known to be spent.
	Used float64
}

// budgets returns what is spent of budgets in the month of the page's end: of a page that ends now, in this month so far.
func (p *pages) budgets(ctx context.Context, r *request) (lines []budgetLine, err error) {
	month := r.now
	if to := r.Filter.To; !to.IsZero() && to.Before(month) {
		month = to
	}
	spending, err := p.Ledger.Spending(ctx, p.Budgets, month, r.Filter, p.Prices)
	for i := range spending {
		s := &spending[i]
		from, to := prices.Month(s.Month)
		line := budgetLine{Spending: *s, Of: s.Of(), Month: from.Format("January 2006"), Used: s.Cost / s.PerMonth,
			Link: link.To("usage", nil, "namespace", s.Namespace, "repository", s.Repository, "from", words.Machine(from))}
		if to.After(r.now) {
			line.Month += " so far"
		} else {
			line.Link = link.To("usage", nil, "namespace", s.Namespace, "repository", s.Repository, "from", words.Machine(from),
				"to", words.Machine(to))
		}
		lines = append(lines, line)
	}
	return lines, err
}
