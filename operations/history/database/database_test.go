package database_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/operations/history/database"
	"github.com/harrier-ci/harrier/operations/history/databasetest"
)

func TestMain(m *testing.M) { databasetest.Main(m) }

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
	5: {"INSERT INTO jobs (runner_uid, cluster, namespace, set_name, runner, at, repository, workflow, ref, job_name, " +
		"job_id, event, result, lost_cause, rerun, node, node_type, writer, ending) " +
		"VALUES ('uid-5', 'c', 'n', 's', 'r', 1800000000, 'o/r', 'o/r/w', 'refs/heads/main', 'test', 'id', 'push', 'succeeded', '', '', 'node', 'large', " +
		"'writer', '')",
		"INSERT INTO scale_sets VALUES ('c', 'n', 's', 1800000000)",
		"INSERT INTO writers VALUES ('writer', 'c', 1800000000, 1800000060, NULL)",
		"INSERT INTO stale_periods VALUES (86400, 1799971200, 'c', 'n', 's')"},
	6: {"INSERT INTO jobs (runner_uid, cluster, namespace, set_name, runner, at, repository, workflow, ref, job_name, " +
		"job_id, event, result, lost_cause, rerun, node, node_type, writer, ending) " +
		"VALUES ('uid-6', 'c', 'n', 's', 'r', 1800000000, 'o/r', 'o/r/w', 'refs/heads/main', 'test', 'id', 'push', 'succeeded', '', '', 'node', 'large', " +
		"'writer', '')",
		"INSERT INTO scale_sets VALUES ('c', 'n', 's', 1800000000)",
		"INSERT INTO heartbeats VALUES ('c', 1800000060, 1800000000)",
		"INSERT INTO stale_periods VALUES (86400, 1799971200, 'c', 'n', 's')"},
	7: {"INSERT INTO jobs (runner_uid, cluster, namespace, set_name, runner, at, repository, workflow, ref, job_name, " +
		"job_id, event, result, lost_cause, rerun, node, node_type, writer, ending, elsewhere) " +
		"VALUES ('uid-7', 'c', 'n', 's', 'r', 1800000000, 'o/r', 'o/r/w', 'refs/heads/main', 'test', 'id', 'push', 'succeeded', '', '', 'node', 'large', " +
		"'writer', '', 'Docker')",
		"INSERT INTO scale_sets VALUES ('c', 'n', 's', 1800000000)",
		"INSERT INTO stale_periods VALUES (86400, 1799971200, 'c', 'n', 's')"},
	8: {"INSERT INTO jobs (runner_uid, cluster, namespace, set_name, runner, at, repository, workflow, ref, job_name, " +
		"job_id, event, result, lost_cause, rerun, node, node_type, writer, ending, elsewhere, limited_reason, limit_number, limited_assigned) " +
		"VALUES ('uid-8', 'c', 'n', 's', 'r', 1800000000, 'o/r', 'o/r/w', 'refs/heads/main', 'test', 'id', 'push', 'canceled', '', '', '', '', " +
		"'writer', 'GaveUp', '', 'MaxRunnersReached', 3, 60)",
		"INSERT INTO scale_sets VALUES ('c', 'n', 's', 1800000000)",
		"INSERT INTO stale_periods VALUES (86400, 1799971200, 'c', 'n', 's')"},
	9: {"INSERT INTO jobs (runner_uid, cluster, namespace, set_name, runner, at, repository, workflow, ref, job_name, " +
		"job_id, event, result, lost_cause, rerun, node, node_type, writer, ending, elsewhere, node_labels, extended_resources) " +
		"VALUES ('uid-9', 'c', 'n', 's', 'r', 1800000000, 'o/r', 'o/r/w', 'refs/heads/main', 'test', 'id', 'push', 'succeeded', '', '', 'node', " +
		"'large', 'writer', '', '', 'kubernetes.io/arch=amd64,node.kubernetes.io/instance-type=large', 'nvidia.com/gpu=1')",
		"INSERT INTO scale_sets VALUES ('c', 'n', 's', 1800000000)",
		"INSERT INTO stale_periods VALUES (86400, 1799971200, 'c', 'n', 's')"},
	11: {"INSERT INTO jobs (runner_uid, cluster, namespace, set_name, runner, at, repository, workflow, ref, job_name, " +
		"job_id, event, result, lost_cause, rerun, node, node_type, writer, ending, elsewhere) " +
		"VALUES ('uid-11', 'c', 'n', 's', 'r', 1800000000, 'o/r', 'o/r/w', 'refs/heads/main', 'test', 'id', 'push', 'succeeded', '', '', 'node', 'large', " +
		"'writer', '', '')",
		"INSERT INTO scale_sets VALUES ('c', 'n', 's', 1800000000)",
		"INSERT INTO trend_periods VALUES (3600, 1800000000, 'c', 'n', 's', 'event', 2, 'o/r', 'o/r/w', 'test', 'push', 1, 1, 0, 0, 0, '84:1', '0:1', 1)",
		"INSERT INTO stale_periods VALUES (86400, 1799971200, 'c', 'n', 's')"},
	10: {"INSERT INTO jobs (runner_uid, cluster, namespace, set_name, runner, at, repository, workflow, ref, job_name, " +
		"job_id, event, result, lost_cause, rerun, node, node_type, writer, ending, elsewhere) " +
		"VALUES ('uid-10', 'c', 'n', 's', 'r', 1800000000, 'o/r', 'o/r/w', 'refs/heads/main', 'test', 'id', 'push', 'succeeded', '', '', 'node', 'large', " +
		"'writer', '', '')",
		"INSERT INTO scale_sets VALUES ('c', 'n', 's', 1800000000)",
		"INSERT INTO trend_periods VALUES (3600, 1800000000, 'c', 'n', 's', 'event', 2, 'o/r', 'o/r/w', 'test', 'push', 1, 1, 0, 0, 0, '84:1', '0:1')",
		"INSERT INTO stale_periods VALUES (86400, 1799971200, 'c', 'n', 's')"},
	12: {"INSERT INTO jobs (runner_uid, cluster, namespace, set_name, runner, at, repository, workflow, ref, job_name, " +
		"job_id, event, result, lost_cause, rerun, node, node_type, writer, ending, elsewhere, job_number, rerun_reason, rerun_attempt) " +
		"VALUES ('uid-12', 'c', 'n', 's', 'r', 1800000000, 'o/r', 'o/r/w', 'refs/heads/main', 'test', 'id', 'push', 'failed', 'Evicted', 'Done', 'node', " +
		"'large', 'writer', '', '', 501, '', 2)",
		"INSERT INTO scale_sets VALUES ('c', 'n', 's', 1800000000)",
		"INSERT INTO stale_periods VALUES (86400, 1799971200, 'c', 'n', 's')"},
}

