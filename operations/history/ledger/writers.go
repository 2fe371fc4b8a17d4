package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/operations/history/fold"
	"github.com/harrier-ci/harrier/operations/history/ledger/addup"
)

// MaxSets is how many scale sets of a namespace are told apart, and sampled.
const MaxSets = addup.MaxSets

// A writer is a ledger that runs, or ran. Whoever wrote a row ends it: another ledger may see another cluster of the
// same name, or nothing at all. GitHub's word about a job may come from anybody.
type writer struct {
	name string
	// began is its first sign of life and at the last one, each 0 if there is none; ended is when it stopped as it
	// should, 0 if it hasn't.
	began, at, ended int64
}

const (
	// A writer is silent if it has given no sign of life for so long. It gives one every ten seconds, and a database may be
	// away.
	silence = 15 * time.Minute
	// Rows of a writer that has been silent for adoptionAge go over to a ledger that sees their runners. That is so much
	// shorter than silence that a ledger which looks every ten minutes has them before one that sees nothing may end them.
	adoptionAge = 2 * time.Minute
	// A sign of life that is further ahead than maxAhead says nothing: its clock was wrong.
	maxAhead = time.Hour
)

// silentFor reports whether the writer has given no sign of life for a time.
func (w *writer) silentFor(now time.Time, long time.Duration) bool {
	at := time.Unix(w.at, 0)
	return w.at == 0 || now.Sub(at) >= long || at.Sub(now) > maxAhead
}

// mayEnd reports whether the writer may end rows of another one. One that has stopped leaves them to those who began
// later; whoever runs beside it can't know whether a successor comes.
func (w *writer) mayEnd(rows *writer, now time.Time) bool {
	began := cmp.Or(w.began, now.Unix())
	return rows.name == w.name || rows.silentFor(now, silence) || rows.ended != 0 && rows.ended <= began
}

// self is the writer of this ledger.
func (l *Ledger) self() writer { return writer{name: l.writer, began: l.began.Load()} }

const (
	writerColumns = "jobs.writer, COALESCE(writers.began, 0), COALESCE(writers.at, 0), COALESCE(writers.ended, 0)"
	withWriters   = " FROM jobs LEFT JOIN writers ON writers.writer = jobs.writer"
)

func (w *writer) fields() []any { return []any{&w.name, &w.began, &w.at, &w.ended} }

// Running returns the UIDs of the runners of a cluster whose jobs have not finished, as far as the ledger knows; of one
// namespace, or of all if it is empty.
func (l *Ledger) Running(ctx context.Context, cluster, namespace string) (uids []string, err error) {
	q := &query{}
	q.add("SELECT runner_uid FROM jobs")
	q.and("finished IS NULL")
	q.and("cluster = ?", Clean(cluster))
	if namespace != "" {
		q.and("namespace = ?", Clean(namespace))
	}
	err = l.rows(ctx, q, func(rows *sql.Rows) error {
		var uid string
		err := rows.Scan(&uid)
		uids = append(uids, uid)
		return err
	})
	return uids, err
}

// Orphans returns the UIDs of the runners of a cluster whose jobs run as far as the ledger knows, and whose rows another
// ledger has written that looks no longer.
func (l *Ledger) Orphans(ctx context.Context, cluster string, now time.Time) (uids []string, err error) {
	q := &query{}
	q.add("SELECT jobs.runner_uid, " + writerColumns + withWriters)
	q.and("jobs.finished IS NULL")
	q.and("jobs.cluster = ?", Clean(cluster))
	q.and("jobs.writer <> ?", l.writer)
	err = l.rows(ctx, q, func(rows *sql.Rows) error {
		var uid string
		var of writer
		err := rows.Scan(append([]any{&uid}, of.fields()...)...)
		if of.ended != 0 || of.silentFor(now, adoptionAge) {
			uids = append(uids, uid)
		}
		return err
	})
	return uids, err
}

