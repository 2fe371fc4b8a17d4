package listener

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
)

const (
	// reportTimeout is how long a report is retried while the API server accepts others.
	reportTimeout = time.Minute
	// kubernetesTimeout ends one request to the API server.
	kubernetesTimeout = 10 * time.Second
)

// delivery is a message with the reports that must be written before it is deleted.
type delivery struct {
	message *unackedMessage
	reports []jobReport
}

// jobReport is what is written into the status of a runner about its job.
type jobReport struct {
	runner string
	status v1alpha1.EphemeralRunnerStatus
}

// reportsOf returns the reports that follow from a message. A job that started and completed within one message is reported once.
// An entry without a runner is about a job that was withdrawn before a runner had it, and is not reported.
func reportsOf(message *actions.Message, patchID int, now time.Time) (reports []jobReport) {
	completed := map[string]bool{}
	for _, job := range message.JobsCompleted {
		completed[job.RunnerName] = true
	}
	for _, job := range message.JobsStarted {
		if job.RunnerName != "" && !completed[job.RunnerName] {
			reports = append(reports, jobReport{job.RunnerName, jobStatus(&job.JobMessageBase, patchID)})
		}
	}
	for _, job := range message.JobsCompleted {
		if job.RunnerName == "" {
			continue
		}
		report := jobReport{job.RunnerName, jobStatus(&job.JobMessageBase, patchID)}
		report.status.JobResult = cut(job.Result)
		if report.status.JobResult == "" {
			report.status.JobResult = "unknown" // an empty result would read as "not completed"
		}
		finished := metav1.NewTime(now)
		report.status.FinishedAt = &finished
		reports = append(reports, report)
	}
	return reports
}

func jobStatus(job *actions.JobMessageBase, patchID int) v1alpha1.EphemeralRunnerStatus {
	return v1alpha1.EphemeralRunnerStatus{
		JobRequestID:      job.RunnerRequestID,
		JobID:             cut(job.JobID),
		JobRepositoryName: cut(job.OwnerName + "/" + job.RepositoryName),
		JobWorkflowRef:    cut(job.JobWorkflowRef),
		WorkflowRunID:     job.WorkflowRunID,
		JobDisplayName:    cut(job.JobDisplayName),
		JobPatchID:        patchID,
	}
}

// maxFieldBytes is how much of each text about a job is passed on. Users choose a job's name, and a matrix can make it arbitrarily
// long. The texts end up in annotations of the runner's pod, which are limited to 256 KiB together.
const maxFieldBytes = 1024

// cut shortens a text to maxFieldBytes, without splitting a character.
func cut(text string) string {
	if len(text) <= maxFieldBytes {
		return text
	}
	const mark = "…"
	return strings.ToValidUTF8(text[:maxFieldBytes-len(mark)], "") + mark
}

// reporter writes reports in the order of its queue.
type reporter struct {
	cluster Cluster
	clock   clock.Clock
	log     logr.Logger
	// dropped counts reports that were given up, by reason. It must be safe for concurrent use.
	dropped func(reason string)

	// mu guards the fields below.
	mu    sync.Mutex
	queue reportQueue
	// answeredAt is when the API server last accepted a report or a publication.
	answeredAt time.Time
	// unknown are the jobs that ended without success on runners that don't exist, nil before the first.
	unknown *v1alpha1.UnknownRunnerJobs
}

func newReporter(cluster Cluster, clk clock.Clock, log logr.Logger, dropped func(string)) *reporter {
	return &reporter{cluster: cluster, clock: clk, log: log, dropped: dropped, queue: reportQueue{byRunner: map[string]*pendingReport{}}}
}

// deliver accepts reports, in the order of its calls. It returns a function that must be called: it waits until each report
// is written or given up, and returns true. If ctx ends, it gives up the rest and returns false. All calls of deliver and drain
// must have the same ctx.
func (r *reporter) deliver(ctx context.Context, reports []jobReport) (wait func() bool) {
	var all sync.WaitGroup
	all.Add(len(reports))
	now := r.clock.Now()
	r.mu.Lock()
	r.queue.deliveries++
	for _, report := range reports {
		r.queue.add(report, &all, now)
	}
	r.mu.Unlock()
	r.dispatch(ctx)
	return func() bool {
		all.Wait()
		r.mu.Lock()
		r.queue.deliveries--
		r.mu.Unlock()
		return ctx.Err() == nil
	}
}

