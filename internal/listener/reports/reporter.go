// Package reports writes what GitHub says about jobs into the status of their runners: a report for each start and each
// end, in the order of the messages, at most a few at the same time. A message is acknowledged after its reports.
package reports

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/listener/cluster"
)

// resultSucceeded is the result of a job that has lost nothing.
const resultSucceeded = "succeeded"

// Reporter writes reports in the order of its queue. It is safe for concurrent use. Make it with New.
type Reporter struct {
	cluster cluster.Cluster
	clock   clock.Clock
	log     logr.Logger
	// dropped counts reports that were given up, by reason. It must be safe for concurrent use.
	dropped func(reason string)

	// mu guards the fields below.
	mu    sync.Mutex
	queue reportQueue
	// The API server last accepted a report or a publication at answeredAt.
	answeredAt time.Time
	// unknown are the jobs that ended without success on runners that don't exist, nil before the first.
	unknown *v1alpha1.UnknownRunnerJobs
}

// New returns a reporter that calls dropped, concurrently, with the reason for which a report was given up.
func New(to cluster.Cluster, clk clock.Clock, log logr.Logger, dropped func(reason string)) *Reporter {
	return &Reporter{
		cluster: to,
		clock:   clk,
		log:     log,
		dropped: dropped,
		queue:   reportQueue{byRunner: map[string]*pendingReport{}},
	}
}

// Deliver accepts reports, in the order of its calls. It returns a function that must be called: it waits until each
// report is written or given up, and returns true. If ctx ends, it gives up the rest and returns false. All calls of a
// reporter must have the same ctx.
func (r *Reporter) Deliver(ctx context.Context, reports []Report) (wait func() bool) {
	var all sync.WaitGroup
	all.Add(len(reports))
	r.change(ctx, func(now time.Time) {
		r.queue.deliveries++
		for _, report := range reports {
			r.queue.add(report, &all, now)
		}
	})
	return func() bool {
		all.Wait()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.queue.deliveries--
		return ctx.Err() == nil
	}
}

// Hold holds back reports about ends of jobs, or releases them. Attempts under way continue.
func (r *Reporter) Hold(ctx context.Context, holding bool) {
	r.change(ctx, func(time.Time) { r.queue.holding = holding })
}

// Drain makes the reporter write as many reports as possible in parallel from now on.
func (r *Reporter) Drain(ctx context.Context) {
	r.change(ctx, func(time.Time) { r.queue.draining = true })
}

// GiveUp makes the reporter give up, after the end of ctx, the reports that are held back.
func (r *Reporter) GiveUp(ctx context.Context) { r.change(ctx, func(time.Time) {}) }

// Answered remembers that the API server has just accepted another write.
func (r *Reporter) Answered() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answeredAt = r.clock.Now()
}

// UnknownJobs returns the jobs that ended without success on runners that don't exist, nil if there are none. The
// result never changes.
func (r *Reporter) UnknownJobs() *v1alpha1.UnknownRunnerJobs {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unknown
}

// change changes the queue, and then starts writing as many reports as it allows. After the end of ctx none is held
// back: each is given up immediately.
func (r *Reporter) change(ctx context.Context, work func(now time.Time)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	work(now)
	r.queue.holding = r.queue.holding && ctx.Err() == nil
	for next := r.queue.next(now); next != nil; next = r.queue.next(now) {
		go r.write(ctx, next)
	}
}

// write makes one attempt. If it fails and may yet succeed, others are written during its pause, and then it is queued
// again.
func (r *Reporter) write(ctx context.Context, p *pendingReport) {
	attempt, cancel := context.WithTimeout(ctx, cluster.RequestTimeout)
	err := r.cluster.ReportJob(attempt, p.Runner, p.Status)
	cancel()
	switch {
	case err == nil:
		r.Answered()
		r.logReport(p.Report)
	case ctx.Err() == nil:
		pause, refused := r.failed(ctx, p, err)
		if refused == "" {
			select {
			case <-r.clock.After(pause):
			case <-ctx.Done():
			}
			r.change(ctx, func(now time.Time) { r.queue.enqueue(p, now) })
			return
		}
		r.log.Error(
			err, "Report to a runner could not be written, giving up",
			"runner", p.Runner, "jobID", p.Status.JobID, "reason", refused,
			"repository", p.Status.JobRepositoryName, "workflowRunID", p.Status.WorkflowRunID,
			"result", p.Status.JobResult,
		)
		r.dropped(refused)
	}
	r.change(ctx, func(now time.Time) { r.queue.done(p, now) })
}

// failed returns the pause before the next attempt, or why there is none.
func (r *Reporter) failed(ctx context.Context, p *pendingReport, err error) (pause time.Duration, refused string) {
	r.change(ctx, func(now time.Time) {
		if pause, refused = r.queue.failed(p, err, r.answeredAt, now); refused != "" {
			r.countUnknown(&p.Report, refused)
		}
	})
	return pause, refused
}

// countUnknown counts a job that ended without success on a runner that doesn't exist. It was lost with the runner,
// unless the runner is gone because a message that came twice has been handled before.
func (r *Reporter) countUnknown(job *Report, reason string) {
	if reason != string(metav1.StatusReasonNotFound) || !job.ended() || job.Status.JobResult == resultSucceeded {
		return
	}
	next := v1alpha1.UnknownRunnerJobs{
		Count:  1,
		LastAt: metav1.NewTime(r.clock.Now()).Rfc3339Copy(),
		Last: cut(fmt.Sprintf(
			"job %q, run %d of %s, ended as %s on runner %s",
			job.Status.JobDisplayName, job.Status.WorkflowRunID, job.Status.JobRepositoryName, job.Status.JobResult,
			job.Runner)),
	}
	if r.unknown != nil {
		next.Count += r.unknown.Count
	}
	r.unknown = &next
}

// logReport logs the start or end of a job, so that a job's ID leads to its runner. Each job has at most two lines, and
// two more if a message is delivered twice.
func (r *Reporter) logReport(report Report) {
	status := &report.Status
	log := r.log.WithValues("runner", report.Runner, "jobID", status.JobID,
		"repository", status.JobRepositoryName, "workflowRunID", status.WorkflowRunID)
	if status.JobResult == "" {
		log.Info("Job started")
		return
	}
	log.Info("Job completed", "result", status.JobResult)
}
