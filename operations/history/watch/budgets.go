package watch

import (
	"context"
	"fmt"
	"time"

	"github.com/harrier-ci/harrier/operations/history/ledger"
)

// budgetInterval is how old the metrics of budgets may be. A month's jobs are added up in less than a second.
const budgetInterval = 5 * time.Minute

// budgets has the metrics say what this cluster's jobs have spent in the month of now.
func (r *Recorder) budgets(ctx context.Context, now time.Time) error {
	spending, err := r.Ledger.Spending(ctx, r.Budgets, now, ledger.Filter{Cluster: r.Name}, r.Prices)
	if err != nil {
		return fmt.Errorf("add up what is spent of budgets: %w", err)
	}
	for i := range spending {
		s := &spending[i]
		r.Metrics.BudgetPerMonth.WithLabelValues(s.Namespace, s.Repository).Set(s.PerMonth)
		r.Metrics.BudgetSpent.WithLabelValues(s.Namespace, s.Repository).Set(s.Cost)
		r.Metrics.BudgetUnknown.WithLabelValues(s.Namespace, s.Repository).Set(s.Unknown())
	}
	return nil
}
