package report

import (
	"fmt"
	"strconv"
	"time"

	"github.com/harrier-ci/harrier/internal/meaning"
	"github.com/harrier-ci/harrier/internal/output"
	"github.com/harrier-ci/harrier/operations/plugin/ledger"
)

// usageTable is the table of usage, with its costs if there are prices.
func usageTable(by string, usage []ledger.Usage, total ledger.Usage) *table[ledger.Usage] {
	columns := append(namesOf(by, func(u *ledger.Usage) *ledger.Group { return &u.Group }),
		count("JOBS", "jobs", func(u *ledger.Usage) int64 { return u.Jobs }),
		count("", "succeeded", func(u *ledger.Usage) int64 { return u.Succeeded }),
		count("FAILED", "failed", func(u *ledger.Usage) int64 { return u.Failed }),
		count("", "canceled", func(u *ledger.Usage) int64 { return u.Canceled }),
		count("LOST", "lost", func(u *ledger.Usage) int64 { return u.Lost }),
		amount("HOURS", "runHours", 1, func(u *ledger.Usage) float64 { return u.RunHours }),
		amount("CPU HOURS", "cpuHoursRequested", 1, func(u *ledger.Usage) float64 { return u.CPUHoursRequested }),
		amount("GIB HOURS", "gibHoursRequested", 1, func(u *ledger.Usage) float64 { return u.GiBHoursRequested }),
		amount("", "cpuHoursUsed", 1, func(u *ledger.Usage) float64 { return u.CPUHoursUsed }),
		count("", "jobsWithKnownUsage", func(u *ledger.Usage) int64 { return u.JobsWithKnownUsage }),
		column[ledger.Usage]{head: "WAIT", of: wait},
		column[ledger.Usage]{head: "LONGEST", of: longestWait},
		count("", "jobsWithKnownWait", func(u *ledger.Usage) int64 { return u.JobsWithKnownWait }),
	)
	for _, phase := range meaning.Phases() {
		seconds := func(u *ledger.Usage) (string, string) {
			if u.JobsWithKnownWait == 0 {
				return "", ""
			}
			return "", strconv.FormatFloat(u.Waits[phase.Name], 'f', -1, 64)
		}
		columns = append(columns, column[ledger.Usage]{name: phase.Name + "Seconds", of: seconds})
	}
	cost := amount("COST", "cost", 2, func(u *ledger.Usage) float64 { return u.Cost })
	unknown := column[ledger.Usage]{head: "UNKNOWN", name: "unpricedHours", of: func(u *ledger.Usage) (string, string) {
		return percent(u.Unknown()), strconv.FormatFloat(u.UnpricedHours, 'g', -1, 64)
	}}
	if total.Cost == 0 {
		cost.head = ""
	}
	if total.Cost == 0 || total.UnpricedHours == 0 {
		unknown.head = ""
	}
	return &table[ledger.Usage]{columns: append(columns, cost, unknown), rows: usage, total: &total}
}

// wait returns the whole wait of jobs, on average.
func wait(u *ledger.Usage) (text, value string) {
	if u.JobsWithKnownWait == 0 {
		return "unknown", ""
	}
	seconds := 0.0
	for _, of := range u.Waits {
		seconds += of
	}
	return output.Duration(time.Duration(seconds * float64(time.Second))), ""
}

// longestWait is the phase that they waited for most.
func longestWait(u *ledger.Usage) (text, value string) {
	text, most := "-", 0.0
	for _, phase := range meaning.Phases() {
		if u.Waits[phase.Name] > most {
			text, most = phase.Name, u.Waits[phase.Name]
		}
	}
	return text, ""
}

// uncosted says what is missing for the costs of jobs, or for a part of them.
func uncosted(usage []ledger.Usage, total *ledger.Usage) (notes []string) {
	var without int64
	for i := range usage {
		if u := &usage[i]; u.RunHours > 0 && u.CPUHoursRequested+u.GiBHoursRequested == 0 {
			without += u.Jobs
		}
	}
	if total.Cost > 0 && total.UnpricedHours > 0 {
		notes = append(notes, fmt.Sprintf("Of %.1f of %.1f hours (%s) the cost is unknown, and in no sum: no rule of "+
			"history.prices fits their node and what they request, or nobody has seen the node.", total.UnpricedHours,
			total.RunHours, percent(total.Unknown())))
	}
	if total.Cost == 0 && total.CPUHoursRequested+total.GiBHoursRequested > 0 {
		notes = append(notes, "There are no costs, because no prices are set for what jobs request: history.prices of the "+
			"controller's chart, or a rule there that fits their nodes and what they request.")
	}
	if total.Jobs > 0 && total.RunHours == 0 {
		notes = append(notes, "There are no costs, because no run time of these jobs is known.")
	}
	if without > 0 {
		notes = append(notes, fmt.Sprintf("%d of %d jobs are in rows whose pods request neither CPU nor memory, so they have no "+
			"cost, whatever the prices: whoever installs the scale set gives the runner container of its template "+
			"resources.requests.", without, total.Jobs))
	}
	return notes
}

// totalOf adds rows up.
func totalOf(usage []ledger.Usage) (total ledger.Usage) {
	seconds := map[string]float64{}
	for i := range usage {
		u := &usage[i]
		total.Jobs += u.Jobs
		total.Succeeded += u.Succeeded
		total.Failed += u.Failed
		total.Canceled += u.Canceled
		total.Lost += u.Lost
		total.RunHours += u.RunHours
		total.CPUHoursRequested += u.CPUHoursRequested
		total.GiBHoursRequested += u.GiBHoursRequested
		total.CPUHoursUsed += u.CPUHoursUsed
		total.JobsWithKnownUsage += u.JobsWithKnownUsage
		total.JobsWithKnownWait += u.JobsWithKnownWait
		total.Cost += u.Cost
		total.UnpricedHours += u.UnpricedHours
		for phase, average := range u.Waits {
			seconds[phase] += average * float64(u.JobsWithKnownWait)
		}
	}
	if total.JobsWithKnownWait > 0 {
		total.Waits = map[string]float64{}
		for phase, sum := range seconds {
			total.Waits[phase] = sum / float64(total.JobsWithKnownWait)
		}
	}
	return total
}
