package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/meaning"
	"github.com/harrier-ci/harrier/operations/plugin/ledger"
)

// past has what the ledger knows of jobs.
type past struct {
	jobs, ended int
	// results and causes have the numbers of jobs that ended with each result, and were lost to each cause.
	results, causes map[string]int
	// waited has the whole wait of each job, and byPhase the wait for each phase. The ledger has whole seconds.
	waited  []time.Duration
	byPhase map[string][]time.Duration
}

func pastOf(jobs []ledger.Job) past {
	p := past{jobs: len(jobs), results: map[string]int{}, causes: map[string]int{},
		byPhase: map[string][]time.Duration{}}
	for i := range jobs {
		job := &jobs[i]
		if !job.Finished.IsZero() {
			p.ended++
			p.results[job.Result]++
		}
		if job.LostCause != "" {
			p.causes[job.LostCause]++
		}
		waits, waited := job.Waits(), time.Duration(0)
		for _, wait := range waits {
			waited += wait.Took
			p.byPhase[wait.Phase] = append(p.byPhase[wait.Phase], wait.Took)
		}
		if len(waits) > 0 {
			p.waited = append(p.waited, waited)
		}
	}
	return p
}

func (p past) lines() []string {
	spread := func(what string, values []time.Duration) string {
		return fmt.Sprintf("  %-24s p50 %3.0f s   p95 %3.0f s", what, percentile(values, 0.5).Seconds(),
			percentile(values, 0.95).Seconds())
	}
	lines := []string{
		"",
		fmt.Sprintf("  the ledger knows %d jobs of %.0f to %.0f s: %s; lost %s", p.jobs, shortestJob.Seconds(),
			longestJob.Seconds(),
			counted(p.results), counted(p.causes)),
		spread("waited for a runner", p.waited),
	}
	for _, phase := range meaning.Phases() {
		if len(p.byPhase[phase.Name]) > 0 {
			lines = append(lines, spread("  until "+phase.Name, p.byPhase[phase.Name]))
		}
	}
	return lines
}

// counted lists the number of each thing.
func counted(of map[string]int) string {
	var each []string
	for _, what := range slices.Sorted(maps.Keys(of)) {
		each = append(each, fmt.Sprintf("%d %s", of[what], what))
	}
	if len(each) == 0 {
		return "none"
	}
	return strings.Join(each, ", ")
}

// badJobs lists jobs that did not succeed.
func badJobs(jobs []fakegithub.Job) []string {
	var bad []string
	for _, job := range jobs {
		if job.Result != "succeeded" {
			bad = append(bad, fmt.Sprintf("job %d %s %q on runner %q", job.RequestID, job.State, job.Result,
				job.Runner))
		}
	}
	return bad
}
