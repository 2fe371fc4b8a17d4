// Package ledger keeps what has become of jobs: one row for each, by the UID of its runner, for as long as its
// retention says. Beside them are the states of scale sets over time (samples), and the times in which nobody looked
// (gaps). Jobs are added up in periods, so that a question about a million jobs reads a few thousand rows. Anything may
// be written again, by two ledgers and in any order: facts are only added to a row, but for an end that nobody saw,
// which gives way to one that somebody did.
package ledger

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/harrier-ci/harrier/operations/history/database"
	"github.com/harrier-ci/harrier/operations/history/ledger/period"
	"github.com/harrier-ci/harrier/operations/history/rows"
)

// Ledger is the store.
type Ledger struct {
	db *database.Database
	// writer is the name by which rows of this process are told from those of others, and began its first heartbeat.
	writer string
	began  atomic.Int64
	// beats are the heartbeats of all clusters when rows were last deleted; of Expire.
	beats map[string]int64
	// timeout ends each call of the database.
	timeout time.Duration
	// folded is set when all periods are known to be folded.
	folded atomic.Bool
	// adding has room for the questions that add up periods at a time.
	adding chan struct{}
	// pricing has room for the questions that hold the costs of all groups at a time: they do from their first query to their
	// last.
	pricing chan struct{}
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
	return On(db), nil
}

// On returns the ledger in an open database, whose tables are up to date.
func On(db *database.Database) *Ledger {
	return &Ledger{db: db, writer: rand.Text(), timeout: callTimeout, adding: make(chan struct{}, mostAdding),
		pricing: make(chan struct{}, mostAdding)}
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

// seconds is a time in the database, NULL if it is zero.
func seconds(at time.Time) any {
	if unix := at.Unix(); !at.IsZero() && unix > 0 && unix < period.Latest {
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

// value returns the value of a field in the database.
func value(field any) any {
	switch f := field.(type) {
	case *string:
		return Clean(*f)
	case *time.Time:
		return seconds(*f)
	default:
		number := *field.(**int64)
		if number == nil || *number < 0 {
			return nil
		}
		return *number
	}
}

// IsFinal reports whether opening the database again would fail again.
func IsFinal(err error) bool {
	var newer *database.NewerError
	var pooler *database.PoolerError
	return errors.As(err, &newer) || errors.As(err, &pooler)
}

// Filter chooses jobs. An empty field chooses all.
type Filter struct {
	// From and To bound the time of jobs, To excluded: their start (Jobs), or their end (Usage, Sizes).
	From, To time.Time

	Cluster, Namespace, Set    string
	Repository, Workflow, Name string

	// Now is the present, for Sizes and Changes only: without an end of the time, it says how long the time is.
	Now time.Time

	// Branch and Event are for Jobs and Trends only. Refs that never repeat are one branch, such as trends.PullRequests.
	Branch, Event string

	// The following are for Jobs only.
	RunnerUID, Runner, JobID, Result, LostCause, Node string
	RunID                                             int64
	// Text is a part of the name of a job, its workflow, repository or runner, in upper or lower case.
	Text string
	// Lost chooses jobs that were lost, to any cause; Running those that have not finished.
	Lost, Running bool

	// At most Limit jobs are returned, and never more than MaxJobs, which 0 stands for. After is the Next of a page, and
	// continues behind that page.
	Limit int
	After string
}

// place reports whether the filter chooses a scale set.
func (f *Filter) place(cluster, namespace, set string) bool {
	return (f.Cluster == "" || f.Cluster == cluster) && (f.Namespace == "" || f.Namespace == namespace) &&
		(f.Set == "" || f.Set == set)
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

// Part is a page of a table.
type Part[T any] = rows.Part[T]

// paged reports whether the filter asks for a page, and not for a whole table.
func (f *Filter) paged() bool { return f.Limit > 0 || f.After != "" }

// part returns how many rows or groups a page has, and how many are before it.
func (f *Filter) part(most int) (limit, first int, err error) {
	if f.After != "" {
		if first, err = strconv.Atoi(f.After); err != nil || first < 0 {
			return 0, 0, &FilterError{"after", f.After, "what a page of this table has as next"}
		}
	}
	limit = f.Limit
	if limit <= 0 || limit > most {
		limit = most
	}
	return limit, first, nil
}

// nextOf is the place of the page behind one of which a row more was read than it has, if there is such a row.
func nextOf(read, limit, first int) string {
	if read <= limit {
		return ""
	}
	return strconv.Itoa(first + limit)
}

// PartOf returns the page of a whole table that a filter asks for, all of it if it asks for none.
func PartOf[T any](all []T, filter *Filter) (Part[T], error) {
	if !filter.paged() {
		return Part[T]{Rows: all}, nil
	}
	limit, first, err := filter.part(len(all))
	if err != nil {
		return Part[T]{}, err
	}
	begin := min(first, len(all))
	end := min(begin+limit, len(all))
	return Part[T]{Rows: all[begin:end], Next: nextOf(len(all)-begin, limit, first), Total: int64(len(all))}, nil
}

// read reads the page of a query that has no limit yet. Rows are counted if a page was asked for.
func read[T any](ctx context.Context, l *Ledger, q *query, order string, filter *Filter, most int,
	scan func(*sql.Rows) (T, error),
) (page Part[T], err error) {
	limit, first, err := filter.part(most)
	if err != nil {
		return page, err
	}
	if filter.paged() {
		counted := &query{}
		counted.add("SELECT COUNT(*) FROM (" + q.text.String() + ") AS counted")
		counted.arguments = q.arguments
		if err := l.rows(ctx, counted, func(rows *sql.Rows) error { return rows.Scan(&page.Total) }); err != nil {
			return page, err
		}
	}
	q.add(" ORDER BY "+order+" LIMIT ? OFFSET ?", limit+1, first)
	page.Rows = []T{}
	err = l.rows(ctx, q, func(rows *sql.Rows) error {
		row, err := scan(rows)
		page.Rows = append(page.Rows, row)
		return err
	})
	if page.Next = nextOf(len(page.Rows), limit, first); page.Next != "" {
		page.Rows = page.Rows[:limit]
	}
	return page, err
}
