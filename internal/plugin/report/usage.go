package report

import (
	"strconv"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/internal/output"
	"github.com/harrier-ci/harrier/internal/plugin/ledger"
)

// namesOf returns the columns of names of a group, whose part a row has.
func namesOf[T any](by string, part func(*T) *ledger.Group) []column[T] {
	name := func(head, name string, of func(*ledger.Group) string) column[T] {
		whole := func(row *T) string { return of(part(row)) }
		return named(head, name, whole, whole)
	}
	repository := name("REPOSITORY", "repository", func(g *ledger.Group) string { return g.Repository })
	workflow := named("WORKFLOW", "workflow", func(row *T) string { return part(row).Workflow },
		func(row *T) string { return shortWorkflow(part(row).Repository, part(row).Workflow) })
	return map[string][]column[T]{
		"repository": {repository},
		"workflow":   {repository, workflow},
		"job":        {repository, workflow, name("JOB", "name", func(g *ledger.Group) string { return g.Name })},
		"set": {
			name("", "cluster", func(g *ledger.Group) string { return g.Cluster }),
			name("NAMESPACE", "namespace", func(g *ledger.Group) string { return g.Namespace }),
			name("SCALE SET", "set", func(g *ledger.Group) string { return g.Set }),
		},
		"day": {name("DAY", "day", func(g *ledger.Group) string { return g.Day.Format(time.DateOnly) })},
	}[by]
}

// shortWorkflow returns the name of a workflow's file, or all of its path if it is another repository's.
func shortWorkflow(repository, workflow string) string {
	if file, own := strings.CutPrefix(workflow, repository+"/.github/workflows/"); own {
		return file
	}
	return workflow
}

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
	for _, phase := range ledger.Phases {
		seconds := func(u *ledger.Usage) (string, string) {
			if u.JobsWithKnownWait == 0 {
				return "", ""
			}
			return "", strconv.FormatFloat(u.Waits[phase], 'f', -1, 64)
		}
		columns = append(columns, column[ledger.Usage]{name: phase + "Seconds", of: seconds})
	}
	cost := amount("COST", "cost", 2, func(u *ledger.Usage) float64 { return u.Cost })
	if total.Cost == 0 {
		cost.head = ""
	}
	return &table[ledger.Usage]{columns: append(columns, cost), rows: usage, total: &total}
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
	for _, phase := range ledger.Phases {
		if u.Waits[phase] > most {
			text, most = phase, u.Waits[phase]
		}
	}
	return text, ""
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
