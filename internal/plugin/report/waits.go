package report

import (
	"cmp"
	"strconv"
	"time"

	"github.com/harrier-ci/harrier/internal/output"
	"github.com/harrier-ci/harrier/internal/plugin/ledger"
)

// waitTable is the table of what jobs waited for, by groups or of all jobs together.
func waitTable(by string, waits []ledger.Wait) *table[ledger.Wait] {
	phase := func(w *ledger.Wait) string { return w.Phase }
	seconds := func(head, name string, of func(*ledger.Wait) int64) column[ledger.Wait] {
		return column[ledger.Wait]{head: head, name: name, of: func(w *ledger.Wait) (string, string) {
			return output.Duration(time.Duration(of(w)) * time.Second), strconv.FormatInt(of(w), 10)
		}}
	}
	whose := func(w *ledger.Wait) string { return cmp.Or(ledger.PhaseMeanings[w.Phase], "in all") }
	return &table[ledger.Wait]{rows: waits, columns: append(
		namesOf(by, func(w *ledger.Wait) *ledger.Group { return &w.Group }),
		named("PHASE", "phase", phase, phase),
		count("JOBS", "jobs", func(w *ledger.Wait) int64 { return w.Jobs }),
		seconds("P50", "secondsP50", func(w *ledger.Wait) int64 { return w.SecondsP50 }),
		seconds("P95", "secondsP95", func(w *ledger.Wait) int64 { return w.SecondsP95 }),
		named("WHOSE TIME IT IS", "", whose, whose),
	)}
}
