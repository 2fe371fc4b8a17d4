package watch

import (
	"context"
	"fmt"
	"time"

	"github.com/harrier-ci/harrier/operations/history/ledger"
	"github.com/harrier-ci/harrier/operations/history/rows"
)

// changesInterval is how old the metric of what got worse may be. Whole days are compared, so it moves once a day.
const changesInterval = 6 * time.Hour

// changes has the metric say how much of this cluster's got worse in the seven whole days before now.
func (r *Recorder) changes(ctx context.Context, now time.Time) error {
	changes, err := r.Ledger.Changes(ctx, ledger.Filter{Cluster: r.Name, Now: now})
	if err != nil {
		return fmt.Errorf("compare last week with the weeks before: %w", err)
	}
	number := map[string]int{}
	for i := range changes {
		number[changes[i].What]++
	}
	for _, what := range rows.Changes {
		r.Metrics.Changes.WithLabelValues(what).Set(float64(number[what]))
	}
	return nil
}
