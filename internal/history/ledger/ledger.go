// Package ledger keeps what has become of jobs: one row for each, by the UID of its runner, for as long as its
// retention says. Beside them are what scale sets looked like (samples), and the times in which nobody looked (gaps).
// What many jobs come to is added up in periods, so that a question about a million jobs reads a few thousand rows.
// Whatever is written may be written again, by two ledgers and in any order: a row's facts only become more.
package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/internal/history/database"
)

// Ledger is the store.
type Ledger struct{ db *database.Database }

// Open opens the ledger in a database, SQLite's file or PostgreSQL's URL, and brings its tables up to date.
func Open(ctx context.Context, at string) (*Ledger, error) {
	db, err := database.Open(ctx, at)
	if err != nil {
		return nil, err
	}
	return &Ledger{db: db}, nil
}

// Close closes the database.
func (l *Ledger) Close() error { return l.db.Close() }

// Ping reports whether the database answers.
func (l *Ledger) Ping(ctx context.Context) error { return l.db.PingContext(ctx) }

// transaction runs do in a transaction, which is undone if it fails.
func (l *Ledger) transaction(ctx context.Context, do func(*sql.Tx) error) (err error) {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() {
		if rollback := tx.Rollback(); rollback != nil && !errors.Is(rollback, sql.ErrTxDone) && err == nil {
			err = rollback
		}
	}()
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// query is a statement that grows with its conditions. Placeholders are numbered, as both databases have them.
type query struct {
	text      strings.Builder
	arguments []any
	joined    bool
}

// and adds a condition; each question mark stands for the next of the arguments.
func (q *query) and(condition string, arguments ...any) {
	if q.joined {
		q.text.WriteString(" AND ")
	} else {
		q.text.WriteString(" WHERE ")
		q.joined = true
	}
	q.add(condition, arguments...)
}

func (q *query) add(text string, arguments ...any) {
	for _, argument := range arguments {
		before, after, _ := strings.Cut(text, "?")
		q.arguments = append(q.arguments, argument)
		fmt.Fprintf(&q.text, "%s$%d", before, len(q.arguments))
		text = after
	}
	q.text.WriteString(text)
}

// rows runs a query and calls scan for each row of the answer.
func (l *Ledger) rows(ctx context.Context, q *query, scan func(*sql.Rows) error) error {
	rows, err := l.db.QueryContext(ctx, q.text.String(), q.arguments...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// latest is the last second that fits any database and clock: in the year 3058. What is later was not written by a
// clock.
const latest = 1 << 35

// seconds is a time in the database, NULL if it is zero.
func seconds(at time.Time) any {
	if unix := at.Unix(); !at.IsZero() && unix > 0 && unix < latest {
		return unix
	}
	return nil
}

func timeOf(unix sql.NullInt64) time.Time {
	if !unix.Valid {
		return time.Time{}
	}
	return time.Unix(unix.Int64, 0).UTC()
}