func TestEveryVersionComesUpToDate(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, _ string) {
		for _, version := range append([]int64{0}, slices.Sorted(maps.Keys(former))...) {
			t.Run(fmt.Sprint(version), func(t *testing.T) {
				at := databasetest.SQLite(t)
				if strings.Contains(t.Name(), "PostgreSQL") {
					at = databasetest.PostgreSQL(t)
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
				// Versions 1 and 2 had no wait times, and no weeks; hours of before version 10 have no trends. Databases of later versions have what their ledger has left.
				if want := map[int64]int{1: 1, 2: 2, 4: 2, 5: 1, 6: 1, 7: 1, 8: 1, 9: 1, 10: 1, 11: 1, 12: 1}[version]; stale != want {
					t.Errorf("%d periods of version %d are added up again, want %d", stale, version, want)
				}
				var unfolded, sets int
				if err := db.QueryRow("SELECT (SELECT COUNT(*) FROM unfolded_periods WHERE span > 0 AND namespace = 'n'), "+
					"(SELECT COUNT(*) FROM scale_sets WHERE set_name = 's')").Scan(&unfolded, &sets); err != nil {
					t.Fatal(err)
				}
				if want := map[int64]int{1: 1, 2: 2, 3: 1, 4: 1}[version]; unfolded != want || sets != int(min(version, 1)) {
					t.Errorf("%d periods of version %d are to be folded, want %d; %d scale sets are known", unfolded, version, want,
						sets)
				}
			})
		}
	})
}

