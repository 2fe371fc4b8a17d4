package server

import (
	"cmp"
	"context"

	"github.com/harrier-ci/harrier/operations/history/ledger"
	"github.com/harrier-ci/harrier/operations/history/question"
	"github.com/harrier-ci/harrier/operations/history/rows"
)

// table answers a question with a part of a table, a page of jobs or one job.
type table struct {
	// takes are the parts of an address that apply to it.
	takes [][]string
	read  func(context.Context, *server, question.Question) (any, error)
}

var (
	aboutKinds = [][]string{question.Time, question.Place, question.OfKinds, question.Pages, question.Format}
	aboutSets  = [][]string{question.Time, question.Place, question.Pages, question.Format}
)

var tables = map[string]table{
	"jobs": {append([][]string{question.OfJobs, question.OfRuns}, aboutKinds...),
		func(ctx context.Context, s *server, q question.Question) (any, error) {
			return s.Ledger.Jobs(ctx, q.Filter)
		}},
	"usage": {append([][]string{question.By}, aboutKinds...),
		func(ctx context.Context, s *server, q question.Question) (any, error) {
			return s.Ledger.Usage(ctx, cmp.Or(q.By, ledger.ByRepository), q.Filter, s.Prices)
		}},
	"waits": {append([][]string{question.By}, aboutKinds...),
		func(ctx context.Context, s *server, q question.Question) (any, error) {
			return s.Ledger.WaitsBy(ctx, q.By, q.Filter)
		}},
	"trends": {append([][]string{question.By, question.Every, question.OfRuns}, aboutKinds...),
		func(ctx context.Context, s *server, q question.Question) (any, error) {
			return s.Ledger.Trends(ctx, q.By, cmp.Or(q.Every, rows.EveryDay), q.Filter)
		}},
	// Changes are of a week, whose end may be chosen.
	"changes": {append([][]string{{"to"}, question.Place, question.OfKinds, question.Pages}, question.Format),
		func(ctx context.Context, s *server, q question.Question) (any, error) {
			q.Filter.Now = s.Clock.Now()
			changes, err := s.Ledger.Changes(ctx, q.Filter)
			if err != nil {
				return nil, err
			}
			return ledger.PartOf(changes, &q.Filter)
		}},
	"sizes": {aboutKinds, func(ctx context.Context, s *server, q question.Question) (any, error) {
		q.Filter.Now = s.Clock.Now()
		return s.Ledger.Sizes(ctx, q.Filter, s.Prices)
	}},
	"machines": {aboutKinds, func(ctx context.Context, s *server, q question.Question) (any, error) {
		return s.Ledger.Machines(ctx, q.Filter, s.Prices)
	}},
	"budgets": {[][]string{question.Month, {"cluster", "namespace", "repository"}, question.Format},
		func(ctx context.Context, s *server, q question.Question) (any, error) {
			month := q.Month
			if month.IsZero() {
				month = s.Clock.Now()
			}
			return s.Ledger.Spending(ctx, s.Budgets, month, q.Filter, s.Prices)
		}},
	"samples": {aboutSets, func(ctx context.Context, s *server, q question.Question) (any, error) {
		return s.Ledger.Samples(ctx, q.Filter)
	}},
	"sets": {aboutSets, func(ctx context.Context, s *server, q question.Question) (any, error) {
		if q.Filter.From.IsZero() {
			before := s.Clock.Now()
			if to := q.Filter.To; !to.IsZero() {
				before = to
			}
			q.Filter.From = before.Add(-ledger.SampleInterval)
		}
		sets, err := s.Ledger.Sets(ctx, q.Filter)
		if err != nil {
			return nil, err
		}
		if s.Sets != nil && q.Filter.To.IsZero() {
			sets = ledger.Present(sets, s.Sets(), &q.Filter)
		}
		return ledger.PartOf(sets, &q.Filter)
	}},
	// Gaps are those of a cluster, in all its namespaces.
	"gaps": {[][]string{question.Time, {"cluster"}, question.Pages, question.Format},
		func(ctx context.Context, s *server, q question.Question) (any, error) {
			return s.Ledger.Gaps(ctx, q.Filter)
		}},
}

// oneJob has its UID in the path of its address.
var oneJob = table{[][]string{question.Place, question.Format},
	func(ctx context.Context, s *server, q question.Question) (any, error) {
		job, err := s.Ledger.Job(ctx, q.Filter.RunnerUID)
		if err == nil && !q.Filter.Place(&job) {
			return nil, ledger.ErrNoJob
		}
		return job, err
	}}
