package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// Gap is a time in which nobody looked: jobs that began and whose runners were gone within it are in no row.
type Gap struct {
	Cluster string    `json:"cluster"`
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	// Reason is one of the Gap… words.
	Reason string `json:"reason"`
}

// Why there is a gap.
const (
	// GapStopped: no ledger ran.
	GapStopped = "Stopped"
	// GapClockSetBack: the clock was earlier than at the last run of a ledger, so the length of the gap is not known; the
	// times are the two that were read.
	GapClockSetBack = "ClockSetBack"
	// GapOverflow: the database was away, or its disk full, for so long that more reports came than are remembered.
	GapOverflow = "Overflow"
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

// MaxGaps bounds the answer of Gaps.
const MaxGaps = 1000

// Gaps returns the gaps that overlap with a time, the youngest first.
func (l *Ledger) Gaps(ctx context.Context, filter Filter) ([]Gap, error) {
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
	q.add(" ORDER BY started DESC LIMIT ?", MaxGaps)
	gaps := []Gap{}
	err := l.rows(ctx, q, func(rows *sql.Rows) error {
		var gap Gap
		var from, to sql.NullInt64
		err := rows.Scan(&gap.Cluster, &from, &to, &gap.Reason)
		gap.From, gap.To = timeOf(from), timeOf(to)
		gaps = append(gaps, gap)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read gaps: %w", err)
	}
	return gaps, nil
}

// Beat writes the heartbeat: the ledger of a cluster looks at this moment.
func (l *Ledger) Beat(ctx context.Context, cluster string, now time.Time) error {
	_, err := l.exec(ctx,
		"INSERT INTO heartbeats (cluster, at) VALUES ($1, $2) ON CONFLICT (cluster) DO UPDATE SET at = excluded.at",
		Clean(cluster), seconds(now))
	return err
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
