package ledger

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/harrier-ci/harrier/operations/history/ledger/period"
)

// The sums of an hour are apart until its day has them, and a question about the day reads both. So the newest hour, which
// changes each minute, has no day, week and four weeks added up again each minute, which would take most of what the ledger
// takes of a CPU: a day has up to 24 times the rows of an hour. No clock is asked: an hour has passed when there is a later one.

// newestHour returns the begin of the last hour with jobs, in any scale set.
func (l *Ledger) newestHour(ctx context.Context) (newest int64, err error) {
	q := &query{}
	q.add("SELECT COALESCE(MAX(started), 0) FROM (SELECT MAX(started) AS started FROM usage_periods WHERE span = ? "+
		"UNION ALL SELECT MAX(started) FROM stale_periods WHERE span = ?) AS newest", period.Hour, period.Hour)
	if err := l.rows(ctx, q, func(rows *sql.Rows) error { return rows.Scan(&newest) }); err != nil {
		return 0, fmt.Errorf("read which hour is the newest: %w", err)
	}
	return newest, nil
}

// markPassed has the days added up of hours that are apart and have passed.
func (l *Ledger) markPassed(ctx context.Context, newest int64) error {
	day := fmt.Sprintf("started - started %% %d", period.Day)
	// The order is that of finish.compare: two ledgers wait for each other otherwise.
	_, err := l.exec(ctx, fmt.Sprintf("INSERT INTO stale_periods (%s) SELECT DISTINCT %d, %s, cluster, namespace, set_name "+
		"FROM usage_periods WHERE apart = 1 AND span = %d AND started < %d ORDER BY 3, 4, 5, 2 ON CONFLICT DO NOTHING",
		unitColumns, period.Day, day, period.OfSets(period.Hour), newest))
	if err != nil {
		return fmt.Errorf("mark the days of hours that have passed: %w", err)
	}
	return nil
}

// remove deletes the rows of a unit, and says whether those that replace them are apart: as the former ones were, or, if there
// are none, as is said.
func remove(ctx context.Context, tx *sql.Tx, table string, u unit, apart bool) (bool, error) {
	// What is told is what the row has when it goes: another ledger may have added up the day meanwhile.
	rows, err := tx.QueryContext(ctx, "DELETE FROM "+table+" WHERE "+isUnit+" RETURNING apart", u.values()...)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	for rows.Next() {
		var was int
		if err := rows.Scan(&was); err != nil {
			return false, err
		}
		apart = was != 0
	}
	return apart, rows.Err()
}

// join ends that hours are apart which have passed, before the day that has them is added up. It comes first, so that hours that
// another ledger writes meanwhile are either read or apart.
func join(ctx context.Context, tx *sql.Tx, table string, day unit, newest int64) error {
	for _, of := range []func(int64) int64{period.OfKinds, period.OfWorkflows, period.OfSets} {
		_, err := tx.ExecContext(ctx, "UPDATE "+table+" SET apart = 0 WHERE cluster = $1 AND namespace = $2 AND set_name = $3 AND "+
			"apart = 1 AND span = $4 AND started >= $5 AND started < $6", day.cluster, day.namespace, day.set, of(period.Hour),
			day.started, min(newest, day.started+day.span))
		if err != nil {
			return err
		}
	}
	return nil
}

// apart is the condition for the hours that are apart from longer periods, empty if there are none of these. of is what the
// sums are of.
func apart(parts []period.Part, of func(int64) int64) (condition string, values []any) {
	from, to := int64(period.Latest), int64(0)
	for _, part := range parts {
		if part.Span > period.Hour {
			from, to = min(from, part.From), max(to, part.To)
		}
	}
	if from >= to {
		return "", nil
	}
	return "(apart = 1 AND span = ? AND started >= ? AND started < ?)", []any{of(period.Hour), from, to}
}

// flag is a truth as both databases have it.
func flag(is bool) int {
	if is {
		return 1
	}
	return 0
}
