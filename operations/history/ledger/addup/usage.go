package addup

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/harrier-ci/harrier/operations/history/fold"
	"github.com/harrier-ci/harrier/operations/history/ledger/period"
	"github.com/harrier-ci/harrier/operations/history/ledger/sums"
	"github.com/harrier-ci/harrier/operations/history/ledger/trends"
	"github.com/harrier-ci/harrier/operations/history/rows"
)

const (
	// At most MaxKinds kinds of jobs of a scale set are kept in each period; further ones are folded. 20 sets that all
	// reach it have 10,000 rows in a period, and a question about any time reads 13 periods at most.
	MaxKinds = 500
	// Trends are kept of half as many, by event and again by branch: with them a period has twice the rows.
	trendKinds = 2
	// Sets of one namespace have namespaceKinds together if there are more than 20 of them, and MaxSets of them are told
	// apart: whoever may create runners there makes up as many as he likes. With that, each keeps ten kinds.
	namespaceKinds = 20 * MaxKinds
	// MaxSets is also how many scale sets of a namespace are sampled.
	MaxSets = 1000
)

// Jobs is how jobs are read: the begin of a query of them, and what makes a job of a row.
type Jobs struct {
	Query string
	Scan  func(*sql.Rows) (rows.Job, error)
}

// Write writes the sums of a unit, and marks the longer period that contains it, unless the unit is the newest hour, and
// apart.
func Write(ctx context.Context, tx *sql.Tx, u Unit, jobs Jobs, newest int64) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM unfolded_periods WHERE "+isUnit, u.values()...); err != nil {
		return err
	}
	if level := slices.Index(period.Spans, u.Span); level > 0 {
		if err := markLonger(ctx, tx, u); err != nil {
			return err
		}
		return addUpPeriods(ctx, tx, u, period.Spans[level-1], newest)
	}
	if u.Started < newest {
		if err := markLonger(ctx, tx, u); err != nil {
			return err
		}
	}
	most, err := mostKinds(ctx, tx, u)
	if err != nil {
		return err
	}
	text := jobs.Query + " WHERE cluster = $1 AND namespace = $2 AND set_name = $3 AND finished >= $4 AND finished < $5"
	changing := trends.New(most / trendKinds)
	apart, err := write(ctx, tx, u, addJob(jobs, changing), text, u.Cluster, u.Namespace, u.Set, u.Started, u.Started+u.Span)
	if err != nil {
		return err
	}
	if !apart && u.Started >= newest {
		if err := markLonger(ctx, tx, u); err != nil {
			return err
		}
	}
	return writeTrends(ctx, tx, u, changing, apart)
}

// addUpPeriods writes the sums of a unit of those of shorter periods, of hours without those that stay apart.
func addUpPeriods(ctx context.Context, tx *sql.Tx, u Unit, shorter, newest int64) error {
	if u.Span == period.Day {
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

// Fold writes the sums of a unit again from themselves.
func Fold(ctx context.Context, tx *sql.Tx, u Unit) error {
	_, err := write(ctx, tx, u, addPeriod, selectPeriods+" WHERE "+isUnit, u.values()...)
	return err
}

// addJob counts a job, also for its trends.
func addJob(jobs Jobs, changing *trends.Kinds) func(*sql.Rows, *fold.Kinds[*sums.Sums]) error {
	return func(rows *sql.Rows, kinds *fold.Kinds[*sums.Sums]) error {
		job, err := jobs.Scan(rows)
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

// KindColumns are the columns of a kind of jobs of a scale set.
const KindColumns = "cluster, namespace, set_name, repository, workflow, job_name"

const selectPeriods = "SELECT repository, workflow, job_name, " + sums.NumberColumns + ", " + sums.HistogramColumns +
	" FROM usage_periods"

var insertPeriod = func() string {
	const columns = "span, started, " + KindColumns + ", " + sums.NumberColumns + ", " + sums.HistogramColumns + ", position, apart"
	places := make([]string, strings.Count(columns, ",")+1)
	for i := range places {
		places[i] = fmt.Sprintf("$%d", i+1)
	}
	return "INSERT INTO usage_periods (" + columns + ") VALUES (" + strings.Join(places, ", ") + ")"
}()

// write reads the rows of a unit one by one, and replaces its sums with theirs. No more than twice the kinds that are kept are in
// memory, each with histograms of 42 KiB at most. It says whether the sums are apart.
func write(
	ctx context.Context, tx *sql.Tx, u Unit, add func(*sql.Rows, *fold.Kinds[*sums.Sums]) error, text string, values ...any,
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
	return replace(ctx, tx, u, kinds)
}

// replace replaces the sums of a unit: those of the kinds that are kept, of their workflows, and of the whole set. It says whether
// they are apart.
func replace(ctx context.Context, tx *sql.Tx, u Unit, kinds *fold.Kinds[*sums.Sums]) (apart bool, err error) {
	if apart, err = remove(ctx, tx, "usage_periods", u, u.Span == period.Hour); err != nil {
		return false, err
	}
	ofSet, ofWorkflows := u, u
	ofSet.Span, ofWorkflows.Span = period.OfSets(u.Span), period.OfWorkflows(u.Span)
	for _, former := range []Unit{ofSet, ofWorkflows} {
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

func insertSums(ctx context.Context, insert *sql.Stmt, u Unit, kind fold.Kind, of *sums.Sums, position int, apart bool,
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
func mostKinds(ctx context.Context, tx *sql.Tx, u Unit) (int, error) {
	var sets int
	if err := tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM scale_sets WHERE cluster = $1 AND namespace = $2",
		u.Cluster, u.Namespace).Scan(&sets); err != nil {
		return 0, err
	}
	return min(MaxKinds, namespaceKinds/max(1, min(sets, MaxSets))), nil
}
