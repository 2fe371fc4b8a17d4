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
	"github.com/harrier-ci/harrier/operations/history/ledger/period"
	"github.com/harrier-ci/harrier/operations/history/ledger/sums"
	"github.com/harrier-ci/harrier/operations/history/ledger/trends"
)

const (
	// At most maxKinds kinds of jobs of a scale set are kept in each period; further ones are folded. 20 sets that all
	// reach it have 10,000 rows in a period, and a question about any time reads 13 periods at most.
	maxKinds = 500
	// Trends are kept of half as many, by event and again by branch: with them a period has twice the rows.
	trendKinds = 2
	// Sets of one namespace have namespaceKinds together if there are more than 20 of them, and MaxSets of them are told
	// apart: whoever may create runners there makes up as many as he likes. With that, each keeps ten kinds.
	namespaceKinds = 20 * maxKinds
	// MaxSets is also how many scale sets of a namespace are sampled.
	MaxSets = 1000
)

// unit is what is added up at a time: a period of a scale set. Nothing that happens in one scale set makes adding up
// another one longer.
type unit struct {
	span, started           int64
	cluster, namespace, set string
}

const (
	unitColumns = "span, started, cluster, namespace, set_name"
	isUnit      = "span = $1 AND started = $2 AND cluster = $3 AND namespace = $4 AND set_name = $5"
	// unitsAtATime bounds the units that are held in memory.
	unitsAtATime = 1000
	// shortTransaction is when a transaction takes no further unit.
	shortTransaction = 100 * time.Millisecond
)

func (u unit) begin() finish { return finish{u.cluster, u.namespace, u.set, u.started} }

func (u unit) values() []any { return []any{u.span, u.started, u.cluster, u.namespace, u.set} }

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
	return l.each(ctx, "stale_periods", func(ctx context.Context, tx *sql.Tx, u unit) error { return addUp(ctx, tx, u, newest) })
}

// Fold brings the periods in order that were written before there was a limit of kinds. Until none is left, questions
// are answered from what they have.
func (l *Ledger) Fold(ctx context.Context) error { return l.each(ctx, "unfolded_periods", foldUp) }

