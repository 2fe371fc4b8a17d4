package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// Sample is the state of a scale set from a moment on, until its next sample or a gap.
type Sample struct {
	Cluster   string    `json:"cluster"`
	Namespace string    `json:"namespace"`
	Set       string    `json:"set"`
	At        time.Time `json:"at"`
	// Running and Idle are runners with and without a job; Waiting are jobs without a runner.
	Running int64 `json:"running"`
	Idle    int64 `json:"idle"`
	Waiting int64 `json:"waiting"`
	// EffectiveMax is the number of runners that were allowed, nil for no limit.
	EffectiveMax *int64 `json:"effectiveMax,omitempty"`
	// LimitedReason is one word for what kept the set from having more runners, empty if nothing did.
	LimitedReason string `json:"limitedReason,omitempty"`
}

// PutSamples writes samples, one for each set and moment.
func (l *Ledger) PutSamples(ctx context.Context, samples []Sample) error {
	return l.transaction(ctx, func(ctx context.Context, tx *sql.Tx) error {
		for i := range samples {
			s := &samples[i]
			if seconds(s.At) == nil {
				continue
			}
			if _, err := tx.ExecContext(ctx,
				"INSERT INTO samples (cluster, namespace, set_name, at, running, idle, waiting, effective_max, "+
					"limited_reason) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING", Clean(s.Cluster),
				Clean(s.Namespace), Clean(s.Set),
				seconds(s.At), s.Running, s.Idle, s.Waiting, value(&s.EffectiveMax), Clean(s.LimitedReason)); err != nil {
				return fmt.Errorf("write a sample of scale set %s/%s: %w", s.Namespace, s.Set, err)
			}
		}
		return nil
	})
}

// MaxSamples bounds the answer of Samples, at 150 B each: a set that changes each minute has 1,440 a day.
const MaxSamples = 50_000

// SampleInterval is the longest time without a sample of a set that doesn't change.
const SampleInterval = time.Hour

const selectSamples = "SELECT cluster, namespace, set_name, at, running, idle, waiting, effective_max, " +
	"limited_reason FROM samples"

// Samples returns the samples of the filter's sets and time, by set and time. The first sample of a set is older than
// the time, if there is such a sample: it has the state of the set at the beginning of the time.
func (l *Ledger) Samples(ctx context.Context, filter Filter) ([]Sample, error) {
	q := &query{}
	q.add(selectSamples)
	for _, condition := range []struct{ column, value string }{
		{"cluster", filter.Cluster}, {"namespace", filter.Namespace}, {"set_name", filter.Set},
	} {
		if condition.value != "" {
			q.and(condition.column+" = ?", Clean(condition.value))
		}
	}
	from := filter.From
	if !from.IsZero() {
		from = from.Add(-SampleInterval)
	}
	q.between("at", from, filter.To)
	q.add(" ORDER BY cluster, namespace, set_name, at LIMIT ?", MaxSamples)
	samples, err := l.samples(ctx, q)
	kept := samples[:0]
	for i := range samples {
		if last := len(kept) - 1; last >= 0 && kept[last].sameSet(&samples[i]) && !samples[i].At.After(filter.From) {
			kept[last] = samples[i] // still before the time
		} else {
			kept = append(kept, samples[i])
		}
	}
	return kept, err
}

func (s *Sample) sameSet(other *Sample) bool {
	return s.Cluster == other.Cluster && s.Namespace == other.Namespace && s.Set == other.Set
}

// Sets returns the last sample since a time of each set that has one.
func (l *Ledger) Sets(ctx context.Context, since time.Time) ([]Sample, error) {
	all, err := l.Samples(ctx, Filter{From: since})
	sets := []Sample{}
	for i := range all {
		if last := len(sets) - 1; last >= 0 && sets[last].sameSet(&all[i]) {
			sets[last] = all[i]
		} else {
			sets = append(sets, all[i])
		}
	}
	return sets, err
}

func (l *Ledger) samples(ctx context.Context, q *query) ([]Sample, error) {
	samples := []Sample{}
	err := l.rows(ctx, q, func(rows *sql.Rows) error {
		var s Sample
		var at, most sql.NullInt64
		if err := rows.Scan(&s.Cluster, &s.Namespace, &s.Set, &at, &s.Running, &s.Idle, &s.Waiting, &most,
			&s.LimitedReason); err != nil {
			return err
		}
		s.At = timeOf(at)
		if most.Valid {
			s.EffectiveMax = &most.Int64
		}
		if last := len(samples) - 1; last >= 0 && samples[last].sameSet(&s) {
			// One text in memory for all of them.
			s.Cluster, s.Namespace, s.Set = samples[last].Cluster, samples[last].Namespace, samples[last].Set
		}
		samples = append(samples, s)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read samples of scale sets: %w", err)
	}
	return samples, nil
}

// Looks reports whether a set is in the same state as in another sample.
func (s *Sample) Looks(as *Sample) bool {
	sameMax := (s.EffectiveMax == nil) == (as.EffectiveMax == nil) &&
		(s.EffectiveMax == nil || *s.EffectiveMax == *as.EffectiveMax)
	return sameMax && s.Running == as.Running && s.Idle == as.Idle && s.Waiting == as.Waiting &&
		s.LimitedReason == as.LimitedReason
}
