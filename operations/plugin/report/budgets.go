package report

import (
	"context"
	"fmt"
	"io"
	"net/url"

	"github.com/harrier-ci/harrier/operations/plugin/ledger"
)

// runBudgets tells what is spent of budgets in a month.
func runBudgets(ctx context.Context, from *ledger.Ledger, options Options, to, notes io.Writer) error {
	filter := url.Values{}
	for name, value := range map[string]string{
		"month": options.Month, "namespace": options.Namespace, "repository": options.Repository,
	} {
		if value != "" {
			filter.Set(name, value)
		}
	}
	spending, err := from.Budgets(ctx, filter)
	if err != nil {
		return err
	}
	month := "this month so far"
	if options.Month != "" {
		month = "the month " + options.Month
	}
	told := document{Ledger: from.Where, Month: options.Month, Rows: orEmpty(spending),
		heading: fmt.Sprintf("What jobs that finished in %s (UTC) have spent of budgets, from the ledger at %s:",
			month, from.Where)}
	if len(spending) == 0 {
		told.Notes = append(told.Notes, "There is no budget that suits: history.budgets of the controller's chart has them.")
	}
	for i := range spending {
		if s := &spending[i]; s.UnpricedHours > 0 {
			told.Notes = append(told.Notes, fmt.Sprintf("Of %.1f of %.1f hours of %s (%s) no price is known; what they cost "+
				"comes besides.", s.UnpricedHours, s.RunHours, s.Of(), percent(s.Unknown())))
		}
	}
	return write(to, notes, options.Format, &told, budgetTable(spending))
}

func budgetTable(spending []ledger.Spending) *table[ledger.Spending] {
	of := (*ledger.Spending).Of
	name := func(name string, of func(*ledger.Spending) string) column[ledger.Spending] {
		return named("", name, of, of)
	}
	ratio := func(head string, of func(*ledger.Spending) float64) column[ledger.Spending] {
		return column[ledger.Spending]{head: head, of: func(s *ledger.Spending) (string, string) { return percent(of(s)), "" }}
	}
	return &table[ledger.Spending]{rows: spending, none: "No budgets.", columns: []column[ledger.Spending]{
		named("BUDGET OF", "", of, of),
		name("repository", func(s *ledger.Spending) string { return s.Repository }),
		name("namespace", func(s *ledger.Spending) string { return s.Namespace }),
		{head: "MONTH", name: "month", of: func(s *ledger.Spending) (string, string) {
			month := s.Month.UTC().Format("2006-01")
			return month, month
		}},
		amount("SPENT", "cost", 2, func(s *ledger.Spending) float64 { return s.Cost }),
		amount("BUDGET", "perMonth", 2, func(s *ledger.Spending) float64 { return s.PerMonth }),
		ratio("USED", func(s *ledger.Spending) float64 {
			if s.PerMonth <= 0 {
				return 0
			}
			return s.Cost / s.PerMonth
		}),
		amount("HOURS", "runHours", 1, func(s *ledger.Spending) float64 { return s.RunHours }),
		amount("", "unpricedHours", 1, func(s *ledger.Spending) float64 { return s.UnpricedHours }),
		ratio("UNKNOWN", (*ledger.Spending).Unknown),
	}}
}
