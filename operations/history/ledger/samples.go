package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"
)

// Sample is the state of a scale set from a minute on, until its next sample or a gap.
type Sample struct {
	Cluster   string    `json:"cluster"`
	Namespace string    `json:"namespace"`
	Set       string    `json:"set"`
	At        time.Time `json:"at"`
	// Running and Idle are runners with and without a job; Waiting are jobs without a runner. Running and Waiting are the
	// most in the minute, and all else is of its end.
	Running int64 `json:"running"`
	Idle    int64 `json:"idle"`
	Waiting int64 `json:"waiting"`
	// EffectiveMax is the number of runners that were allowed, nil for no limit.
	EffectiveMax *int64 `json:"effectiveMax,omitempty"`
	// LimitedReason is one word for what kept the set from having more runners, empty if nothing did.
	LimitedReason string `json:"limitedReason,omitempty"`
}

// PutSamples writes samples, one for each set and minute.
func (l *Ledger) PutSamples(ctx context.Context, samples []Sample) error {
	return l.transaction(ctx, func(ctx context.Context, tx *sql.Tx) error {
		for i := range samples {
			s := &samples[i]
			if seconds(s.At) == nil {
				continue
			}
			if _, err := tx.ExecContext(ctx,
				"INSERT INTO samples (cluster, namespace, set_name, at, running, idle, waiting, effective_max, "+
					"limited_reason) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) "+
					"ON CONFLICT (cluster, namespace, set_name, at) DO UPDATE SET idle = excluded.idle, "+
					"effective_max = excluded.effective_max, limited_reason = excluded.limited_reason, "+
					"running = CASE WHEN excluded.running > samples.running THEN excluded.running ELSE samples.running END, "+
					"waiting = CASE WHEN excluded.waiting > samples.waiting THEN excluded.waiting ELSE samples.waiting END",
				Clean(s.Cluster),
				Clean(s.Namespace), Clean(s.Set),
				seconds(s.At), s.Running, s.Idle, s.Waiting, value(&s.EffectiveMax), Clean(s.LimitedReason)); err != nil {
				return fmt.Errorf("write a sample of scale set %s/%s: %w", s.Namespace, s.Set, err)
			}
		}
		return nil
	})
}

// MaxSamples bounds an answer of Samples, at 150 B each: a set that changes each minute has 1,440 a day. If there are more,
// it is a page.
const MaxSamples = 50_000

// SampleInterval is the longest time without a sample of a set that doesn't change.
const SampleInterval = time.Hour

const sampleColumns = "cluster, namespace, set_name, at, running, idle, waiting, effective_max, limited_reason"

// ofSets adds the conditions that choose samples of a filter's sets and time, and of the time before it in which a set
// that hasn't changed since has one.
func (q *query) ofSets(filter *Filter) {
	q.same(&Filter{Cluster: filter.Cluster, Namespace: filter.Namespace, Set: filter.Set})
	from := filter.From
	if !from.IsZero() {
		from = from.Add(-SampleInterval)
	}
	q.between("at", from, filter.To)
}

// Samples returns the samples of the filter's sets and time, by set and time. The first sample of a set is older than
// the time, if there is such a sample: it has the state of the set at the beginning of the time.
func (l *Ledger) Samples(ctx context.Context, filter Filter) (Part[Sample], error) {
	q := &query{}
	q.add("SELECT " + sampleColumns + " FROM samples")
	q.ofSets(&filter)
	if from := filter.From; !from.IsZero() {
		q.and("(at > ? OR at = (SELECT MAX(first.at) FROM samples AS first WHERE first.cluster = samples.cluster AND "+
			"first.namespace = samples.namespace AND first.set_name = samples.set_name AND first.at <= ?))", from.Unix(), from.Unix())
	}
	var last Sample
	page, err := read(ctx, l, q, "cluster, namespace, set_name, at", &filter, MaxSamples,
		func(rows *sql.Rows) (s Sample, err error) {
			s, err = scanSample(rows)
			if last.sameSet(&s) { // one text in memory for all of them
				s.Cluster, s.Namespace, s.Set = last.Cluster, last.Namespace, last.Set
			}
			last = s
			return s, err
		})
	if err != nil {
		return page, fmt.Errorf("read samples of scale sets: %w", err)
	}
	return page, nil
}

// sampledSet is a scale set that has samples.
type sampledSet struct{ cluster, namespace, name string }

func (s *Sample) ofSet() sampledSet { return sampledSet{s.Cluster, s.Namespace, s.Set} }

func (s *Sample) sameSet(other *Sample) bool { return s.ofSet() == other.ofSet() }

// Present returns samples with those in their place, or beside them, that say how sets look at this moment, as far as the
// filter chooses them. They are ordered by set.
func Present(last, now []Sample, filter *Filter) []Sample {
	looks := map[sampledSet]Sample{}
	for i := range now {
		looks[now[i].ofSet()] = now[i]
	}
	present := make([]Sample, 0, len(last))
	for i := range last {
		if _, known := looks[last[i].ofSet()]; !known {
			present = append(present, last[i])
		}
	}
	for set, sample := range looks {
		if filter.place(set.cluster, set.namespace, set.name) && !sample.At.Before(filter.From) {
			present = append(present, sample)
		}
	}
	slices.SortStableFunc(present, func(a, b Sample) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Set, b.Set))
	})
	return present
}

// Sets returns the last sample of each of the filter's sets that has one in its time, of MaxSamples sets at most.
func (l *Ledger) Sets(ctx context.Context, filter Filter) ([]Sample, error) {
	q := &query{}
	q.add("SELECT " + sampleColumns + " FROM samples JOIN (SELECT cluster, namespace, set_name, MAX(at) AS at FROM samples")
	q.ofSets(&filter)
	q.add(" GROUP BY cluster, namespace, set_name) AS latest USING (cluster, namespace, set_name, at) "+
		"ORDER BY cluster, namespace, set_name LIMIT ?", MaxSamples)
	sets := []Sample{}
	err := l.rows(ctx, q, func(rows *sql.Rows) error {
		s, err := scanSample(rows)
		sets = append(sets, s)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read how scale sets look: %w", err)
	}
	return sets, nil
}

func scanSample(rows *sql.Rows) (s Sample, err error) {
	var at, most sql.NullInt64
	err = rows.Scan(&s.Cluster, &s.Namespace, &s.Set, &at, &s.Running, &s.Idle, &s.Waiting, &most, &s.LimitedReason)
	s.At = timeOf(at)
	if most.Valid {
		s.EffectiveMax = &most.Int64
	}
	return s, err
}

// Looks reports whether a set is in the same state as in another sample.
func (s *Sample) Looks(as *Sample) bool {
	sameMax := (s.EffectiveMax == nil) == (as.EffectiveMax == nil) &&
		(s.EffectiveMax == nil || *s.EffectiveMax == *as.EffectiveMax)
	return sameMax && s.Running == as.Running && s.Idle == as.Idle && s.Waiting == as.Waiting &&
		s.LimitedReason == as.LimitedReason
}
