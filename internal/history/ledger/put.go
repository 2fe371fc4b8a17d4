package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// upsert writes a job, and makes it one row with what was written before.
var upsert = func() string {
	names, places, merges := make([]string, len(columns)), make([]string, len(columns)), []string{}
	for i, column := range columns {
		names[i], places[i] = column.name, fmt.Sprintf("$%d", i+1)
		if column.rule != "" {
			merges = append(merges, column.name+" = "+fmt.Sprintf(string(column.rule), column.name))
		}
	}
	return "INSERT INTO jobs (" + strings.Join(names, ", ") + ") VALUES (" + strings.Join(places, ", ") +
		") ON CONFLICT (runner_uid) DO UPDATE SET " + strings.Join(merges, ", ") + " RETURNING finished"
}()

// Put writes what is known of jobs, all of it or nothing. Jobs without a runner's UID or a time are not written.
func (l *Ledger) Put(ctx context.Context, jobs []Job) error {
	if len(jobs) == 0 {
		return nil
	}
	return l.transaction(ctx, func(tx *sql.Tx) error {
		statement, err := tx.PrepareContext(ctx, upsert)
		if err != nil {
			return err
		}
		defer statement.Close()
		// Two ledgers that write the same rows must do so in the same order, or they wait for each other.
		jobs := slices.SortedFunc(slices.Values(jobs),
			func(a, b Job) int { return strings.Compare(a.RunnerUID, b.RunnerUID) })
		stale := map[int64]bool{}
		values := make([]any, len(columns))
		for i := range jobs {
			if jobs[i].RunnerUID == "" || seconds(jobs[i].At) == nil {
				continue
			}
			for c := range columns {
				values[c] = value(columns[c].field(&jobs[i]))
			}
			var finished sql.NullInt64
			if err := statement.QueryRowContext(ctx, values...).Scan(&finished); err != nil {
				return fmt.Errorf("write the job of runner %s/%s: %w", jobs[i].Namespace, jobs[i].Runner, err)
			}
			if finished.Valid {
				stale[finished.Int64] = true
			}
		}
		return markStale(ctx, tx, stale)
	})
}

// markStale has the periods added up again in which jobs have finished at these times.
func markStale(ctx context.Context, tx *sql.Tx, finished map[int64]bool) error {
	for _, span := range []int64{hour, day} {
		periods := map[int64]bool{}
		for at := range finished {
			periods[at-at%span] = true
		}
		for _, started := range slices.Sorted(maps.Keys(periods)) {
			_, err := tx.ExecContext(ctx, "INSERT INTO stale_periods (span, started) VALUES ($1, $2) ON CONFLICT DO NOTHING",
				span, started)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// Running returns the UIDs of the runners of a cluster whose jobs have not finished, as far as the ledger knows.
func (l *Ledger) Running(ctx context.Context, cluster string) (uids []string, err error) {
	q := &query{}
	q.add("SELECT runner_uid FROM jobs")
	q.and("finished IS NULL")
	q.and("cluster = ?", cluster)
	err = l.rows(ctx, q, func(rows *sql.Rows) error {
		var uid string
		err := rows.Scan(&uid)
		uids = append(uids, uid)
		return err
	})
	return uids, err
}

// Gone writes that runners are gone whose jobs have not finished as far as the ledger knows: how they ended will never
// be known.
func (l *Ledger) Gone(ctx context.Context, uids []string, at time.Time) error {
	return l.transaction(ctx, func(tx *sql.Tx) error {
		stale := map[int64]bool{}
		for _, uid := range slices.Sorted(slices.Values(uids)) {
			result, err := tx.ExecContext(ctx, "UPDATE jobs SET finished = $1, result = CASE WHEN result = '' THEN '"+
				ResultUnknown+
				"' ELSE result END WHERE runner_uid = $2 AND finished IS NULL", seconds(at), uid)
			if err != nil {
				return fmt.Errorf("write that the runner with UID %s is gone: %w", uid, err)
			}
			if changed, err := result.RowsAffected(); err != nil {
				return err
			} else if changed > 0 {
				stale[at.Unix()] = true
			}
		}
		return markStale(ctx, tx, stale)
	})
}
