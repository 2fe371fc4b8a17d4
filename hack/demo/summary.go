package main

import (
	"fmt"
	"time"

	"github.com/harrier-ci/harrier/internal/fakegithub"
)

// measured has the figures of the summary.
type measured struct {
	jobs int
	// podCreated and jobStarted are times since the job was queued.
	podCreated, jobStarted []time.Duration
	// emptied is the time from the end of the last job until no runner is left anywhere.
	emptied time.Duration
}

// measure joins GitHub's times of jobs with the observer's times of pods, which have their runner's name. queued is when the jobs
// were queued by our clock. GitHub's clock may be another machine's, so times of the two are never combined.
func measure(jobs []fakegithub.Job, podSeen map[string]time.Time, queued time.Time) measured {
	m := measured{jobs: len(jobs)}
	for _, job := range jobs {
		if !job.StartedAt.IsZero() {
			m.jobStarted = append(m.jobStarted, job.StartedAt.Sub(job.QueuedAt))
		}
		if seen, known := podSeen[job.Runner]; known {
			m.podCreated = append(m.podCreated, seen.Sub(queued))
		}
	}
	return m
}

// badJobs lists jobs that did not succeed.
func badJobs(jobs []fakegithub.Job) []string {
	var bad []string
	for _, job := range jobs {
		if job.Result != "succeeded" {
			bad = append(bad, fmt.Sprintf("job %d %s %q on runner %q", job.RequestID, job.State, job.Result, job.Runner))
		}
	}
	return bad
}

func (m measured) lines() []string {
	spread := func(what string, values []time.Duration) string {
		return fmt.Sprintf("  %-36s p50 %7s   p95 %7s", what, seconds(percentile(values, 0.5)), seconds(percentile(values, 0.95)))
	}
	return []string{
		"",
		fmt.Sprintf("  %d jobs of %.0f to %.0f s, all succeeded", m.jobs, shortestJob.Seconds(), longestJob.Seconds()),
		spread("job queued → pod created", m.podCreated),
		spread("job queued → job started", m.jobStarted),
		fmt.Sprintf("  %-36s     %7s", "last job completed → no runner left", seconds(m.emptied)),
	}
}