// each does something with each unit that a table has, in a transaction with which the unit's row goes: the youngest
// of each span first, and some of each span in turn, so that a heap of old ones keeps no young one waiting. What fails
// for one unit is tried again the next time, and stops no other one.
func (l *Ledger) each(ctx context.Context, table string, do func(context.Context, *sql.Tx, unit) error) error {
	begin, cancel := half(ctx)
	defer cancel()
	failed := map[unit]error{}
	for progress := true; progress && begin.Err() == nil && len(failed) < unitsAtATime; {
		progress = false
		for _, span := range period.Spans {
			units, err := l.marked(ctx, table, span, unitsAtATime+len(failed))
			if err != nil {
				return err
			}
			units = slices.DeleteFunc(units, func(u unit) bool { return failed[u] != nil })
			for begin.Err() == nil && len(units) > 0 {
				done, err := l.together(ctx, table, units, do)
				if err != nil { // one of them is to blame, and only that one
					done, err = l.together(ctx, table, units[:1], do)
				}
				if err != nil {
					u := units[0]
					failed[u] = fmt.Errorf("add up the jobs of scale set %s/%s since %s: %w", u.namespace, u.set,
						time.Unix(u.started, 0).UTC().Format(time.RFC3339), err)
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
func (l *Ledger) marked(ctx context.Context, table string, span int64, most int) (units []unit, err error) {
	q := &query{}
	q.add("SELECT " + unitColumns + " FROM " + table)
	q.and("span = ?", span)
	q.add(" ORDER BY started DESC LIMIT ?", most)
	if err := l.rows(ctx, q, func(rows *sql.Rows) error {
		var u unit
		err := rows.Scan(&u.span, &u.started, &u.cluster, &u.namespace, &u.set)
		units = append(units, u)
		return err
	}); err != nil {
		return nil, fmt.Errorf("read which periods have changed: %w", err)
	}
	slices.SortFunc(units, func(a, b unit) int { return a.begin().compare(b.begin()) })
	return units, nil
}

// together does something with units in one transaction, until shortTransaction has passed: each commit waits for the
// disk, and each transaction makes writers wait. It returns how many it has done.
func (l *Ledger) together(
	ctx context.Context, table string, units []unit, do func(context.Context, *sql.Tx, unit) error,
) (done int, err error) {
	err = l.transaction(ctx, func(ctx context.Context, tx *sql.Tx) error {
		began := time.Now()
		for done < len(units) && time.Since(began) < shortTransaction {
			if err := take(ctx, tx, table, units[done], do); err != nil {
				return err
			}
			done++
		}
		return nil
	})
	return done, err
}

// take removes a unit's mark, and does something with the unit unless another ledger has done it. The mark goes first,
// so that a job that another ledger writes meanwhile marks the unit again.
func take(
	ctx context.Context, tx *sql.Tx, table string, u unit, do func(context.Context, *sql.Tx, unit) error,
) error {
	q := &query{}
	q.add("DELETE FROM " + table + " WHERE " + isUnit)
	marks, err := tx.ExecContext(ctx, q.text.String(), u.values()...)
	if err != nil {
		return err
	}
	if taken, err := marks.RowsAffected(); err != nil || taken == 0 {
		return err
	}
	return do(ctx, tx, u)
}

// finish is a scale set and a time at which one of its jobs finished.
type finish struct {
	cluster, namespace, set string
	at                      int64
}

// compare orders sets and times. Two ledgers that write the same rows must do so in the same order, or they wait for
// each other.
func (f finish) compare(other finish) int {
	return cmp.Or(cmp.Compare(f.cluster, other.cluster), cmp.Compare(f.namespace, other.namespace),
		cmp.Compare(f.set, other.set), cmp.Compare(f.at, other.at))
}

// markStale marks the hours in which jobs have finished, so that they are added up again.
func markStale(ctx context.Context, tx *sql.Tx, finished map[finish]bool) error {
	hours := map[finish]bool{}
	for f := range finished {
		f.at -= f.at % period.Hour
		hours[f] = true
	}
	for _, f := range slices.SortedFunc(maps.Keys(hours), finish.compare) {
		if err := mark(ctx, tx, unit{period.Hour, f.at, f.cluster, f.namespace, f.set}); err != nil {
			return err
		}
	}
	return nil
}

// mark has a unit added up. If the unit is marked already, a ledger that is about to add it up waits for the end of
// this transaction, and then sees what the transaction has written.
func mark(ctx context.Context, tx *sql.Tx, u unit) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO stale_periods ("+unitColumns+") VALUES ($1, $2, $3, $4, $5) "+
		"ON CONFLICT ("+unitColumns+") DO UPDATE SET span = excluded.span", u.values()...)
	return err
}

// markLonger has the longer period added up that contains a unit, if there is one.
func markLonger(ctx context.Context, tx *sql.Tx, u unit) error {
	level := slices.Index(period.Spans, u.span)
	if level+1 == len(period.Spans) {
		return nil
	}
	u.span = period.Spans[level+1]
	u.started -= u.started % u.span
	return mark(ctx, tx, u)
}

// addUp writes the sums of a unit, and marks the longer period that contains it, unless the unit is the newest hour, and
// apart.
func addUp(ctx context.Context, tx *sql.Tx, u unit, newest int64) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM unfolded_periods WHERE "+isUnit, u.values()...); err != nil {
		return err
	}
	if level := slices.Index(period.Spans, u.span); level > 0 {
		if err := markLonger(ctx, tx, u); err != nil {
			return err
		}
		return addUpPeriods(ctx, tx, u, period.Spans[level-1], newest)
	}
	if u.started < newest {
		if err := markLonger(ctx, tx, u); err != nil {
			return err
		}
	}
	most, err := mostKinds(ctx, tx, u)
	if err != nil {
		return err
	}
	text := selectJobs + " WHERE cluster = $1 AND namespace = $2 AND set_name = $3 AND finished >= $4 AND finished < $5"
	changing := trends.New(most / trendKinds)
	apart, err := write(ctx, tx, u, addJob(changing), text, u.cluster, u.namespace, u.set, u.started, u.started+u.span)
	if err != nil {
		return err
	}
	if !apart && u.started >= newest {
		if err := markLonger(ctx, tx, u); err != nil {
			return err
		}
	}
	return writeTrends(ctx, tx, u, changing, apart)
}

// isJoined leaves out the hours that are apart.
const isJoined = " AND apart = 0"

// addUpPeriods writes the sums of a unit of those of shorter periods, of hours without those that stay apart.
func addUpPeriods(ctx context.Context, tx *sql.Tx, u unit, shorter, newest int64) error {
	if u.span == period.Day {
		if err := join(ctx, tx, "usage_periods", u, newest); err != nil {
			return err
		}
	}
	where, values := parts(u, shorter)
	if _, err := write(ctx, tx, u, addPeriod, selectPeriods+where+isJoined, values...); err != nil {
		return err
	}
	most, err := mostKinds(ctx, tx, u)
	if err != nil {
		return err
	}
	return addUpTrends(ctx, tx, u, shorter, newest, most/trendKinds)
}

// parts is the condition for the rows of a set in the periods of a span that make up a unit. A list of times, unlike a range,
// leads an index on to the set.
func parts(u unit, span int64) (where string, values []any) {
	values = []any{u.cluster, u.namespace, u.set, span}
	var places []string
	for started := u.started; started < u.started+u.span; started += span {
		values = append(values, started)
		places = append(places, fmt.Sprintf("$%d", len(values)))
	}
	return " WHERE cluster = $1 AND namespace = $2 AND set_name = $3 AND span = $4 AND started IN (" +
		strings.Join(places, ", ") + ")", values
}

// foldUp writes the sums of a unit again from themselves.
func foldUp(ctx context.Context, tx *sql.Tx, u unit) error {
	_, err := write(ctx, tx, u, addPeriod, selectPeriods+" WHERE "+isUnit, u.values()...)
	return err
}

// addJob counts a job, also for its trends.
func addJob(changing *trends.Kinds) func(*sql.Rows, *fold.Kinds[*sums.Sums]) error {
	return func(rows *sql.Rows, kinds *fold.Kinds[*sums.Sums]) error {
		job, err := scanJob(rows)
		if err != nil {
			return err
		}
		kinds.Of(fold.Kind{Repository: job.Repository, Workflow: job.Workflow, Name: job.Name}).Count(&job)
		changing.Count(&job)
		return nil
	}
}

func addPeriod(rows *sql.Rows, kinds *fold.Kinds[*sums.Sums]) error {
	var kind fold.Kind
	var row sums.Sums
	var texts sums.Histograms
	targets := []any{&kind.Repository, &kind.Workflow, &kind.Name}
	for _, number := range row.Numbers() {
		targets = append(targets, number)
	}
	if err := rows.Scan(append(targets, texts.Columns()...)...); err != nil {
		return err
	}
	of := kinds.Of(kind)
	of.MergeNumbers(&row)
	of.MergeHistograms(&texts)
	return nil
}

const (
	kindColumns   = "cluster, namespace, set_name, repository, workflow, job_name"
	selectPeriods = "SELECT repository, workflow, job_name, " + sums.NumberColumns + ", " + sums.HistogramColumns +
		" FROM usage_periods"
)

var insertPeriod = func() string {
	const columns = "span, started, " + kindColumns + ", " + sums.NumberColumns + ", " + sums.HistogramColumns + ", position, apart"
	places := make([]string, strings.Count(columns, ",")+1)
	for i := range places {
		places[i] = fmt.Sprintf("$%d", i+1)
	}
	return "INSERT INTO usage_periods (" + columns + ") VALUES (" + strings.Join(places, ", ") + ")"
}()

// write reads the rows of a unit one by one, and replaces its sums: those of the kinds that are kept, of their
// workflows, and of the whole set. No more than twice the kinds that are kept are in memory, each with histograms of 42 KiB at most. It says
// whether the sums are apart.
func write(
	ctx context.Context, tx *sql.Tx, u unit, add func(*sql.Rows, *fold.Kinds[*sums.Sums]) error, text string, values ...any,
) (apart bool, err error) {
	most, err := mostKinds(ctx, tx, u)
	if err != nil {
		return false, err
	}
	kinds := fold.New(most, sums.Rules)
	rows, err := tx.QueryContext(ctx, text, values...)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	for rows.Next() {
		if err := add(rows, kinds); err != nil {
			return false, err
		}
	}
	if err := rows.Err(); err != nil {
		return false, err
	}
	if apart, err = remove(ctx, tx, "usage_periods", u, u.span == period.Hour); err != nil {
		return false, err
	}
	ofSet, ofWorkflows := u, u
	ofSet.span, ofWorkflows.span = period.OfSets(u.span), period.OfWorkflows(u.span)
	for _, former := range []unit{ofSet, ofWorkflows} {
		if _, err := tx.ExecContext(ctx, "DELETE FROM usage_periods WHERE "+isUnit, former.values()...); err != nil {
			return false, err
		}
	}
	insert, err := tx.PrepareContext(ctx, insertPeriod)
	if err != nil {
		return false, err
	}
	defer insert.Close()
	all, workflows, position := sums.New(), map[fold.Kind]*sums.Sums{}, 0
	for kind, of := range kinds.All() {
		if err := insertSums(ctx, insert, u, kind, of, position, apart); err != nil {
			return false, err
		}
		position++
		if kind.Name = ""; workflows[kind] == nil {
			workflows[kind] = sums.New()
		}
		workflows[kind].Merge(of)
	}
	for workflow, of := range workflows {
		if err := insertSums(ctx, insert, ofWorkflows, workflow, of, 0, apart); err != nil {
			return false, err
		}
		all.Merge(of)
	}
	if position > 0 {
		err = insertSums(ctx, insert, ofSet, fold.Kind{}, all, 0, apart)
	}
	return apart, err
}

func insertSums(ctx context.Context, insert *sql.Stmt, u unit, kind fold.Kind, of *sums.Sums, position int, apart bool,
) error {
	values := append(u.values(), kind.Repository, kind.Workflow, kind.Name)
	for _, number := range of.Numbers() {
		values = append(values, *number)
	}
	texts := of.Histograms()
	_, err := insert.ExecContext(ctx, append(values, texts.PeakMemory, texts.CPUAverage, texts.Throttled, texts.Times,
		texts.Limits, texts.Machines, position, flag(apart))...)
	return err
}

// mostKinds is the number of kinds of a unit that are kept.
func mostKinds(ctx context.Context, tx *sql.Tx, u unit) (int, error) {
	var sets int
	if err := tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM scale_sets WHERE cluster = $1 AND namespace = $2",
		u.cluster, u.namespace).Scan(&sets); err != nil {
		return 0, err
	}
	return min(maxKinds, namespaceKinds/max(1, min(sets, MaxSets))), nil
}
