package failpoints

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/operations/history/database"
	"github.com/harrier-ci/harrier/operations/history/ledger"
	"github.com/harrier-ci/harrier/operations/history/watch"
)

// emptyLedger is a database with its tables, made a single time: that takes as long as a whole play.
var emptyLedger = sync.OnceValues(func() ([]byte, error) {
	directory, err := os.MkdirTemp("", "ledger-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(directory)
	file := filepath.Join(directory, "ledger.db")
	db, err := database.Open(context.Background(), file)
	if err != nil {
		return nil, err
	}
	if err := db.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(file)
})

// ledgerFile returns the file of an empty ledger.
func ledgerFile(t *testing.T) string {
	content, err := emptyLedger()
	file := filepath.Join(t.TempDir(), "ledger.db")
	if err == nil {
		err = os.WriteFile(file, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// runLedgers runs one ledger after the other.
func (w *world) runLedgers(ctx context.Context) {
	for ctx.Err() == nil {
		p := w.newProcess(ctx, "ledger")
		if err := w.keepLedger(p); err != nil {
			w.log.Info("The ledger has ended", "error", err.Error())
		}
		p.die()
		pause(ctx, restartDelay)
	}
}

// keepLedger does what the program manager history does, but for its answers.
func (w *world) keepLedger(p *process) error {
	db := sql.OpenDB(&statements{world: w, process: p})
	defer db.Close()
	store := ledger.On(&database.Database{DB: db, Embedded: true})
	now := clock.RealClock{}
	objects, err := watch.NewObjects(w.server.Config(w.kubernetes(p)), "", "cluster", nil, now)
	if err != nil {
		return err
	}
	recorder := &watch.Recorder{
		Ledger: store, Name: "cluster", Cluster: objects, Clock: now, Log: w.log,
		Metrics:   watch.NewMetrics(prometheus.NewRegistry()),
		Retention: 90 * 24 * time.Hour, MaxPending: watch.MaxPending,
	}
	if err := objects.Start(p.context, recorder.Report); err != nil {
		return err
	}
	if _, err := store.Begin(p.context, "cluster", now.Now()); err != nil {
		return err
	}
	recorder.Run(p.context)
	return nil
}

// statements open connections to the ledger's database whose statements are effects. A process that has died leaves
// what it has committed.
type statements struct {
	world   *world
	process *process
}

// withinTransaction ends the names of statements that leave nothing until the transaction is committed.
const withinTransaction = " in a transaction"

// errRefused is what a database answers that can't write.
var errRefused = errors.New("database or disk is full")

// asFile names the database without waits for a disk, which nothing here loses.
func asFile(path string) string {
	return "file:" + path + "?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_pragma=synchronous(off)"
}

func (s *statements) Driver() driver.Driver { return sqlite() }

func (s *statements) Connect(context.Context) (driver.Conn, error) {
	if s.process.dead.Load() {
		return nil, errDead
	}
	opened, err := sqlite().Open(asFile(s.world.ledger))
	if err != nil {
		return nil, err
	}
	return &connection{Conn: opened, statements: s}, nil
}

// sqlite is the driver that the product has.
var sqlite = sync.OnceValue(func() driver.Driver {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		panic(err) // the driver isn't registered
	}
	defer db.Close()
	return db.Driver()
})

// connection is one to the database; within is set during a transaction.
type connection struct {
	driver.Conn
	*statements
	within bool
}

// carry carries out a statement unless the plan has another end for it.
func (s *statements) carry(ctx context.Context, name string, do func() error) error {
	if s.process.dead.Load() {
		return errDead
	}
	planned := s.world.effects.next("ledger SQL " + name)
	defer s.world.effects.ended()
	switch planned {
	case diesBefore:
		s.process.die()
		return errDead
	case diesAfter, answerLost:
		_ = do() // nobody learns of it
		if planned == diesAfter {
			s.process.die()
			return errDead
		}
		return io.ErrUnexpectedEOF
	case serverError:
		return errRefused
	case timeout:
		return hang(ctx)
	}
	return do()
}

// named is a statement's verb and table.
func (c *connection) named(query string) string {
	words := strings.Fields(query)
	name := strings.ToLower(strings.Join(words[:min(3, len(words))], " "))
	if c.within {
		name += withinTransaction
	}
	return name
}

func (c *connection) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	if c.process.dead.Load() {
		return nil, errDead
	}
	begun, err := c.Conn.(driver.ConnBeginTx).BeginTx(ctx, options) //nolint:forcetypeassert // SQLite's has that
	if err != nil {
		return nil, err
	}
	c.within = true
	return &transaction{Tx: begun, connection: c, ctx: ctx}, nil
}

func (c *connection) ExecContext(
	ctx context.Context, query string, arguments []driver.NamedValue,
) (result driver.Result, err error) {
	err = c.carry(ctx, c.named(query), func() (err error) {
		result, err = c.Conn.(driver.ExecerContext).ExecContext(ctx, query, arguments) //nolint:forcetypeassert // as above
		return err
	})
	return result, err
}

func (c *connection) QueryContext(
	ctx context.Context, query string, arguments []driver.NamedValue,
) (driver.Rows, error) {
	if c.process.dead.Load() {
		return nil, errDead
	}
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, arguments) //nolint:forcetypeassert // as above
}

func (c *connection) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	made, err := c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, query) //nolint:forcetypeassert // as above
	if err != nil {
		return nil, err
	}
	return &ready{Stmt: made, connection: c, query: query}, nil
}

