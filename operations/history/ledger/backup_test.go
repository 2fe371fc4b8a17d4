package ledger_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	databases "github.com/harrier-ci/harrier/operations/history/database"
	"github.com/harrier-ci/harrier/operations/history/databasetest"
	"github.com/harrier-ci/harrier/operations/history/ledger"
)

// TestABackupIsRestored does what docs/history-database.md says, with each kind of database.
func TestABackupIsRestored(t *testing.T) {
	for kind, test := range map[string]struct {
		at     func(testing.TB) string
		backup func(t *testing.T, at, to string)
	}{
		"a snapshot of SQLite's volume": {databasetest.SQLite, snapshot},
		"SQLite's own backup":           {databasetest.SQLite, vacuum},
		"PostgreSQL":                    {databasetest.PostgreSQL, dump},
	} {
		t.Run(kind, func(t *testing.T) {
			at, to := test.at(t), test.at(t)
			l := open(t, at)
			put(t, l, finished(1, 0), finished(2, 5))
			addUp(t, l)
			want := jobs(t, l, ledger.Filter{})
			test.backup(t, at, to)
			put(t, l, finished(3, 10)) // after the backup
			restored := open(t, to)
			if diff := cmp.Diff(want, jobs(t, restored, ledger.Filter{})); diff != "" {
				t.Errorf("jobs (-want +got):\n%s", diff)
			}
			put(t, restored, finished(1, 0), finished(4, 20))
			if got := jobs(t, restored, ledger.Filter{}); len(got) != 3 {
				t.Errorf("then there are %d jobs, want 3", len(got))
			}
			usage, err := restored.UsageBy(t.Context(), ledger.BySet, ledger.Filter{}, ledger.Prices{})
			if err != nil || len(usage) != 1 || usage[0].Jobs != 2 {
				t.Errorf("usage is %+v, %v", usage, err)
			}
		})
	}
}

// snapshot copies the files of SQLite as they are, as a snapshot of their volume would.
func snapshot(t *testing.T, at, to string) {
	t.Helper()
	for _, suffix := range []string{"", "-wal"} {
		from, err := os.Open(at + suffix)
		if err != nil {
			t.Fatal(err)
		}
		defer from.Close()
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			t.Fatal(err)
		}
		into, err := os.Create(to + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(into, from); err != nil {
			t.Fatal(err)
		}
		if err := into.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// vacuum has SQLite itself write a copy, while the ledger has the file open.
func vacuum(t *testing.T, at, to string) {
	t.Helper()
	db, err := databases.Connect(at)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), "VACUUM INTO $1", to); err != nil {
		t.Fatal(err)
	}
}

func dump(t *testing.T, at, to string) {
	t.Helper()
	databasetest.Client(t, to, databasetest.Client(t, at, "", "pg_dump", "--no-owner"), "psql", "--quiet", "--set",
		"ON_ERROR_STOP=1")
}

func TestThePageHasAllColumns(t *testing.T) {
	page, err := os.ReadFile("../../../docs/history-database.md")
	if err != nil {
		t.Fatal(err)
	}
	db, err := databases.Open(t.Context(), databasetest.SQLite(t))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(t.Context(),
		"SELECT m.name, c.name FROM sqlite_schema m JOIN pragma_table_info(m.name) c "+
			"WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' AND m.name <> 'goose_db_version'")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	columns := 0
	for rows.Next() {
		var table, column string
		if err := rows.Scan(&table, &column); err != nil {
			t.Fatal(err)
		}
		if columns++; !strings.Contains(string(page), "`"+table+"`") || !strings.Contains(string(page), "`"+column+"`") {
			t.Errorf("docs/history-database.md lacks column %s of table %s", column, table)
		}
	}
	if err := rows.Err(); err != nil || columns < 80 {
		t.Errorf("%d columns, %v", columns, err)
	}
}
