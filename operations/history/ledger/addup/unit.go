// Package addup makes the sums of a unit, which is a period of a scale set: of jobs, or of the sums of shorter periods. All of it
// happens within a transaction, and marks say what is still to be done. The ledger says which units have their turn, and
// answers questions with what there is then.
package addup

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/harrier-ci/harrier/operations/history/ledger/period"
)

// Unit is what is added up at a time: a period of a scale set. Nothing that happens in one scale set makes adding up
// another one longer.
type Unit struct {
	Span, Started           int64
	Cluster, Namespace, Set string
}

// UnitColumns are the columns of a unit, in the order of its fields.
const UnitColumns = "span, started, cluster, namespace, set_name"

const isUnit = "span = $1 AND started = $2 AND cluster = $3 AND namespace = $4 AND set_name = $5"

func (u Unit) values() []any { return []any{u.Span, u.Started, u.Cluster, u.Namespace, u.Set} }

// Begin is the unit's place in the order of writing.
func (u Unit) Begin() Finish { return Finish{u.Cluster, u.Namespace, u.Set, u.Started} }

// Take removes a unit's mark, and does something with the unit unless another ledger has done it. The mark goes first,
// so that a job that another ledger writes meanwhile marks the unit again.
func Take(
	ctx context.Context, tx *sql.Tx, table string, u Unit, do func(context.Context, *sql.Tx, Unit) error,
) error {
	marks, err := tx.ExecContext(ctx, deleteFrom+table+" WHERE "+isUnit, u.values()...)
	if err != nil {
		return err
	}
	if taken, err := marks.RowsAffected(); err != nil || taken == 0 {
		return err
	}
	return do(ctx, tx, u)
}

// Finish is a scale set and a time at which one of its jobs finished.
type Finish struct {
	Cluster, Namespace, Set string
	At                      int64
}

// Compare orders sets and times. Two ledgers that write the same rows must do so in the same order, or they wait for
// each other.
func (f Finish) Compare(other Finish) int {
	return cmp.Or(cmp.Compare(f.Cluster, other.Cluster), cmp.Compare(f.Namespace, other.Namespace),
		cmp.Compare(f.Set, other.Set), cmp.Compare(f.At, other.At))
}

// MarkStale marks the hours in which jobs have finished, so that they are added up again.
func MarkStale(ctx context.Context, tx *sql.Tx, finished map[Finish]bool) error {
	hours := map[Finish]bool{}
	for f := range finished {
		f.At -= f.At % period.Hour
		hours[f] = true
	}
	for _, f := range slices.SortedFunc(maps.Keys(hours), Finish.Compare) {
		if err := mark(ctx, tx, Unit{period.Hour, f.At, f.Cluster, f.Namespace, f.Set}); err != nil {
			return err
		}
	}
	return nil
}

// mark has a unit added up. If the unit is marked already, a ledger that is about to add it up waits for the end of
// this transaction, and then sees what the transaction has written.
func mark(ctx context.Context, tx *sql.Tx, u Unit) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO stale_periods ("+UnitColumns+") VALUES ($1, $2, $3, $4, $5) "+
		"ON CONFLICT ("+UnitColumns+") DO UPDATE SET span = excluded.span", u.values()...)
	return err
}

// markLonger has the longer period added up that contains a unit, if there is one.
func markLonger(ctx context.Context, tx *sql.Tx, u Unit) error {
	level := slices.Index(period.Spans, u.Span)
	if level+1 == len(period.Spans) {
		return nil
	}
	u.Span = period.Spans[level+1]
	u.Started -= u.Started % u.Span
	return mark(ctx, tx, u)
}

// parts is the condition for the rows of a set in the periods of a span that make up a unit. A list of times, unlike a range,
// leads an index on to the set.
func parts(u Unit, span int64) (where string, values []any) {
	values = []any{u.Cluster, u.Namespace, u.Set, span}
	var places []string
	for started := u.Started; started < u.Started+u.Span; started += span {
		values = append(values, started)
		places = append(places, fmt.Sprintf("$%d", len(values)))
	}
	return " WHERE cluster = $1 AND namespace = $2 AND set_name = $3 AND span = $4 AND started IN (" +
		strings.Join(places, ", ") + ")", values
}