// Adopt takes over the rows of jobs that run, by the UIDs of their runners, which this ledger must see.
func (l *Ledger) Adopt(ctx context.Context, uids []string) error {
	if len(uids) == 0 {
		return nil
	}
	return l.transaction(ctx, func(ctx context.Context, tx *sql.Tx) error {
		for _, uid := range slices.Sorted(slices.Values(uids)) {
			if _, err := tx.ExecContext(ctx, "UPDATE jobs SET writer = $1 WHERE runner_uid = $2 AND finished IS NULL", l.writer,
				uid); err != nil {
				return fmt.Errorf("take over the job of the runner with UID %s: %w", uid, err)
			}
		}
		return nil
	})
}

// Gone writes that runners are gone whose jobs have not finished as far as the ledger knows, and whose end nobody has
// seen: it was some time after the last sign of life of the row's writer. Rows that another ledger may still end stay as
// they are.
func (l *Ledger) Gone(ctx context.Context, uids []string, now time.Time) error {
	return l.transaction(ctx, func(ctx context.Context, tx *sql.Tx) error {
		stale := map[addup.Finish]bool{}
		for _, uid := range slices.Sorted(slices.Values(uids)) {
			var of writer
			var began int64
			self := l.self()
			err := tx.QueryRowContext(ctx, "SELECT "+writerColumns+", COALESCE(jobs.started, jobs.at)"+withWriters+
				" WHERE jobs.runner_uid = $1 AND jobs.finished IS NULL", uid).Scan(append(of.fields(), &began)...)
			if errors.Is(err, sql.ErrNoRows) || err == nil && !self.mayEnd(&of, now) {
				continue
			}
			last := min(max(of.at, began), max(now.Unix(), began))
			end := addup.Finish{At: last}
			if err == nil {
				err = tx.QueryRowContext(ctx, "UPDATE jobs SET finished = $1, ending = '"+EndingUnseen+"', "+
					"result = CASE WHEN result = '' THEN '"+ResultUnknown+"' ELSE result END "+
					"WHERE runner_uid = $2 AND finished IS NULL RETURNING cluster, namespace, set_name", last, uid).
					Scan(&end.Cluster, &end.Namespace, &end.Set)
			}
			if errors.Is(err, sql.ErrNoRows) {
				continue
			}
			if err != nil {
				return fmt.Errorf("write that the runner with UID %s is gone: %w", uid, err)
			}
			stale[end] = true
		}
		return addup.MarkStale(ctx, tx, stale)
	})
}

// upsert writes a job, and merges it with the row that was written before.
var upsert = func() string {
	names, places := make([]string, len(jobColumns), len(jobColumns)+1), make([]string, len(jobColumns), len(jobColumns)+1)
	merges := []string{"writer = " + fmt.Sprintf(string(firstText), "writer")}
	for i, column := range jobColumns {
		names[i], places[i] = column.name, fmt.Sprintf("$%d", i+1)
		if column.rule != "" {
			merges = append(merges, column.name+" = "+fmt.Sprintf(string(column.rule), column.name))
		}
	}
	names, places = append(names, "writer"), append(places, fmt.Sprintf("$%d", len(jobColumns)+1))
	return "INSERT INTO jobs (" + strings.Join(names, ", ") + ") VALUES (" + strings.Join(places, ", ") +
		") ON CONFLICT (runner_uid) DO UPDATE SET " + strings.Join(merges, ", ") + " RETURNING cluster, namespace, set_name, finished"
}()

// Put writes jobs, all of them or none. Jobs without a runner's UID or a time are left out.
func (l *Ledger) Put(ctx context.Context, jobs []Job) error {
	if len(jobs) == 0 {
		return nil
	}
	return l.transaction(ctx, func(ctx context.Context, tx *sql.Tx) error {
		statement, err := tx.PrepareContext(ctx, upsert)
		if err != nil {
			return err
		}
		defer statement.Close()
		// Two ledgers that write the same rows must do so in the same order, or they wait for each other.
		jobs := slices.SortedFunc(slices.Values(jobs),
			func(a, b Job) int { return strings.Compare(a.RunnerUID, b.RunnerUID) })
		sets, err := registered(ctx, tx, jobs)
		if err != nil {
			return err
		}
		stale := map[addup.Finish]bool{}
		values := append(make([]any, len(jobColumns)), l.writer)
		for i := range jobs {
			if jobs[i].RunnerUID == "" || seconds(jobs[i].At) == nil {
				continue
			}
			jobs[i].Set = sets[setOf(&jobs[i])]
			former, moved, err := l.weigh(ctx, tx, &jobs[i])
			if err != nil {
				return fmt.Errorf("read who keeps the job of runner %s/%s: %w", jobs[i].Namespace, jobs[i].Runner, err)
			}
			if moved {
				stale[former] = true
			}
			for c := range jobColumns {
				values[c] = value(jobColumns[c].field(&jobs[i]))
			}
			var of addup.Finish
			var finished sql.NullInt64
			if err := statement.QueryRowContext(ctx, values...).Scan(&of.Cluster, &of.Namespace, &of.Set,
				&finished); err != nil {
				return fmt.Errorf("write the job of runner %s/%s: %w", jobs[i].Namespace, jobs[i].Runner, err)
			}
			if of.At = finished.Int64; finished.Valid {
				stale[of] = true
			}
		}
		return addup.MarkStale(ctx, tx, stale)
	})
}

