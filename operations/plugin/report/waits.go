package report

import (
	"cmp"
	"strconv"
	"time"

	"github.com/harrier-ci/harrier/internal/meaning"
	"github.com/harrier-ci/harrier/internal/output"
	"github.com/harrier-ci/harrier/operations/plugin/ledger"
)

// waitTable is the table of what jobs waited for, by groups or of all jobs together.
func waitTable(by string, waits []ledger.Wait) *table[ledger.Wait] {
	phase := func(w *ledger.Wait) string { return w.Phase }
	seconds := func(head, name string, of func(*ledger.Wait) int64) column[ledger.Wait] {
		return column[ledger.Wait]{head: head, name: name, of: func(w *ledger.Wait) (string, string) {
			return output.Duration(time.Duration(of(w)) * time.Second), strconv.FormatInt(of(w), 10)
		}}
	}
	limit := func(w *ledger.Wait) string { return w.LimitedReason }
	whose := func(w *ledger.Wait) string {
		_, of := meaning.OfPhase(w.Phase)
		text := cmp.Or(of.Whose, "in all")
		if w.LimitedReason != "" {
			text += ": " + meaning.For(w.LimitedReason).InFewWords()
		}
		if w.LimitNumber != nil {
			text += " (" + strconv.FormatInt(*w.LimitNumber, 10) + ")"
		}
		return text
	}
	return &table[ledger.Wait]{rows: waits, columns: append(
		namesOf(by, func(w *ledger.Wait) *ledger.Group { return &w.Group }),
		named("PHASE", "phase", phase, phase),
		named("", "limitedReason", limit, limit),
		column[ledger.Wait]{name: "limitNumber", of: func(w *ledger.Wait) (string, string) {
			if w.LimitNumber == nil {
				return "", ""
			}
			return "", strconv.FormatInt(*w.LimitNumber, 10)
		}},
		count("JOBS", "jobs", func(w *ledger.Wait) int64 { return w.Jobs }),
		column[ledger.Wait]{head: "MEAN", name: "secondsMean", of: func(w *ledger.Wait) (string, string) {
			return output.Duration(time.Duration(w.MeanSeconds * float64(time.Second))),
				strconv.FormatFloat(w.MeanSeconds, 'f', -1, 64)
		}},
		seconds("P50", "secondsP50", func(w *ledger.Wait) int64 { return w.P50Seconds }),
		seconds("P95", "secondsP95", func(w *ledger.Wait) int64 { return w.P95Seconds }),
		named("WHOSE TIME IT IS", "", whose, whose),
	)}
}
