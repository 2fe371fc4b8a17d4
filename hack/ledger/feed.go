package main

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/operations/history/database"
	"github.com/harrier-ci/harrier/operations/history/histogram"
	"github.com/harrier-ci/harrier/operations/history/ledger"
)

const (
	// weeks of 42,000 jobs an hour, of which each tenth has a new name, are fed as sums: 28 million rows of jobs would say
	// nothing else.
	weeks        = 4
	sets         = 20
	kindsOfSet   = 60  // that repeat
	newInAnHour  = 210 // names of a set: 42,000 / 10 / 20
	keptInADay   = 500 // kinds of a set: the ledger's limit
	hoursFed     = 48  // the last of them are hours, and those before them days
	secondsInDay = 86400
)

// fedColumns are those of sums that are fed; a later version's others have their defaults.
const fedColumns = "span, started, cluster, namespace, set_name, repository, workflow, job_name, jobs, succeeded, failed, canceled, lost, " +
	"measured, run_seconds, cpu_requested, memory_requested, cpu_used, waited, wait_assigned, wait_created, wait_registered, " +
	"wait_placed, wait_image_pulled, wait_container_up, wait_started, cpu_request_millis, memory_request_bytes, peak_memory, " +
	"cpu_average, throttled, wait_times, machine_amounts, position"

// feed writes what the ledger keeps of four weeks, and has it add them up.
func feed(ctx context.Context, l *ledger.Ledger, at string) error {
	began := time.Now()
	db, err := database.Connect(at)
	if err != nil {
		return err
	}
	defer db.Close()
	rows := 0
	first := now.AddDate(0, 0, -7*weeks).Truncate(24 * time.Hour)
	for day := first; day.Before(now); day = day.AddDate(0, 0, 1) {
		step, kinds := 24*time.Hour, keptInADay
		if now.Sub(day) < hoursFed*time.Hour {
			step, kinds = time.Hour, kindsOfSet+newInAnHour
		}
		if repeat {
			kinds = kindsOfSet
		}
		for started := day; started.Before(day.Add(24*time.Hour)) && started.Before(now); started = started.Add(step) {
			written, err := feedPeriod(ctx, db.DB, started.Unix(), int64(step.Seconds()), kinds)
			if err != nil {
				return fmt.Errorf("feed sums: %w", err)
			}
			rows += written
		}
	}
	fmt.Printf("%d rows of sums were fed in %.0f s\n", rows, time.Since(began).Seconds())
	began = time.Now()
	forgetPeak()
	if err := l.Fold(ctx); err != nil { // makes the sums of whole sets
		return err
	}
	if err := l.AddUp(ctx); err != nil {
		return err
	}
	fmt.Printf("they were added up in %.0f s, with %.0f MiB of memory at most\n", time.Since(began).Seconds(), peak())
	return nil
}

// feedTrends writes the sums of a kind by event and by branch. of is what stands in a row besides, from the repository on, in
// the order of the statement.
func feedTrends(ctx context.Context, changing *sql.Stmt, span, started int64, repository, workflow, name string, of ...any) error {
	for property, value := range map[string]string{"event": "push", "branch": "main"} {
		row := append([]any{property, span, started, repository, workflow, name, value}, of...)
		if _, err := changing.ExecContext(ctx, row...); err != nil {
			return err
		}
	}
	return nil
}

