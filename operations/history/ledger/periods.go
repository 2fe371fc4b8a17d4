package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/harrier-ci/harrier/operations/history/ledger/addup"
	"github.com/harrier-ci/harrier/operations/history/ledger/period"
)

const (
	// unitsAtATime bounds the units that are held in memory.
	unitsAtATime = 1000
	// shortTransaction is when a transaction takes no further unit.
	shortTransaction = 100 * time.Millisecond
)

// AddUp adds up the periods whose jobs have changed since the last AddUp, also periods that are not over. Until then
// questions about many jobs have their former answers. The newest hour changes each minute, and stays apart from the longer
// periods until a later one begins.
func (l *Ledger) AddUp(ctx context.Context) error {
	newest, err := l.newestHour(ctx)
	if err != nil {
		return err
	}
	if err := l.markPassed(ctx, newest); err != nil {
		return err
	}
	return l.each(ctx, "stale_periods", func(ctx context.Context, tx *sql.Tx, u addup.Unit) error {
		return addup.Write(ctx, tx, u, addup.Jobs{Query: selectJobs, Scan: scanJob}, newest)
	})
}

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
	// The order is that of addup.Finish.Compare: two ledgers wait for each other otherwise.
	_, err := l.exec(ctx, fmt.Sprintf("INSERT INTO stale_periods (%s) SELECT DISTINCT %d, %s, cluster, namespace, set_name "+
		"FROM usage_periods WHERE apart = 1 AND span = %d AND started < %d ORDER BY 3, 4, 5, 2 ON CONFLICT DO NOTHING",
		addup.UnitColumns, period.Day, day, period.OfSets(period.Hour), newest))
	if err != nil {
		return fmt.Errorf("mark the days of hours that have passed: %w", err)
	}
	return nil
}

// Fold brings the periods in order that were written before there was a limit of kinds. Until none is left, questions
// are answered from what they have.
func (l *Ledger) Fold(ctx context.Context) error { return l.each(ctx, "unfolded_periods", addup.Fold) }

// each does something with each unit that a table has, in a transaction with which the unit's row goes: the youngest
// of each span first, and some of each span in turn, so that a heap of old ones keeps no young one waiting. What fails
// for one unit is tried again the next time, and stops no other one.
func (l *Ledger) each(ctx context.Context, table string, do func(context.Context, *sql.Tx, addup.Unit) error) error {
	begin, cancel := half(ctx)
	defer cancel()
	failed := map[addup.Unit]error{}
	for progress := true; progress && begin.Err() == nil && len(failed) < unitsAtATime; {
		progress = false
		for _, span := range period.Spans {
			units, err := l.marked(ctx, table, span, unitsAtATime+len(failed))
			if err != nil {
				return err
			}
			units = slices.DeleteFunc(units, func(u addup.Unit) bool { return failed[u] != nil })
			for begin.Err() == nil && len(units) > 0 {
				done, err := l.together(ctx, table, units, do)
				if err != nil { // one of them is to blame, and only that one
					done, err = l.together(ctx, table, units[:1], do)
				}
				if err != nil {
					u := units[0]
					failed[u] = fmt.Errorf("add up the jobs of scale set %s/%s since %s: %w", u.Namespace, u.Set,
						time.Unix(u.Started, 0).UTC().Format(time.RFC3339), err)
					done = 1
				}
				progress = progress || err == nil
				units = units[done:]
			}
		}
	}
	return errors.Join(append(slices.Collect(maps.Values(failed)), ctx.Err())...)
}

// marked returns the youngest units of a span that a table has.
func (l *Ledger) marked(ctx context.Context, table string, span int64, most int) (units []addup.Unit, err error) {
	q := &query{}
	q.add("SELECT " + addup.UnitColumns + " FROM " + table)
	q.and("span = ?", span)
	q.add(" ORDER BY started DESC LIMIT ?", most)
	if err := l.rows(ctx, q, func(rows *sql.Rows) error {
		var u addup.Unit
		err := rows.Scan(&u.Span, &u.Started, &u.Cluster, &u.Namespace, &u.Set)
		units = append(units, u)
		return err
	}); err != nil {
		return nil, fmt.Errorf("read which periods have changed: %w", err)
	}
	slices.SortFunc(units, func(a, b addup.Unit) int { return a.Begin().Compare(b.Begin()) })
	return units, nil
}

// together does something with units in one transaction, until shortTransaction has passed: each commit waits for the
// disk, and each transaction makes writers wait. It returns how many it has done.
func (l *Ledger) together(
	ctx context.Context, table string, units []addup.Unit, do func(context.Context, *sql.Tx, addup.Unit) error,
) (done int, err error) {
	err = l.transaction(ctx, func(ctx context.Context, tx *sql.Tx) error {
		began := time.Now()
		for done < len(units) && time.Since(began) < shortTransaction {
			if err := addup.Take(ctx, tx, table, units[done], do); err != nil {
				return err
			}
			done++
		}
		return nil
	})
	return done, err
}
