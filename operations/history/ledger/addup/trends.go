package addup

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/harrier-ci/harrier/operations/history/ledger/period"
	"github.com/harrier-ci/harrier/operations/history/ledger/trends"
)

// TrendSpans are the spans of which there are trends: nobody asks for the four weeks. Hours are there to make days of.
var TrendSpans = period.Spans[1:3]

// TrendNumbers are the columns of a TrendRow.
const TrendNumbers = "jobs, succeeded, failed, canceled, lost, run_times, wait_times"

// TrendRow has the columns of the sums of a period.
type TrendRow struct {
	trends.Sums
	Runs, Waits string
}

// Targets are what a row with these columns is read into.
func (r *TrendRow) Targets() []any {
	var targets []any
	for _, number := range r.Numbers() {
		targets = append(targets, number)
	}
	return append(targets, &r.Runs, &r.Waits)
}

// AddTo adds the row to sums.
func (r *TrendRow) AddTo(sums *trends.Sums) {
	sums.Merge(&r.Sums)
	sums.Runs.Merge(r.Runs)
	sums.Waits.Merge(r.Waits)
}

// writeTrends replaces the trends of a unit. If there were none, they are apart as its other sums are: a job that is told late
// of an hour whose trends are gone is not in those of the day.
func writeTrends(ctx context.Context, tx *sql.Tx, u Unit, kinds *trends.Kinds, apart bool) error {
	apart, err := remove(ctx, tx, "trend_periods", u, apart)
	if err != nil {
		return err
	}
	insert, err := tx.PrepareContext(ctx, "INSERT INTO trend_periods (position, property, repository, workflow, job_name, value, "+
		UnitColumns+", "+TrendNumbers+", apart) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)")
	if err != nil {
		return err
	}
	defer insert.Close()
	position := 0
	for kind, of := range kinds.All() {
		position++
		values := append([]any{position, kind.Property, kind.Repository, kind.Workflow, kind.Name, kind.Value}, u.values()...)
		for _, number := range of.Numbers() {
			values = append(values, *number)
		}
		values = append(values, of.Runs.String(), of.Waits.String(), flag(apart))
		if _, err := insert.ExecContext(ctx, values...); err != nil {
			return err
		}
	}
	return nil
}

// addUpTrends makes the trends of a day of those of its hours, or of a week of those of its days. Where some of these are
// missing the trends stay as they are: hours go before days do, and before version 10 of the tables there were none.
func addUpTrends(ctx context.Context, tx *sql.Tx, u Unit, shorter, newest int64, most int) error {
	if !slices.Contains(TrendSpans, u.Span) {
		return nil
	}
	where, values := parts(u, shorter)
	var have, want int
	const count = "SELECT COUNT(DISTINCT started) FROM "
	if err := tx.QueryRowContext(ctx, count+"usage_periods"+where+isJoined, values...).Scan(&want); err != nil {
		return err
	}
	if err := tx.QueryRowContext(ctx, fmt.Sprintf("%strend_periods%s AND (apart = 0 OR started < %d)", count, where, newest),
		values...).Scan(&have); err != nil {
		return err
	}
	if have < want {
		return nil
	}
	if u.Span == period.Day {
		if err := join(ctx, tx, "trend_periods", u, newest); err != nil {
			return err
		}
	}
	const all = "SELECT property, repository, workflow, job_name, value, " + TrendNumbers + " FROM trend_periods"
	found, err := tx.QueryContext(ctx, all+where+isJoined, values...)
	if err != nil {
		return err
	}
	defer found.Close()
	kinds := trends.New(most)
	for found.Next() {
		var kind trends.Kind
		var of TrendRow
		if err := found.Scan(append([]any{&kind.Property, &kind.Repository, &kind.Workflow, &kind.Name, &kind.Value},
			of.Targets()...)...); err != nil {
			return err
		}
		of.AddTo(kinds.Of(kind))
	}
	if err := found.Err(); err != nil {
		return err
	}
	return writeTrends(ctx, tx, u, kinds, false)
}
