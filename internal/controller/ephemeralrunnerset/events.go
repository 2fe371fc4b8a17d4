package ephemeralrunnerset

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// unknownJobsAge is how long after a job's end it is news. A manager that has just started tells nothing older.
const unknownJobsAge = 10 * time.Minute

// tellUnknownJobs records an Event about jobs that ended without success on runners that don't exist, if the listener has reported
// another one.
func (c *Controller) tellUnknownJobs(ctx context.Context, p *pass) {
	listener := p.set.Status.Listener
	if listener == nil || listener.UnknownRunnerJobs == nil {
		return
	}
	jobs, told := listener.UnknownRunnerJobs, p.state.toldJobsAt
	if !jobs.LastAt.After(told) || c.options.Clock.Since(jobs.LastAt.Time) > unknownJobsAge {
		return
	}
	p.state.toldJobsAt = jobs.LastAt.Time
	report.RecordEvent(ctx, c.options.Recorder, p.set, nil, report.Warning("UnknownRunnerJob", "ReportJobs", fmt.Sprintf(
		"%d jobs since the listener started have ended without success on runners that don't exist here; the last: %s; "+
			"if the cluster was restored from a backup, or the runner was deleted by force, the job was lost with it: run it again on GitHub",
		jobs.Count, jobs.Last)))
}

// recordEvents records an Event for each condition that became true or false between two states of a set.
func (c *Controller) recordEvents(ctx context.Context, before, after *v1alpha1.EphemeralRunnerSet) {
	for _, conditionType := range []string{v1alpha1.ConditionDegraded, v1alpha1.ConditionRunnerOutdated, v1alpha1.ConditionStatisticsDoubtful} {
		was := meta.IsStatusConditionTrue(before.Status.Conditions, conditionType)
		now := meta.FindStatusCondition(after.Status.Conditions, conditionType)
		switch is := now != nil && now.Status == metav1.ConditionTrue; {
		case is && !was:
			report.RecordEvent(ctx, c.options.Recorder, after, nil, report.Warning(conditionType, "ScaleRunners", now.Message))
		case was && !is:
			report.RecordEvent(ctx, c.options.Recorder, after, nil, report.Normal(now.Reason, "ScaleRunners", now.Message))
		}
	}
}