// TestEndsThatNobodySawAreMended: a ledger of version 4 ended what ran before a gap when it began, after 63 hours.
func TestEndsThatNobodySawAreMended(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, at string) {
		migrateTo(t, at, 4)
		db, err := database.Connect(at)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		const friday, monday = 1800000000, 1800000000 + 63*3600
		exec := func(text string, values ...any) {
			t.Helper()
			if _, err := db.Exec(text, values...); err != nil {
				t.Fatal(err)
			}
		}
		exec("INSERT INTO gaps VALUES ('c', $1, $2, 'Stopped')", friday, monday)
		exec("INSERT INTO heartbeats VALUES ('c', $1)", monday+9000)
		for uid, job := range map[string]struct {
			at, finished any
			result       string
		}{
			"wrong": {friday - 60, monday + 1, "Unknown"}, "runs": {monday, nil, ""},
			"seen later": {friday - 60, monday + 8000, "Unknown"}, "told": {friday - 60, monday + 1, "failed"},
			"began after": {monday + 1, monday + 20, "Unknown"},
		} {
			exec("INSERT INTO jobs (runner_uid, cluster, namespace, set_name, runner, at, repository, workflow, ref, job_name, "+
				"job_id, event, result, lost_cause, rerun, node, node_type, started, finished) "+
				"VALUES ($1, 'c', 'n', 's', 'r', $2, '', '', '', '', '', '', $4, '', '', '', '', $2, $3)", uid, job.at, job.finished,
				job.result)
		}
		exec("DELETE FROM stale_periods")
		migrated, err := database.Open(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		defer migrated.Close()
		type end struct {
			Finished int64
			Ending   string
			Followed bool
		}
		got := map[string]end{}
		rows, err := db.Query("SELECT runner_uid, COALESCE(finished, 0), ending, writer IN (SELECT writer FROM writers WHERE "+
			"cluster = 'c' AND at = $1 AND ended IS NULL) FROM jobs WHERE runner_uid <> 'uid-4'", monday+9000)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var uid string
			var is end
			if err := rows.Scan(&uid, &is.Finished, &is.Ending, &is.Followed); err != nil {
				t.Fatal(err)
			}
			got[uid] = is
		}
		if diff := cmp.Diff(map[string]end{
			"wrong": {friday, "Unseen", false}, "runs": {0, "", true}, "seen later": {monday + 8000, "RunnerGone", false},
			"told": {monday + 1, "", false}, "began after": {monday + 20, "RunnerGone", false},
		}, got); diff != "" || rows.Err() != nil {
			t.Errorf("ends (-want +got):\n%s%v", diff, rows.Err())
		}
		var stale int
		if err := db.QueryRow("SELECT COUNT(*) FROM stale_periods WHERE span = 3600 AND started IN ($1, $2)",
			friday, monday).Scan(&stale); err != nil || stale != 2 {
			t.Errorf("%d of both hours are added up again, %v", stale, err)
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
	databasetest.Each(t, func(t *testing.T, at string) {
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

// TestAPoolerThatGivesNoSessionIsRefused by name: with it statements and the migrations' lock fail now and then.
func TestAPoolerThatGivesNoSessionIsRefused(t *testing.T) {
	at := databasetest.PostgreSQL(t)
	_, err := database.Open(t.Context(), databasetest.Pooled(t, at, "transaction"))
	var pooler *database.PoolerError
	if !errors.As(err, &pooler) || !strings.Contains(err.Error(), "PgBouncer") {
		t.Errorf("pool_mode = transaction gives %v", err)
	}
	for sessions := range 6 {
		for _, order := range []string{"server_round_robin = 0", "server_round_robin = 1"} {
			busy := databasetest.Pooled(t, at, "transaction", order)
			useSessions(t, busy, sessions)
			if _, err := database.Open(t.Context(), busy); !errors.As(err, &pooler) {
				t.Errorf("with %d sessions of others, %s, it gives %v", sessions, order, err)
			}
		}
	}
	db, err := database.Open(t.Context(), databasetest.Pooled(t, at, "session"))
	if err != nil {
		t.Fatalf("pool_mode = session gives %v", err)
	}
	db.Close()
}

// useSessions has a pooler open some sessions of PostgreSQL, which it keeps for whoever comes next.
func useSessions(t *testing.T, at string, sessions int) {
	t.Helper()
	db, err := database.Connect(at)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(sessions + 1)
	for range sessions {
		busy, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer busy.Rollback()
	}
}

func TestTwoMayStartAtTheSameTime(t *testing.T) {
	at := databasetest.PostgreSQL(t)
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
	db, err := database.Open(t.Context(), databasetest.SQLite(t)+"?&%41 ü.db")
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
