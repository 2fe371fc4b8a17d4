package server

import (
	"cmp"
	"context"

	"github.com/harrier-ci/harrier/internal/history/ledger"
	"github.com/harrier-ci/harrier/internal/history/question"
)

// table answers a question with a slice, a page of jobs or one job.
type table func(context.Context, *server, question.Question) (any, error)

var tables = map[string]table{
	"jobs": func(ctx context.Context, s *server, q question.Question) (any, error) {
		return s.Ledger.Jobs(ctx, q.Filter)
	},
	"usage": func(ctx context.Context, s *server, q question.Question) (any, error) {
		return s.Ledger.UsageBy(ctx, cmp.Or(q.By, ledger.ByRepository), q.Filter, s.Prices)
	},
	"waits": func(ctx context.Context, s *server, q question.Question) (any, error) {
		return s.Ledger.WaitsBy(ctx, q.By, q.Filter)
	},
	"sizes": func(ctx context.Context, s *server, q question.Question) (any, error) {
		return s.Ledger.Sizes(ctx, q.Filter, s.Prices)
	},
	"samples": func(ctx context.Context, s *server, q question.Question) (any, error) {
		return s.Ledger.Samples(ctx, q.Filter)
	},
	"sets": func(ctx context.Context, s *server, q question.Question) (any, error) {
		since := q.Filter.From
		if since.IsZero() {
			since = s.Clock.Now().Add(-ledger.SampleInterval)
		}
		return s.Ledger.Sets(ctx, since)
	},
	"gaps": func(ctx context.Context, s *server, q question.Question) (any, error) {
		return s.Ledger.Gaps(ctx, q.Filter)
	},
}