// setOf returns the scale set of a job as the database has it.
func setOf(job *Job) addup.Finish {
	return addup.Finish{Cluster: Clean(job.Cluster), Namespace: Clean(job.Namespace), Set: Clean(job.Set)}
}

// registered returns the names that the jobs of scale sets count under: their own, or fold.Others for sets whose
// namespace has had MaxSets others within the retention.
func registered(ctx context.Context, tx *sql.Tx, jobs []Job) (map[addup.Finish]string, error) {
	latest := map[addup.Finish]int64{}
	for i := range jobs {
		set := setOf(&jobs[i])
		latest[set] = max(latest[set], jobs[i].At.Unix())
	}
	names := map[addup.Finish]string{}
	for _, set := range slices.SortedFunc(maps.Keys(latest), addup.Finish.Compare) {
		result, err := tx.ExecContext(ctx, "INSERT INTO scale_sets (cluster, namespace, set_name, at) "+
			"SELECT CAST($1 AS TEXT), CAST($2 AS TEXT), CAST($3 AS TEXT), CAST($4 AS BIGINT) WHERE "+
			"(SELECT COUNT(*) FROM scale_sets WHERE cluster = $1 AND namespace = $2) < $5 "+
			"OR EXISTS (SELECT 1 FROM scale_sets WHERE cluster = $1 AND namespace = $2 AND set_name = $3) "+
			"ON CONFLICT (cluster, namespace, set_name) DO UPDATE SET "+
			"at = CASE WHEN excluded.at > scale_sets.at THEN excluded.at ELSE scale_sets.at END",
			set.Cluster, set.Namespace, set.Set, latest[set], MaxSets)
		if err != nil {
			return nil, fmt.Errorf("write which scale sets have jobs: %w", err)
		}
		names[set] = set.Set
		if rows, err := result.RowsAffected(); err != nil {
			return nil, err
		} else if rows == 0 {
			names[set] = fold.Others
		}
	}
	return names, nil
}

// weigh leaves out of a report the end of a runner that this ledger has seen go, if another one keeps the row. It
// returns the end that the row has so far, if GitHub's word may take its place.
func (l *Ledger) weigh(ctx context.Context, tx *sql.Tx, job *Job) (former addup.Finish, moved bool, err error) {
	if job.Finished.IsZero() {
		return former, false, nil
	}
	var of writer
	var ended sql.NullInt64
	err = tx.QueryRowContext(ctx, "SELECT "+writerColumns+
		", jobs.cluster, jobs.namespace, jobs.set_name, jobs.finished"+withWriters+
		" WHERE jobs.runner_uid = $1 AND (jobs.finished IS NULL OR jobs.ending <> '')", Clean(job.RunnerUID)).
		Scan(append(of.fields(), &former.Cluster, &former.Namespace, &former.Set, &ended)...)
	if errors.Is(err, sql.ErrNoRows) {
		return former, false, nil
	}
	self := l.self()
	if job.Ending != "" && !ended.Valid && !self.mayEnd(&of, job.Finished) {
		job.Finished, job.Ending = time.Time{}, ""
		if job.Result == ResultUnknown {
			job.Result = ""
		}
	}
	former.At = ended.Int64
	return former, ended.Valid, err
}
