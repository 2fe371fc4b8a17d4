// Package ledger keeps what has become of jobs: one row for each, by the UID of its runner, for as long as its
// retention says. Beside them are the states of scale sets over time (samples), and the times in which nobody looked
// (gaps). Jobs are added up in periods, so that a question about a million jobs reads a few thousand rows. Anything may
// be written again, by two ledgers and in any order: facts are only added to a row.
package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/harrier-ci/harrier/internal/history/database"
)

// Ledger is the store.
type Ledger struct {
	db *database.Database
	// timeout ends each call of the database.
	timeout time.Duration
	// folded is set when all periods are known to be folded.
	folded atomic.Bool
	// adding has room for the questions that add up periods at a time.
	adding chan struct{}
}

// At most mostAdding questions add up periods at a time, the others wait: each takes up to 40 MiB, for the groups that
// it holds and for what SQLite sorts, and all 16 that the page and the API let in would take 400 MiB. On a few cores
// they are answered as soon as if they ran together.
const mostAdding = 3

// Open opens the ledger in a database, SQLite's file or PostgreSQL's URL, and brings its tables up to date.
func Open(ctx context.Context, at string) (*Ledger, error) {
	db, err := database.Open(ctx, at)
	if err != nil {
		return nil, err
	}
	return &Ledger{db: db, timeout: callTimeout, adding: make(chan struct{}, mostAdding)}, nil
}

// Close closes the database.
func (l *Ledger) Close() error { return l.db.Close() }

// callTimeout ends every call of the database that its caller doesn't end before: a database that has stopped to answer
// keeps nobody for ever. Half a million kinds of jobs, the most of a period that has been seen, are folded in 20 s.
const callTimeout = 2 * time.Minute

// Ping reports whether the database answers.
func (l *Ledger) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	return l.db.PingContext(ctx)
}

// exec runs a statement that has no rows as its answer.
func (l *Ledger) exec(ctx context.Context, text string, arguments ...any) (sql.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	return l.db.ExecContext(ctx, text, arguments...)
}

// transaction runs do in a transaction, which is undone if it fails.
func (l *Ledger) transaction(ctx context.Context, do func(context.Context, *sql.Tx) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() {
		if rollback := tx.Rollback(); rollback != nil && !errors.Is(rollback, sql.ErrTxDone) && err == nil {
			err = rollback
		}
	}()
	if err := do(ctx, tx); err != nil {
		return err
	}
	return tx.Commit()
}

// half returns a context that ends at half of the time that is left: whoever does a long row of things begins none of
// them later, has time to end the last one, and goes on the next time.
func half(ctx context.Context) (context.Context, context.CancelFunc) {
	if deadline, bounded := ctx.Deadline(); bounded {
		return context.WithTimeout(ctx, time.Until(deadline)/2)
	}
	return context.WithCancel(ctx)
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
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
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

// periodRows is rows for a question that adds up periods.
func (l *Ledger) periodRows(ctx context.Context, q *query, scan func(*sql.Rows) error) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case l.adding <- struct{}{}:
	}
	defer func() { <-l.adding }()
	return l.rows(ctx, q, scan)
}

// latest is the last second that fits any database and clock: in the year 3058. A later time was not read from a clock.
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

// IsFinal reports whether opening the database again would fail again.
func IsFinal(err error) bool {
	var newer *database.NewerError
	return errors.As(err, &newer)
}

// Filter chooses jobs. An empty field chooses all.
type Filter struct {
	// From and To bound the time of jobs, To excluded: their start (Jobs), or their end (Usage, Sizes).
	From, To time.Time

	Cluster, Namespace, Set    string
	Repository, Workflow, Name string

	// The following are for Jobs only.
	RunnerUID, Runner, JobID, Event, Result, LostCause, Node string
	RunID                                                    int64
	// Text is a part of the name of a job, its workflow, repository or runner, in upper or lower case.
	Text string
	// Lost chooses jobs that were lost, to any cause; Running those that have not finished.
	Lost, Running bool

	// At most Limit jobs are returned, and never more than MaxJobs, which 0 stands for. After is the Next of a page, and
	// continues behind that page.
	Limit int
	After string
}

// FilterError names the part of a filter that can't be understood.
type FilterError struct{ Field, Value, Want string }

func (e *FilterError) Error() string {
	return fmt.Sprintf("%s is %q: it must be %s", e.Field, e.Value, e.Want)
}

func (q *query) between(name string, from, to time.Time) {
	if !from.IsZero() {
		q.and(name+" >= ?", from.Unix())
	}
	if !to.IsZero() {
		q.and(name+" < ?", to.Unix())
	}
}

// same adds the conditions that every table about jobs can have.
func (q *query) same(filter *Filter) {
	for _, condition := range []struct{ name, is string }{
		{"cluster", filter.Cluster}, {"namespace", filter.Namespace}, {"set_name", filter.Set},
		{"repository", filter.Repository}, {"workflow", filter.Workflow}, {"job_name", filter.Name},
	} {
		if condition.is != "" {
			q.and(condition.name+" = ?", Clean(condition.is))
		}
	}
}

// maxText bounds a text in the database, in bytes. GitHub's names are shorter; a status may be written by anybody with
// rights in its namespace.
const maxText = 512

// Clean returns text that both databases take: valid UTF-8 without NUL, cut to a length.
func Clean(text string) string {
	if len(text) > maxText {
		text = strings.Clone(text[:maxText]) // or the whole stays in memory
		for !utf8.ValidString(text) && len(text) > maxText-utf8.UTFMax {
			text = text[:len(text)-1]
		}
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "")
}