// hold holds back reports about ends of jobs, or releases them. Attempts under way continue.
func (r *reporter) hold(ctx context.Context, holding bool) {
	r.mu.Lock()
	r.queue.holding = holding
	r.mu.Unlock()
	r.dispatch(ctx)
}

// drain makes the reporter write as many reports as possible at once from now on.
func (r *reporter) drain(ctx context.Context) {
	r.mu.Lock()
	r.queue.draining = true
	r.mu.Unlock()
	r.dispatch(ctx)
}

// dispatch starts writing as many reports as the queue allows. Once ctx has ended, none is held back: each is given up at once.
func (r *reporter) dispatch(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue.holding = r.queue.holding && ctx.Err() == nil
	now := r.clock.Now()
	for next := r.queue.next(now); next != nil; next = r.queue.next(now) {
		go r.write(ctx, next)
	}
}

// write makes one attempt. If it fails, the report is queued again after a pause.
func (r *reporter) write(ctx context.Context, p *pendingReport) {
	p.startAttempt(r.clock.Now())
	err := r.attempt(ctx, p.jobReport)
	if err != nil && ctx.Err() == nil {
		now := r.clock.Now()
		p.noteFailure(err, r.lastAnswer(), now)
		reason := p.refusal(err, now)
		if reason == "" {
			r.pause(ctx, p)
			r.dispatch(ctx)
			return
		}
		r.giveUp(p, reason, err)
	}
	if err == nil {
		r.logReport(p.jobReport)
	}
	r.mu.Lock()
	r.queue.done(p)
	r.mu.Unlock()
	r.dispatch(ctx)
}

// pause lets other reports be written until p's pause is over, then queues p again.
func (r *reporter) pause(ctx context.Context, p *pendingReport) {
	r.mu.Lock()
	r.queue.suspend(p)
	r.mu.Unlock()
	r.dispatch(ctx)
	select {
	case <-r.clock.After(p.pauses.next()):
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue.resume(p, r.clock.Now())
}

// giveUp logs and counts that a report is dropped.
func (r *reporter) giveUp(p *pendingReport, reason string, err error) {
	r.log.Error(err, "Report to a runner could not be written, giving up", "runner", p.runner, "jobID", p.status.JobID, "reason", reason,
		"repository", p.status.JobRepositoryName, "workflowRunID", p.status.WorkflowRunID, "result", p.status.JobResult)
	r.dropped(reason)
	if reason == string(metav1.StatusReasonNotFound) && p.ended() && p.status.JobResult != resultSucceeded {
		r.noteUnknown(&p.jobReport)
	}
}

// noteUnknown notes a job that ended without success on a runner that doesn't exist. It was lost with the runner, unless the runner
// is gone because a message that came twice has been handled before.
func (r *reporter) noteUnknown(job *jobReport) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := v1alpha1.UnknownRunnerJobs{Count: 1, LastAt: metav1.NewTime(r.clock.Now()).Rfc3339Copy(), Last: cut(fmt.Sprintf(
		"job %q, run %d of %s, ended as %s on runner %s",
		job.status.JobDisplayName, job.status.WorkflowRunID, job.status.JobRepositoryName, job.status.JobResult, job.runner))}
	if r.unknown != nil {
		next.Count += r.unknown.Count
	}
	r.unknown = &next
}

// unknownJobs returns the jobs that ended without success on runners that don't exist, nil if there are none. The result never
// changes.
func (r *reporter) unknownJobs() *v1alpha1.UnknownRunnerJobs {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unknown
}

// logReport logs the start or end of a job, so that a job's ID leads to its runner. Each job has at most two lines, and two more if
// a message is delivered twice.
func (r *reporter) logReport(report jobReport) {
	status := &report.status
	log := r.log.WithValues("runner", report.runner, "jobID", status.JobID,
		"repository", status.JobRepositoryName, "workflowRunID", status.WorkflowRunID)
	if status.JobResult == "" {
		log.Info("Job started")
		return
	}
	log.Info("Job completed", "result", status.JobResult)
}

func (r *reporter) attempt(ctx context.Context, report jobReport) error {
	ctx, cancel := context.WithTimeout(ctx, kubernetesTimeout)
	defer cancel()
	err := r.cluster.ReportJob(ctx, report.runner, report.status)
	if err == nil {
		r.answered()
	}
	return err
}

// answered notes that the API server has just accepted a write.
func (r *reporter) answered() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answeredAt = r.clock.Now()
}

// lastAnswer returns when the API server last accepted a report or a publication.
func (r *reporter) lastAnswer() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.answeredAt
}
