package rig

import (
	"fmt"
	"slices"
	"time"

	"github.com/onsi/gomega"

	"github.com/harrier-ci/harrier/internal/fakegithub"
)

// Patience bounds a rig's wait for things that take seconds on an idle machine. Most of them begin with the start of a
// program, which may be built with the race detector and may have to share two cores with everything else.
const Patience = 3 * time.Minute

// A rig that waits for something checks it every interval.
const interval = 100 * time.Millisecond

// Held is the duration of jobs that are to last until the test ends them (see EndJobs), however slow the machine is.
const Held = time.Hour

// QueueJobs queues jobs for the default set and returns their IDs. The jobs take the durations in turn.
func (r *Rig) QueueJobs(count int, durations ...time.Duration) []int64 {
	r.t.Helper()
	return r.QueueJobsFor(DefaultSet, count, durations...)
}

// QueueJobsFor is QueueJobs for another scale set.
func (r *Rig) QueueJobsFor(set string, count int, durations ...time.Duration) []int64 {
	r.t.Helper()
	request := fakegithub.JobRequest{Count: count, ScaleSet: set}
	for _, duration := range durations {
		request.Durations = append(request.Durations, fakegithub.Duration(duration))
	}
	return r.Queue(request)
}

// Queue queues jobs that need more of a request than a count and durations, and returns their IDs.
func (r *Rig) Queue(request fakegithub.JobRequest) []int64 {
	r.t.Helper()
	ids, err := r.GitHub.QueueJobs(request)
	if err != nil {
		r.t.Fatal(err)
	}
	return ids
}

// WaitDone waits until the jobs are completed and returns them. The test fails if that takes longer than Patience or a
// job did not succeed.
func (r *Rig) WaitDone(ids []int64) []fakegithub.Job {
	r.t.Helper()
	gomega.NewWithT(r.t).Eventually(func() int { return len(ids) - len(r.completed(ids)) }, Patience, interval).
		Should(gomega.BeZero(), "jobs not completed")
	jobs := r.completed(ids)
	for _, job := range jobs {
		if job.Result != "succeeded" {
			r.t.Errorf("job %d: %s", job.RequestID, job.Result)
		}
	}
	return jobs
}

// EndJobs ends every running job, again and again until those named are completed, and then does what WaitDone does.
func (r *Rig) EndJobs(ids []int64) []fakegithub.Job {
	r.t.Helper()
	gomega.NewWithT(r.t).Eventually(func() int {
		r.GitHub.EndJobs()
		return len(ids) - len(r.completed(ids))
	}, Patience, interval).Should(gomega.BeZero(), "jobs not completed")
	return r.WaitDone(ids)
}

// AwaitCompleted waits until at least count of the jobs are completed, to reach the middle of a burst.
func (r *Rig) AwaitCompleted(ids []int64, count int) {
	r.t.Helper()
	gomega.NewWithT(r.t).Eventually(func() int { return len(r.completed(ids)) }, Patience, interval).
		Should(gomega.BeNumerically(">=", count), "jobs completed")
}

func (r *Rig) completed(ids []int64) []fakegithub.Job {
	return slices.DeleteFunc(r.GitHub.Jobs("completed"), func(job fakegithub.Job) bool {
		return !slices.Contains(ids, job.RequestID)
	})
}

// Timing has the times from the queueing of jobs to each step, as percentiles.
type Timing struct{ ToRegistered, ToOnline, ToStarted Percentiles }

// Percentiles of a duration.
type Percentiles struct{ P50, P90, Max time.Duration }

// String returns one line for a log.
func (t Timing) String() string {
	return fmt.Sprintf("queued to registered %s, to online %s, to started %s", t.ToRegistered, t.ToOnline, t.ToStarted)
}

// String returns the three in milliseconds.
func (p Percentiles) String() string {
	return fmt.Sprintf("p50 %d p90 %d max %d ms", p.P50.Milliseconds(), p.P90.Milliseconds(), p.Max.Milliseconds())
}

// TimingOf measures the steps of jobs.
func TimingOf(jobs []fakegithub.Job) Timing {
	since := func(moment func(fakegithub.Job) time.Time) Percentiles {
		var durations []time.Duration
		for _, job := range jobs {
			durations = append(durations, moment(job).Sub(job.QueuedAt))
		}
		return percentiles(durations)
	}
	return Timing{
		ToRegistered: since(func(job fakegithub.Job) time.Time { return job.RunnerRegisteredAt }),
		ToOnline:     since(func(job fakegithub.Job) time.Time { return job.RunnerOnlineAt }),
		ToStarted:    since(func(job fakegithub.Job) time.Time { return job.StartedAt }),
	}
}

func percentiles(durations []time.Duration) Percentiles {
	if len(durations) == 0 {
		return Percentiles{}
	}
	slices.Sort(durations)
	at := func(percent int) time.Duration { return durations[(len(durations)-1)*percent/100] }
	return Percentiles{P50: at(50), P90: at(90), Max: at(100)}
}
