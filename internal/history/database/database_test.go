package database_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/harrier-ci/harrier/internal/history/database"
	databases "github.com/harrier-ci/harrier/test/database"
)

func TestMain(m *testing.M) { databases.Main(m) }

// former has, for each version of the tables, rows as a ledger of that version wrote them.
var former = map[int64][]string{
	1: {"INSERT INTO jobs (runner_uid, cluster, namespace, set_name, runner, at, repository, workflow, ref, job_name, " +
		"job_id, event, result, lost_cause, rerun, node, node_type) " +
		"VALUES ('uid-1', 'c', 'n', 's', 'r', 1800000000, 'o/r', 'o/r/w', 'refs/heads/main', 'test', 'id', 'push', 'succeeded', '', '', 'node', 'large')",
		"INSERT INTO usage_periods VALUES (3600, 1800000000, 'c', 'n', 's', 'o/r', 'o/r/w', 'test', 1, 1, 0, 0, 0, 0, 60, 0, 0, 0, " +
			"1, 1, 1, 1, 1, 1, 1, 1, 0, 0, '', '', '')"},
	2: {"INSERT INTO jobs (runner_uid, cluster, namespace, set_name, runner, at, repository, workflow, ref, job_name, " +
		"job_id, event, result, lost_cause, rerun, node, node_type) " +
		"VALUES ('uid-2', 'c', 'n', 's', 'r', 1800000000, 'o/r', 'o/r/w', 'refs/heads/main', 'test', 'id', 'push', 'succeeded', '', '', 'node', 'large')",
		"INSERT INTO usage_periods VALUES (3600, 1800000000, 'c', 'n', 's', 'o/r', 'o/r/w', 'test', 1, 1, 0, 0, 0, 0, 60, 0, 0, 0, " +
			"1, 1, 1, 1, 1, 1, 1, 1, 0, 0, '', '', '', '0:1;;;;;;;0:1')",
		"INSERT INTO usage_periods VALUES (86400, 1799971200, 'c', 'n', 's', 'o/r', 'o/r/w', 'test', 1, 1, 0, 0, 0, 0, 60, 0, 0, 0, " +
			"1, 1, 1, 1, 1, 1, 1, 1, 0, 0, '', '', '', '0:1;;;;;;;0:1')"},
	3: {"INSERT INTO jobs (runner_uid, cluster, namespace, set_name, runner, at, repository, workflow, ref, job_name, " +
		"job_id, event, result, lost_cause, rerun, node, node_type) " +
		"VALUES ('uid-3', 'c', 'n', 's', 'r', 1800000000, 'o/r', 'o/r/w', 'refs/heads/main', 'test', 'id', 'push', 'succeeded', '', '', 'node', 'large')",
		"INSERT INTO usage_periods VALUES (604800, 1799884800, 'c', 'n', 's', 'o/r', 'o/r/w', 'test', 1, 1, 0, 0, 0, 0, 60, 0, 0, 0, " +
			"1, 1, 1, 1, 1, 1, 1, 1, 0, 0, '', '', '', '0:1;;;;;;;0:1')"},
	4: {"INSERT INTO jobs (runner_uid, cluster, namespace, set_name, runner, at, repository, workflow, ref, job_name, " +
		"job_id, event, result, lost_cause, rerun, node, node_type) " +
		"VALUES ('uid-4', 'c', 'n', 's', 'r', 1800000000, 'o/r', 'o/r/w', 'refs/heads/main', 'test', 'id', 'push', 'succeeded', '', '', 'node', 'large')",
		"INSERT INTO scale_sets VALUES ('c', 'n', 's', 1800000000)",
		"INSERT INTO usage_periods VALUES (3600, 1800000000, 'c', 'n', 's', 'o/r', 'o/r/w', 'test', 1, 1, 0, 0, 0, 0, 60, 0, 0, 0, " +
			"1, 1, 1, 1, 1, 1, 1, 1, 0, 0, '', '', '', '0:1;;;;;;;0:1', 0)",
		"INSERT INTO stale_periods VALUES (86400, 1799971200, 'c', 'n', 's')"},
}

