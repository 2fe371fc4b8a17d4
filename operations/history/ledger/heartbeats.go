package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/harrier-ci/harrier/operations/history/rows"
)

// Gap is a time in which nobody looked.
type Gap = rows.Gap

// Why there is a gap.
const (
	GapStopped      = rows.GapStopped
	GapClockSetBack = rows.GapClockSetBack
	GapOverflow     = rows.GapOverflow
)

// PutGap writes a gap. One that begins at the same moment is made longer.
func (l *Ledger) PutGap(ctx context.Context, gap Gap) error {
	from, to := seconds(gap.From), seconds(gap.To)
	if from == nil || to == nil {
		return nil
	}
	_, err := l.exec(ctx,
		"INSERT INTO gaps (cluster, started, ended, reason) VALUES ($1, $2, $3, $4) ON CONFLICT (cluster, started) "+
			"DO UPDATE SET ended = CASE WHEN excluded.ended > gaps.ended THEN excluded.ended ELSE gaps.ended END",
		Clean(gap.Cluster), from, to, Clean(gap.Reason))
	if err != nil {
		return fmt.Errorf("write a gap: %w", err)
	}
	return nil
}

// MaxGaps bounds the answer of Gaps: a page, if there are more.
const MaxGaps = 1000

// Gaps returns the gaps that overlap with a time, the youngest first.
func (l *Ledger) Gaps(ctx context.Context, filter Filter) (Part[Gap], error) {
	q := &query{}
	q.add("SELECT cluster, started, ended, reason FROM gaps")
	if filter.Cluster != "" {
		q.and("cluster = ?", Clean(filter.Cluster))
	}
	if !filter.From.IsZero() {
		q.and("ended >= ?", filter.From.Unix())
	}
	if !filter.To.IsZero() {
		q.and("started < ?", filter.To.Unix())
	}
	page, err := read(ctx, l, q, "started DESC, cluster", &filter, MaxGaps, func(rows *sql.Rows) (gap Gap, err error) {
		var from, to sql.NullInt64
		err = rows.Scan(&gap.Cluster, &from, &to, &gap.Reason)
		gap.From, gap.To = timeOf(from), timeOf(to)
		return gap, err
	})
	if err != nil {
		return page, fmt.Errorf("read gaps: %w", err)
	}
	return page, nil
}

// A time in which nobody looked is a gap if it is longer than gapGrace: ten seconds pass between two heartbeats, and a
// busy database may be late.
const gapGrace = 30 * time.Second

// Begin writes the gap since the ledger of a cluster last looked, if there is one, and the first heartbeat. It returns
// the gap.
func (l *Ledger) Begin(ctx context.Context, cluster string, now time.Time) (*Gap, error) {
	q := &query{}
	q.add("SELECT at FROM heartbeats")
	q.and("cluster = ?", Clean(cluster))
	var last sql.NullInt64
	if err := l.rows(ctx, q, func(rows *sql.Rows) error { return rows.Scan(&last) }); err != nil {
		return nil, fmt.Errorf("read when the ledger last ran: %w", err)
	}
	gap := gapSince(cluster, timeOf(last), now)
	if gap != nil {
		if err := l.PutGap(ctx, *gap); err != nil {
			return nil, err
		}
	}
	return gap, l.Beat(ctx, cluster, now)
}

func gapSince(cluster string, last, now time.Time) *Gap {
	switch {
	case last.IsZero():
		return nil
	case now.Before(last.Add(-gapGrace)):
		return &Gap{Cluster: cluster, From: now, To: last, Reason: GapClockSetBack}
	case now.After(last.Add(gapGrace)):
		return &Gap{Cluster: cluster, From: last, To: now, Reason: GapStopped}
	}
	return nil
}

// The clock has jumped if it is maxBack or more before the last heartbeat, or maxForth after it: then it is wrong, or was,
// or no ledger ran. It is believed again when it has gone on for holds.
const (
	maxBack  = time.Minute
	maxForth = 15 * time.Minute
	holds    = time.Hour
)

// ErrClockUnproven reports that nothing was deleted because of its age, as nobody can know that yet.
var ErrClockUnproven = errors.New("the clock contradicts the last heartbeat in the database, or did within the last hour")

// living returns the other clusters whose heartbeats have gone on since the last call, at first all that have one, or
// ErrClockUnproven. A database without any heartbeat has nothing that contradicts the clock.
func (l *Ledger) living(ctx context.Context, cluster string, now time.Time) ([]string, error) {
	q := &query{}
	q.add("SELECT cluster, at, steady FROM heartbeats")
	beats, proven := map[string]int64{}, false
	if err := l.rows(ctx, q, func(rows *sql.Rows) error {
		var of string
		var at, steady int64
		err := rows.Scan(&of, &at, &steady)
		beats[of] = at
		if passed := now.Sub(time.Unix(at, 0)); of == cluster {
			proven = passed >= -maxBack && passed <= maxForth && now.Sub(time.Unix(steady, 0)) >= holds
		}
		return err
	}); err != nil {
		return nil, fmt.Errorf("read when ledgers last ran: %w", err)
	}
	if len(beats) > 0 && !proven {
		return nil, ErrClockUnproven
	}
	former := l.beats
	l.beats = maps.Clone(beats)
	delete(beats, cluster)
	maps.DeleteFunc(beats, func(of string, at int64) bool { return former[of] == at })
	return slices.Sorted(maps.Keys(beats)), nil
}

// Beat writes the heartbeat: the ledger of a cluster looks at this moment, and all that it has seen is written.
func (l *Ledger) Beat(ctx context.Context, cluster string, now time.Time) error {
	if seconds(now) == nil {
		return fmt.Errorf("the clock shows %s, which no database keeps", now)
	}
	l.began.CompareAndSwap(0, now.Unix())
	return l.transaction(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "INSERT INTO heartbeats (cluster, at, steady) VALUES ($1, $2, $2) "+
			"ON CONFLICT (cluster) DO UPDATE SET at = excluded.at, steady = CASE WHEN excluded.at >= heartbeats.at - $3 "+
			"AND excluded.at <= heartbeats.at + $4 THEN heartbeats.steady ELSE excluded.at END",
			Clean(cluster), now.Unix(), int64(maxBack.Seconds()), int64(maxForth.Seconds())); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO writers (writer, cluster, began, at) VALUES ($1, $2, $3, $4) "+
			"ON CONFLICT (writer) DO UPDATE SET at = excluded.at", l.writer, Clean(cluster), l.began.Load(), now.Unix())
		return err
	})
}

// Stop writes that the ledger of a cluster has written all that it saw, and looks no longer: whoever begins after it
// need not wait until it has been silent.
func (l *Ledger) Stop(ctx context.Context, cluster string, now time.Time) error {
	if err := l.Beat(ctx, cluster, now); err != nil {
		return err
	}
	_, err := l.exec(ctx, "UPDATE writers SET ended = $1 WHERE writer = $2", now.Unix(), l.writer)
	return err
}