// ready is a prepared statement.
type ready struct {
	driver.Stmt
	connection *connection
	query      string
}

func (s *ready) ExecContext(ctx context.Context, arguments []driver.NamedValue) (result driver.Result, err error) {
	err = s.connection.carry(ctx, s.connection.named(s.query), func() (err error) {
		result, err = s.Stmt.(driver.StmtExecContext).ExecContext(ctx, arguments) //nolint:forcetypeassert // as above
		return err
	})
	return result, err
}

func (s *ready) QueryContext(ctx context.Context, arguments []driver.NamedValue) (driver.Rows, error) {
	if s.connection.process.dead.Load() {
		return nil, errDead
	}
	return s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, arguments) //nolint:forcetypeassert // as above
}

type transaction struct {
	driver.Tx
	connection *connection
	ctx        context.Context //nolint:containedctx // that of the transaction
}

func (t *transaction) Commit() error {
	t.connection.within = false
	committed := false
	err := t.connection.carry(t.ctx, "commit", func() error {
		committed = true
		return t.Tx.Commit()
	})
	if !committed {
		_ = t.Tx.Rollback() // as the database does when nobody is connected any more
	}
	return err
}

func (t *transaction) Rollback() error {
	t.connection.within = false
	return t.Tx.Rollback()
}

// asked asks the ledger's database as it is.
func (w *world) asked(query string, into func(*sql.Rows) error) {
	db, err := sql.Open("sqlite", asFile(w.ledger))
	if err != nil {
		w.t.Fatal(err)
	}
	defer db.Close()
	found, err := db.QueryContext(w.t.Context(), query)
	if err != nil {
		w.t.Fatal(err)
	}
	defer found.Close()
	for found.Next() {
		if err := into(found); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := found.Err(); err != nil {
		w.t.Fatal(err)
	}
}

// written is what the ledger says at rest.
func (w *world) written() (said []string) {
	const jobs = "SELECT COALESCE(result, ''), finished IS NOT NULL, COUNT(*) FROM jobs GROUP BY 1, 2"
	w.asked(jobs, func(row *sql.Rows) error {
		var result string
		var finished bool
		var count int
		err := row.Scan(&result, &finished, &count)
		said = append(said, fmt.Sprintf("the ledger has %d jobs with the result %q, ended %t", count, result, finished))
		return err
	})
	return said
}

// judgeLedger holds the ledger against GitHub: of each job there is one row, with its result if that was seen, unless
// nobody kept the ledger while the job's runner was there.
func (w *world) judgeLedger() {
	rows := map[string]string{}
	w.asked("SELECT job_id, result FROM jobs", func(row *sql.Rows) error {
		var job, result string
		err := row.Scan(&job, &result)
		if _, twice := rows[job]; twice {
			w.violate("the ledger has job %s twice", job)
		}
		rows[job] = result
		return err
	})
	missing := 0
	for _, job := range w.github.Jobs("") {
		result, written := rows[job.JobID]
		switch {
		case !written:
			missing++
		case result != job.Result && result != "Unknown":
			w.violate("job %s ended %s, and the ledger says %s", job.JobID, job.Result, result)
		}
	}
	if missing > w.unseen {
		w.violate("%d jobs are in no row of the ledger, and %d were not to be seen", missing, w.unseen)
	}
}
