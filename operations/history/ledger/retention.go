package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/operations/history/ledger/addup"
)

const (
	// Samples are kept for keepSamples: for a strip of the last day, in any time zone, and of the day before to compare it
	// with.
	keepSamples = 49 * time.Hour
	// Days are made of hours of trends, which is over when no job ends late any more. Without that an hour of a job that is
	// run once would have two rows for 90 days.
	keepTrendHours = 8 * 24 * time.Hour
	// A statement deletes atATime rows at most, so that no reader or writer waits long.
	atATime = 5000
	// pagesAtATime limits SQLite's free pages (4 KiB) that are given back in one step, and so the time in which nothing
	// can be written.
	pagesAtATime = 2000
)

// Expire deletes what is older than the retention, and gives space back. A job has the age of its start, gaps and
// periods that of their end. Samples go after keepSamples. Another cluster whose ledger lives keeps its rows until that
// one deletes them by its own clock.
func (l *Ledger) Expire(ctx context.Context, cluster string, now time.Time, retention time.Duration) (deleted int64,
	err error) {
	begin, cancel := half(ctx)
	defer cancel()
	living, err := l.living(ctx, Clean(cluster), now)
	if err != nil {
		return 0, err
	}
	ofOthers, values := "", []any{nil}
	for _, other := range living {
		values = append(values, other)
		ofOthers += fmt.Sprintf(", $%d", len(values))
	}
	if ofOthers != "" {
		ofOthers = " AND cluster NOT IN (" + strings.TrimPrefix(ofOthers, ", ") + ")"
	}
	oldest := now.Add(-retention).Unix()
	for _, table := range []struct {
		name, key, condition string
		before               int64
	}{
		{"jobs", "runner_uid", "at < $1", oldest},
		{"samples", "cluster, namespace, set_name, at", "at < $1", now.Add(-keepSamples).Unix()},
		{"gaps", "cluster, started", "ended < $1", oldest},
		{"usage_periods", "span, started, cluster, namespace, set_name, repository, workflow, job_name",
			"started + ABS(span) <= $1", oldest},
		{"trend_periods", addup.UnitColumns + ", property, position", "started + span <= $1", oldest},
		{"trend_periods", addup.UnitColumns + ", property, position", "span = 3600 AND apart = 0 AND started < $1", now.Add(-keepTrendHours).Unix()},
		{"stale_periods", addup.UnitColumns, "started + span <= $1", oldest},
		{"unfolded_periods", addup.UnitColumns, "started + span <= $1", oldest},
		{"writers", "writer", "at < $1", oldest},
		{"scale_sets", "cluster, namespace, set_name", "at < $1", oldest},
	} {
		for begin.Err() == nil {
			values[0] = table.before
			result, err := l.exec(ctx,
				fmt.Sprintf("DELETE FROM %[1]s WHERE (%[2]s) IN (SELECT %[2]s FROM %[1]s WHERE %[3]s%[4]s LIMIT %[5]d)",
					table.name, table.key, table.condition, ofOthers, atATime), values...)
			if err != nil {
				return deleted, fmt.Errorf("delete what is older than the retention from table %s: %w", table.name, err)
			}
			rows, err := result.RowsAffected()
			if err != nil {
				return deleted, err
			}
			deleted += rows
			if rows < atATime {
				break
			}
		}
	}
	if !l.db.Embedded {
		return deleted, nil // PostgreSQL vacuums by itself
	}
	return deleted, l.giveBack(ctx, begin)
}

// giveBack shortens SQLite's file by its free pages.
func (l *Ledger) giveBack(ctx, begin context.Context) error {
	for begin.Err() == nil {
		before, err := l.freePages(ctx)
		if err != nil {
			return err
		}
		if before > 0 {
			if _, err := l.exec(ctx, fmt.Sprintf("PRAGMA incremental_vacuum(%d)", pagesAtATime)); err != nil {
				return fmt.Errorf("give back free pages of the database: %w", err)
			}
		}
		after, err := l.freePages(ctx)
		if err != nil {
			return err
		}
		if after == 0 || after >= before {
			break
		}
	}
	_, err := l.exec(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	if err != nil {
		return fmt.Errorf("write the log of the database back into its file: %w", err)
	}
	return nil
}

func (l *Ledger) freePages(ctx context.Context) (pages int64, err error) {
	q := &query{}
	q.add("PRAGMA freelist_count")
	if err := l.rows(ctx, q, func(rows *sql.Rows) error { return rows.Scan(&pages) }); err != nil {
		return 0, fmt.Errorf("count the free pages of the database: %w", err)
	}
	return pages, nil
}