// feedPeriod writes the sums of all sets in a period, beside those of the million jobs, and marks what is to be made of
// them.
func feedPeriod(ctx context.Context, db *sql.DB, started, span int64, kinds int) (rows int, err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }()
	insert, err := tx.PrepareContext(ctx, "INSERT INTO usage_periods ("+fedColumns+") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, "+
		"$9, $9, 0, 0, 0, $9, $10, $11, $12, $11, $9, $9, $9, $9, $9, $9, $9, $9, 2000, 4294967296, $13, $14, $15, $16, $17, $18) "+
		"ON CONFLICT DO NOTHING")
	if err != nil {
		return 0, err
	}
	changing, err := tx.PrepareContext(ctx, "INSERT INTO trend_periods (property, span, started, repository, workflow, job_name, "+
		"value, cluster, namespace, set_name, jobs, succeeded, failed, canceled, lost, run_times, wait_times, position) VALUES ($1, $2, "+
		"$3, $4, $5, $6, $7, $8, $9, $10, $11, $11, 0, 0, 0, $12, $12, $13) ON CONFLICT DO NOTHING")
	if err != nil {
		return 0, err
	}
	for set := range sets {
		one := job(set, now)
		for kind := range kinds {
			jobs := int64(1)
			service := set + sets*(kind%10)
			repository := fmt.Sprintf("acme/service-%d", service)
			name := fmt.Sprintf("test %08x%08x%024x", started, set, kind)
			if kind < kindsOfSet {
				jobs, name = 30*span/3600, []string{"build", "test", "lint"}[kind/10%3]
			}
			var figures histogram.Histogram
			for i := range min(jobs, 40) {
				figures.Add(1000 + 97*i)
			}
			text := figures.String()
			waits := text + ";" + text + ";" + text + ";" + text + ";" + text + ";" + text + ";" + text + ";" + text
			ran := amounts(machines[kind%len(machines):][:1], jobs)
			if kind < kindsOfSet {
				ran = amounts(machines, jobs/int64(len(machines)))
			}
			if _, err := insert.ExecContext(ctx, span, started, one.Cluster, fmt.Sprintf("team-%d", service%5),
				fmt.Sprintf("linux-%d", set), repository, fmt.Sprintf("%s/.github/workflows/%d.yaml", repository, kind/30%2),
				name, jobs, 480*jobs, 960_000*jobs, 1_966_080*jobs, text, text, text, waits, ran, kind); err != nil {
				return 0, err
			}
			rows++
			if kind >= keptInADay/2 { // of trends half as many are kept
				continue
			}
			if err := feedTrends(ctx, changing, span, started, repository,
				fmt.Sprintf("%s/.github/workflows/%d.yaml", repository, kind/30%2), name, one.Cluster,
				fmt.Sprintf("team-%d", service%5), fmt.Sprintf("linux-%d", set), jobs, text, kind); err != nil {
				return 0, err
			}
		}
		of := []any{one.Cluster, fmt.Sprintf("team-%d", set%5), fmt.Sprintf("linux-%d", set)}
		if _, err := changing.ExecContext(ctx, append([]any{"set", span, started, "", "", "", ""}, append(of, 2100*span/3600,
			"84:2000 200:100", 0)...)...); err != nil {
			return 0, err
		}
		if err := markFed(ctx, tx, span, started, of); err != nil {
			return 0, err
		}
	}
	return rows, tx.Commit()
}

// markFed marks what is to be made of the sums of a set in a period: the longer period, and the sums of the whole set.
func markFed(ctx context.Context, tx *sql.Tx, span, started int64, set []any) error {
	longer := int64(7 * secondsInDay)
	if span < secondsInDay {
		longer = secondsInDay
	}
	for table, period := range map[string][2]int64{
		"stale_periods": {longer, started - started%longer}, "unfolded_periods": {span, started},
	} {
		if _, err := tx.ExecContext(ctx, "INSERT INTO "+table+" VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING",
			append([]any{period[0], period[1]}, set...)...); err != nil {
			return err
		}
	}
	return nil
}

// amounts are what so many jobs requested on each of some machines, in the form of the database.
func amounts(of []string, jobs int64) string {
	var texts []string
	for _, labels := range slices.Sorted(slices.Values(of)) {
		texts = append(texts, fmt.Sprintf("%s||%d,%d,%d", labels, 480*jobs, 960_000*jobs, 1_966_080*jobs))
	}
	return strings.Join(texts, ";")
}

// forgetPeak has the kernel forget how much memory the process has had.
func forgetPeak() { _ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) }

// peak returns the most memory that the process has had in RAM (VmHWM), in MiB: heap, SQLite's pages and the program.
func peak() float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, after, _ := bytes.Cut(status, []byte("VmHWM:"))
	kib, _ := strconv.ParseFloat(string(bytes.Fields(after)[0]), 64)
	return kib / 1024
}
