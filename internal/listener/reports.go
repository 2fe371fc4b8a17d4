package listener

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
)

const (
	// reportLimit is how long a report is tried while the API server answers others.
	reportLimit = time.Minute
	// forbiddenLimit is how long a report is tried that is answered with 403. An API server that was just started answers
	// so until it has read the Roles, which takes about a second.
	forbiddenLimit = 15 * time.Second
	// kubernetesLimit ends one request to the API server.
	kubernetesLimit = 10 * time.Second
)

// delivery is what a message tells runners, and what is left to do for it afterwards.
type delivery struct {
	left    *deletion
	reports []jobReport
}

// jobReport is what a runner's status gets to hear about its job.
type jobReport struct {
	runner string
	status v1alpha1.EphemeralRunnerStatus
}

// reportsOf lists a message's reports. A job that started and completed within one message is reported once. An entry
// without a runner is about a job that was taken back before one had it.
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

// longestField is the most bytes of a text about a job that are passed on. Whoever can start a job names it, a matrix can
// make that name as long as it likes, and the texts end in annotations of the runner's pod, which have 256 KiB together.
const longestField = 1024

// cut shortens a text at a whole character.
func cut(text string) string {
	if len(text) <= longestField {
		return text
	}
	const mark = "…"
	return strings.ToValidUTF8(text[:longestField-len(mark)], "") + mark
}

// reporter writes reports, in the order that errands gives them.
type reporter struct {
	cluster Cluster
	clock   clock.Clock
	log     logr.Logger
	// dropped counts reports that were given up, by reason.
	dropped func(reason string)

	mu      sync.Mutex
	errands errands
	// answeredAt is when the API server last took a report.
	answeredAt time.Time
}

func newReporter(cluster Cluster, clk clock.Clock, log logr.Logger, dropped func(string)) *reporter {
	return &reporter{cluster: cluster, clock: clk, log: log, dropped: dropped, errands: errands{byRunner: map[string]*errand{}}}
}

// deliver accepts reports, in the order of its calls, and returns a function that waits until each is written or given
// up, and has to be called. A context that ends gives up the rest; then it says false. All calls have the same context.
func (r *reporter) deliver(ctx context.Context, reports []jobReport) (wait func() bool) {
	var all sync.WaitGroup
	all.Add(len(reports))
	now := r.clock.Now()
	r.mu.Lock()
	r.errands.deliveries++
	for _, report := range reports {
		r.errands.add(report, &all, now)
	}
	r.mu.Unlock()
	r.dispatch(ctx)
	return func() bool {
		all.Wait()
		r.mu.Lock()
		r.errands.deliveries--
		r.mu.Unlock()
		return ctx.Err() == nil
	}
}

// hurry has as many reports written at once as may be from now on.
func (r *reporter) hurry(ctx context.Context) {
	r.mu.Lock()
	r.errands.hurried = true
	r.mu.Unlock()
	r.dispatch(ctx)
}

// dispatch starts as many errands as may be under way.
func (r *reporter) dispatch(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	for next := r.errands.next(now); next != nil; next = r.errands.next(now) {
		go r.write(ctx, next)
	}
}

// write tries once. What is left to do then waits for its turn again.
func (r *reporter) write(ctx context.Context, e *errand) {
	e.turn(r.clock.Now())
	err := r.attempt(ctx, e.jobReport)
	if err != nil && ctx.Err() == nil && !r.givenUp(e, err) {
		r.pause(ctx, e)
		r.dispatch(ctx)
		return
	}
	if err == nil {
		r.tell(e.jobReport)
	}
	r.mu.Lock()
	r.errands.done(e)
	r.mu.Unlock()
	r.dispatch(ctx)
}

// pause lets others write before the next attempt.
func (r *reporter) pause(ctx context.Context, e *errand) {
	r.mu.Lock()
	r.errands.suspend(e)
	r.mu.Unlock()
	r.dispatch(ctx)
	select {
	case <-r.clock.After(e.pauses.next()):
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errands.resume(e, r.clock.Now())
}

// givenUp says that a report will never be taken, and tells whoever wants to know.
func (r *reporter) givenUp(e *errand, err error) bool {
	reason, hopeless := r.hopeless(e, err)
	if hopeless {
		r.log.Error(err, "Report to a runner is given up", "runner", e.runner, "jobID", e.status.JobID, "reason", reason)
		r.dropped(reason)
	}
	return hopeless
}

// tell logs what became of a job, for whoever has only its id: two lines for each at most, and the same again where a message
// came twice.
func (r *reporter) tell(report jobReport) {
	status := &report.status
	log := r.log.WithValues("runner", report.runner, "jobID", status.JobID, "repository", status.JobRepositoryName, "workflowRunID", status.WorkflowRunID)
	if status.JobResult == "" {
		log.Info("Job started")
		return
	}
	log.Info("Job completed", "result", status.JobResult)
}

func (r *reporter) attempt(ctx context.Context, report jobReport) error {
	ctx, cancel := context.WithTimeout(ctx, kubernetesLimit)
	defer cancel()
	err := r.cluster.ReportJob(ctx, report.runner, report.status)
	if err == nil {
		r.answered()
	}
	return err
}

// answered notes that the API server took something of ours.
func (r *reporter) answered() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answeredAt = r.clock.Now()
}

// hopeless says why a report will never be taken: the server said so, or it took others for as long as this one had
// its time. While the server is away everything waits: what runners did meanwhile must not be forgotten.
func (r *reporter) hopeless(e *errand, err error) (reason string, hopeless bool) {
	now := r.clock.Now()
	var status apierrors.APIStatus
	var code int32
	if errors.As(err, &status) {
		code = status.Status().Code
	}
	if code != http.StatusForbidden {
		e.forbidden = time.Time{}
	}
	switch code {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return string(apierrors.ReasonForError(err)), true
	case http.StatusForbidden:
		if e.forbidden.IsZero() {
			e.forbidden = now
		}
		return string(apierrors.ReasonForError(err)), now.Sub(e.forbidden) >= forbiddenLimit
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.answeredAt.After(e.begun) {
		e.begun = now // its minute begins when the server takes others
	}
	return v1alpha1.ReasonTimeout, now.Sub(e.begun) >= reportLimit
}