func TestEveryVersionComesUpToDate(t *testing.T) {
	databases.Each(t, func(t *testing.T, _ string) {
		newest := int64(len(former))
		for version := int64(0); version <= newest; version++ {
			t.Run(fmt.Sprint(version), func(t *testing.T) {
				at := databases.SQLite(t)
				if strings.Contains(t.Name(), "PostgreSQL") {
					at = databases.PostgreSQL(t)
				}
				migrateTo(t, at, version)
				db, err := database.Open(t.Context(), at)
				if err != nil {
					t.Fatal(err)
				}
				defer db.Close()
				var jobs int
				if err := db.QueryRow("SELECT COUNT(*) FROM jobs WHERE job_name = 'test'").Scan(&jobs); err != nil {
					t.Fatal(err)
				}
				if want := int(min(version, 1)); jobs != want {
					t.Errorf("%d jobs of version %d are left, want %d", jobs, version, want)
				}
				var stale int
				if err := db.QueryRow("SELECT COUNT(*) FROM stale_periods").Scan(&stale); err != nil {
					t.Fatal(err)
				}
				// Versions 1 and 2 had no wait times, and no weeks. A database of version 4 has what its ledger has left.
				if want := map[int64]int{1: 1, 2: 1, 4: 1}[version]; stale != want {
					t.Errorf("%d periods of version %d are added up again, want %d", stale, version, want)
				}
				var unfolded, sets int
				if err := db.QueryRow("SELECT (SELECT COUNT(*) FROM unfolded_periods WHERE span > 0 AND namespace = 'n'), "+
					"(SELECT COUNT(*) FROM scale_sets WHERE set_name = 's')").Scan(&unfolded, &sets); err != nil {
					t.Fatal(err)
				}
				if want := map[int64]int{1: 1, 2: 2, 3: 1}[version]; unfolded != want || sets != int(min(version, 1)) {
					t.Errorf("%d periods of version %d are to be folded, want %d; %d scale sets are known", unfolded, version, want,
						sets)
				}
			})
		}
	})
}

// migrateTo makes a database of a former version, with rows.
func migrateTo(t *testing.T, at string, version int64) {
	t.Helper()
	db, err := database.Connect(at)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	migrations, err := database.Migrations(db)
	if err != nil {
		t.Fatal(err)
	}
	known := migrations.ListSources()
	if len(known) != len(former) {
		t.Fatalf("there are %d versions, and rows of %d: add rows as the newest version writes them", len(known), len(former))
	}
	if version == 0 {
		return
	}
	if _, err := migrations.UpTo(t.Context(), version); err != nil {
		t.Fatal(err)
	}
	for _, statement := range former[version] {
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTablesOfANewerProgramAreLeftAlone(t *testing.T) {
	databases.Each(t, func(t *testing.T, at string) {
		db, err := database.Open(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec("INSERT INTO goose_db_version (version_id, is_applied) VALUES (4711, true)"); err != nil {
			t.Fatal(err)
		}
		db.Close()
		_, err = database.Open(t.Context(), at)
		var newer *database.NewerError
		if !errors.As(err, &newer) || newer.Has != 4711 {
			t.Errorf("opening it gives %v", err)
		}
	})
}

func TestTwoMayStartAtTheSameTime(t *testing.T) {
	at := databases.PostgreSQL(t)
	var group sync.WaitGroup
	failures := make([]error, 4)
	for i := range failures {
		group.Go(func() {
			db, err := database.Open(context.Background(), at)
			if err == nil {
				err = db.Close()
			}
			failures[i] = err
		})
	}
	group.Wait()
	if err := errors.Join(failures...); err != nil {
		t.Error(err)
	}
}

func TestSQLiteIsSafeAndGivesSpaceBack(t *testing.T) {
	db, err := database.Open(t.Context(), databases.SQLite(t)+"?&%41 ü.db")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var got []string
	for _, pragma := range []string{"journal_mode", "auto_vacuum", "synchronous"} {
		var value string
		if err := db.QueryRow("PRAGMA " + pragma).Scan(&value); err != nil {
			t.Fatal(err)
		}
		got = append(got, value)
	}
	if want := []string{"wal", "2", "2"}; !slices.Equal(got, want) {
		t.Errorf("journal_mode, auto_vacuum and synchronous are %v, want %v", got, want)
	}
}

func TestAURLWithAPasswordIsInNoError(t *testing.T) {
	for _, at := range []string{"postgres://ledger:hun%zzter2@localhost/x",
		"postgres://ledger:hunter2@127.0.0.1:1/x?connect_timeout=1"} {
		_, err := database.Open(t.Context(), at)
		if err == nil || strings.Contains(err.Error(), "ter2") {
			t.Errorf("opening it gives %v", err)
		}
	}
}
