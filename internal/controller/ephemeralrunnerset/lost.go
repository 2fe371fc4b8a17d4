package ephemeralrunnerset

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"regexp"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/setmetrics"
)

// A runner's status.lostCause is the record of a lost job. The set counts each such runner a single time: one patch, conditional on
// the resourceVersion that was seen, raises lostJobs and adds the runners to lostRunners. A runner's object doesn't go before that,
// so neither a restart nor a stale cache makes a job count twice or never.

// lostEventsAtOnce is how many lost jobs have an Event of their own if many are lost together, as with a zone; another Event has the
// number of the others.
const lostEventsAtOnce = 10

// reasonJobLost is the reason of the Event about a lost job.
const reasonJobLost = "JobLost"

var jobsLost = setmetrics.Counter("jobs_lost_total",
	"Jobs that were lost, by cause: their pods ended before GitHub had a result from the runner.", "cause")

// countLost counts the lost jobs that have not been counted yet, and then tells them by metric and Event. The count goes on from the
// AutoscalingRunnerSet's, which outlives a runner set.
func (c *Controller) countLost(ctx context.Context, w *world) error {
	set, m := w.Object, w.Memory
	counted := sets.New(set.Status.LostRunners...)
	var lost []*roster.Runner
	var still []types.UID
	for _, r := range w.views {
		switch {
		case counted.Has(r.UID):
			still = append(still, r.UID)
		case r.Lost():
			lost = append(lost, r)
		}
	}
	if len(lost) == 0 && len(still) == len(set.Status.LostRunners) {
		return nil
	}
	if due := m.lostCountedAt.Add(reportPeriod); w.Now.Before(due) {
		w.RequeueAt(due)
		return nil
	}
	if w.originErr != nil {
		return w.originErr
	}
	before := set.DeepCopy()
	set.Status.LostJobs += len(lost)
	if w.origin != nil {
		set.Status.LostJobs = max(before.Status.LostJobs, w.origin.Status.LostJobs) + len(lost)
	}
	for _, r := range lost {
		still = append(still, r.UID)
	}
	set.Status.LostRunners = still
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.options.Client.Status().Patch(ctx, set, patch); err != nil {
		before.DeepCopyInto(set)
		w.RequeueAt(w.Now.Add(reportPeriod))
		if kube.IgnoreOvertaken(err) == nil {
			return nil
		}
		return fmt.Errorf("count lost jobs: %w", err)
	}
	m.lostCountedAt = c.options.Clock.Now()
	c.recordLost(ctx, w, lost)
	return nil
}

// recordLost tells about lost jobs that have just been counted, on the AutoscalingRunnerSet, because that is where a user looks.
func (c *Controller) recordLost(ctx context.Context, w *world, lost []*roster.Runner) {
	var about runtime.Object = w.Object
	if w.origin != nil {
		about = w.origin
	}
	for i, r := range lost {
		jobsLost.WithLabelValues(w.Memory.scaleSet.Name, w.Memory.scaleSet.Namespace, string(r.LostJob.Cause)).Inc()
		runner := &v1alpha1.EphemeralRunner{}
		if i >= lostEventsAtOnce || c.options.Client.Get(ctx, client.ObjectKey{Namespace: w.Object.Namespace, Name: r.Name}, runner) != nil {
			continue // the last Event counts it
		}
		report.RecordEvent(ctx, c.options.Recorder, about, runner, report.Warning(reasonJobLost, "RunJobs", lostNote(runner, r.LostJob.Cause)))
	}
	if more := len(lost) - lostEventsAtOnce; more > 0 {
		report.RecordEvent(ctx, c.options.Recorder, about, w.Object, report.Warning(reasonJobLost, "RunJobs", fmt.Sprintf(
			"%d more jobs were lost at the same time: kubectl get ephemeralrunners -n %s lists the latest with their causes for an hour; "+
				"run them again on GitHub", more, w.Object.Namespace)))
	}
}

// lostNote names a lost job, its cause and what its author can do. Every text in it comes from GitHub or a user and may be long; the
// advice must not be cut off.
func lostNote(runner *v1alpha1.EphemeralRunner, cause v1alpha1.LostCause) string {
	status := &runner.Status
	job := "a job that GitHub has not named"
	if status.HadJob() {
		job = fmt.Sprintf("job %q of %s (workflow %s, run %d, job id %s)", report.Truncate(status.JobDisplayName, 120),
			report.Truncate(status.JobRepositoryName, 140), report.Truncate(cmp.Or(status.JobWorkflowRef, "unknown"), 160),
			status.WorkflowRunID, report.Truncate(cmp.Or(status.JobID, fmt.Sprint(status.JobRequestID)), 60))
	}
	return fmt.Sprintf("%s was lost on runner %s: %s: %s; its author can run it again: %s", job, runner.Name, cause,
		report.Truncate(status.Message, 240), runPage(runner))
}

// repositoryName is what GitHub allows in OWNER/REPO.
var repositoryName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}$`)

// runPage returns the address of the job's workflow run, or where to look for it.
func runPage(runner *v1alpha1.EphemeralRunner) string {
	address, err := url.Parse(runner.Spec.GitHubConfigUrl)
	if err != nil || address.Host == "" || runner.Status.WorkflowRunID <= 0 || !repositoryName.MatchString(runner.Status.JobRepositoryName) {
		return "on the page of its workflow run on GitHub"
	}
	return fmt.Sprintf("%s://%s/%s/actions/runs/%d", address.Scheme, address.Host, runner.Status.JobRepositoryName, runner.Status.WorkflowRunID)
}
