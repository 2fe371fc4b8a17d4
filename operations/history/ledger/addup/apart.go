package addup

import (
	"context"
	"database/sql"

	"github.com/harrier-ci/harrier/operations/history/ledger/period"
)

// The sums of an hour are apart until its day has them, and a question about the day reads both. So the newest hour, which
// changes each minute, has no day, week and four weeks added up again each minute, which would take most of what the ledger
// takes of a CPU: a day has up to 24 times the rows of an hour. No clock is asked: an hour has passed when there is a later one.

// isJoined leaves out the hours that are apart.
const isJoined = " AND apart = 0"

// deleteFrom is what a statement begins with that removes rows of a table.
const deleteFrom = "DELETE FROM "

// remove deletes the rows of a unit, and says whether those that replace them are apart: as the former ones were, or, if there
// are none, as is said.
func remove(ctx context.Context, tx *sql.Tx, table string, u Unit, apart bool) (bool, error) {
	// What is told is what the row has when it goes: another ledger may have added up the day meanwhile.
	rows, err := tx.QueryContext(ctx, deleteFrom+table+" WHERE "+isUnit+" RETURNING apart", u.values()...)
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
func join(ctx context.Context, tx *sql.Tx, table string, day Unit, newest int64) error {
	const update, where = "UPDATE ", " SET apart = 0 WHERE cluster = $1 AND namespace = $2 AND set_name = $3 AND apart = 1 AND " +
		"span = $4 AND started >= $5 AND started < $6"
	for _, of := range []func(int64) int64{period.OfKinds, period.OfWorkflows, period.OfSets} {
		_, err := tx.ExecContext(ctx, update+table+where, day.Cluster, day.Namespace, day.Set, of(period.Hour),
			day.Started, min(newest, day.Started+day.Span))
		if err != nil {
			return err
		}
	}
	return nil
}

// Apart is the condition for the hours that are apart from longer periods, empty if there are none of these. of is what the
// sums are of.
func Apart(parts []period.Part, of func(int64) int64) (condition string, values []any) {
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
