package database

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// PoolerError reports that the URL leads to a pooler that gives each transaction another session of PostgreSQL. The lock
// under which tables are brought up to date, and prepared statements, belong to a session.
type PoolerError struct{}

func (*PoolerError) Error() string {
	return "the URL of the database leads to a pooler that gives each transaction another session, such as PgBouncer with " +
		"pool_mode = transaction: name PostgreSQL itself, or a pool with pool_mode = session and a pool_size of " +
		fmt.Sprint(connections) + " or more"
}

// poolerTimeout bounds the wait for a second session, which a pool without room never gives.
const poolerTimeout = 20 * time.Second

// A pooler that gives its sessions in turn gives the same one again if it has two and the other one is busy: a connection
// is asked for its session again when none is.
const askedAgain = 4

// checkSessions returns a PoolerError if a connection has no session of its own: while another one is in a transaction or
// after it, it has another session than before, or that other one has its session.
func (d *Database) checkSessions(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, poolerTimeout)
	defer cancel()
	one, err := d.Conn(ctx)
	if err != nil {
		return err
	}
	defer one.Close()
	before, err := session(ctx, one)
	if err != nil {
		return err
	}
	other, err := d.Conn(ctx)
	if err != nil {
		return fmt.Errorf("open a second session of PostgreSQL: %w", err)
	}
	defer other.Close()
	busy, err := other.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("open a second session of PostgreSQL: %w", err)
	}
	defer busy.Rollback() //nolint:errcheck // it has written nothing
	others, err := session(ctx, busy)
	if err != nil {
		return err
	}
	if others == before {
		return &PoolerError{}
	}
	for again := range askedAgain {
		if after, err := session(ctx, one); err != nil {
			return err
		} else if after != before {
			return &PoolerError{}
		}
		if again == 0 {
			if err := busy.Rollback(); err != nil {
				return fmt.Errorf("end a transaction of PostgreSQL: %w", err)
			}
		}
	}
	return nil
}

// session returns the number of a connection's session. It asks without a prepared statement, which would fail behind a
// pooler.
func session(ctx context.Context, of interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}) (number int64, err error) {
	err = of.QueryRowContext(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&number)
	if err != nil {
		return 0, fmt.Errorf("ask PostgreSQL for the number of a session: %w", err)
	}
	return number, nil
}
