// Package database opens the database of the ledger, SQLite in a file or PostgreSQL by URL, and brings its tables up to
// date. The statements of the rooms above are the same for both: numbered placeholders, and no type or function that
// one of them lacks.
package database

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	"github.com/pressly/goose/v3/lock"
	_ "modernc.org/sqlite" // the driver sqlite
)

//go:embed migrations/*.sql
var migrations embed.FS

// Database is an open database with the tables of the ledger.
type Database struct {
	*sql.DB
	// Embedded is set for SQLite, whose file only this process has and has to keep small.
	Embedded bool
}

const (
	// connections bounds what the ledger takes of a PostgreSQL that others use, too; SQLite has one writer at a time in
	// any case. Each of its connections may hold cachedKiB of pages, and as much for sorting: 128 MiB if all do. The kernel
	// has the file in memory besides, and takes that back if it is needed.
	connections = 8
	cachedKiB   = 8 << 10
	// openTimeout bounds connecting and migrating. A migration may have to rewrite a million rows.
	openTimeout = 10 * time.Minute
)

// Open opens the database at a postgres:// URL, or in a file, which it creates. It brings the tables up to date, and
// fails for a database that a newer program has written.
func Open(ctx context.Context, at string) (*Database, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	db, err := Connect(at)
	if err != nil {
		return nil, err
	}
	if db.Embedded {
		if err := prepare(ctx, at); err != nil {
			db.Close()
			return nil, err
		}
	}
	if !db.Embedded {
		if err := db.checkSessions(ctx); err != nil {
			db.Close()
			return nil, err
		}
	}
	if err := db.migrate(ctx); err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

// Connect opens the database as it is.
func Connect(at string) (*Database, error) {
	if strings.HasPrefix(at, "postgres://") || strings.HasPrefix(at, "postgresql://") {
		db, err := sql.Open("pgx", at)
		if err != nil {
			// The driver's error may repeat the URL, which has a password.
			return nil, fmt.Errorf("open PostgreSQL: the URL can't be understood; it has the form " +
				"postgres://USER:PASSWORD@HOST:5432/NAME")
		}
		db.SetMaxOpenConns(connections)
		return &Database{DB: db}, nil
	}
	db, err := sql.Open("sqlite", fileURL(at))
	if err != nil {
		return nil, fmt.Errorf("open the database file %s: %w", at, err)
	}
	db.SetMaxOpenConns(connections)
	return &Database{DB: db, Embedded: true}, nil
}

// fileURL returns SQLite's name for a file, with the settings of each connection. Readers don't wait for the writer
// (WAL); a commit is on the disk when it returns (FULL); a transaction has the right to write from its begin, so that
// it can't be refused in the middle.
func fileURL(path string, first ...string) string {
	query := url.Values{"_txlock": {"immediate"}, "_pragma": append(first,
		"busy_timeout(10000)", "journal_mode(wal)", "synchronous(full)", fmt.Sprintf("cache_size(-%d)", cachedKiB))}
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + query.Encode()
}

// prepare has a new file give free pages back when it is told to. This setting can't be changed later, and setting it
// needs the right to write, so readers must not do it.
func prepare(ctx context.Context, path string) error {
	if info, err := os.Stat(path); err == nil && info.Size() > 0 {
		return nil
	}
	db, err := sql.Open("sqlite", fileURL(path, "auto_vacuum(incremental)"))
	if err == nil {
		err = db.PingContext(ctx)
	}
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		return fmt.Errorf("create the database file %s: %w; its directory must exist and be writable", path, err)
	}
	return nil
}

func (d *Database) migrate(ctx context.Context) error {
	provider, err := Migrations(d)
	if err != nil {
		return err
	}
	newest := provider.ListSources()[len(provider.ListSources())-1].Version
	if version, err := provider.GetDBVersion(ctx); err != nil {
		return fmt.Errorf("read the version of the database: %w", err)
	} else if version > newest {
		return &NewerError{Has: version, Knows: newest}
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("bring the database up to date: %w", err)
	}
	return nil
}

// NewerError reports that a newer program has changed the tables. There is no way back but a backup.
type NewerError struct{ Has, Knows int64 }

func (e *NewerError) Error() string {
	return fmt.Sprintf("the database has version %d of the tables, and this program knows %d: run the newer program "+
		"again, or restore a backup "+
		"from before the upgrade", e.Has, e.Knows)
}

// Migrations returns the steps that bring a database from one version of the tables to the next.
func Migrations(d *Database) (*goose.Provider, error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	dialect, options := database.DialectSQLite3, []goose.ProviderOption{}
	if !d.Embedded {
		dialect = database.DialectPostgres
		locker, err := lock.NewPostgresSessionLocker()
		if err != nil {
			return nil, err
		}
		options = append(options, goose.WithSessionLocker(locker)) // two ledgers may start at the same time
	}
	return goose.NewProvider(dialect, d.DB, files, options...)
}
