package autoscalingrunnerset

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/conditions"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/reconcile"
)

// statusInterval is the shortest time between two writes of a set's status that only move counts. They are a summary of
// the runner set's, which in a burst change with every runner.
const statusInterval = 2 * time.Second

// pace limits the writes of a set's status.
var pace = report.Pace{Figures: statusInterval}

// writeStatus writes the status when its change is due, and publishes the metrics. A new registration is written
// immediately: otherwise the next pass would treat the former address as the present one, and move another time.
func (c *Controller) writeStatus(ctx context.Context, w *world) error {
	if w.released {
		return nil
	}
	c.recordScaling(ctx, w)
	if w.Template.HeldFor > 0 && !w.Moved() {
		w.Requeue.After(w.Template.HeldFor)
		return nil
	}
	w.Memory.lostJobs = max(w.Memory.lostJobs, w.LostJobs())
	after := w.Set.DeepCopy()
	after.Status = w.NextStatus(c.options.Version)
	after.Status.LostJobs = w.Memory.lostJobs
	m := w.Memory
	event, again := m.shown.ShowLimit(w.Key, &w.Findings, &after.Status)
	if w.RequeueAt(again); event != nil {
		report.RecordEvent(ctx, c.options.Recorder, w.Set, nil, *event)
	}
	if !equality.Semantic.DeepEqual(m.described, after.Status) {
		m.described, m.movedAt = *after.Status.DeepCopy(), w.Now
	}
	change := report.ChangeFigures
	if isTurn(&w.Set.Status, &after.Status) || w.Moved() {
		change = report.ChangeTurn
	}
	due := pace.DueAt(change, m.written, w.Now, m.movedAt)
	if change == report.ChangeTurn && !w.Moved() && reconcile.IsStale(w.Set, m.written.Version) {
		due = w.Now.Add(report.TurnInterval)
	}
	if w.Now.Before(due) {
		w.Requeue.After(due.Sub(w.Now))
		return nil
	}
	began := c.options.Clock.Now()
	w.Memory.shown.Show(w.Key, after.Status.Conditions, w.Deleting())
	w.Memory.shown.ShowNumbers(w.Key, &w.Findings)
	wrote, err := kube.PatchStatus(ctx, c.options.Client, after, w.Set)
	if wrote {
		now := c.options.Clock.Now()
		m.written = report.Written{At: now, Took: now.Sub(began), Version: after.ResourceVersion}
		w.rememberJournal(after)
		c.recordTransitions(ctx, w, after)
	}
	return client.IgnoreNotFound(err)
}

// isTurn reports whether the change of a status is one that people or programs wait for.
func isTurn(before, after *v1alpha1.AutoscalingRunnerSetStatus) bool {
	return report.Turned(before.Conditions, after.Conditions) || before.Phase != after.Phase ||
		before.RunnerSpecHash != after.RunnerSpecHash ||
		!equality.Semantic.DeepEqual(before.EffectiveCapacity, after.EffectiveCapacity)
}

// recordTransitions records Events about changed conditions and about schedules. While the set is being deleted its
// conditions end as intended, so the only Event is about what keeps the set.
func (c *Controller) recordTransitions(ctx context.Context, w *world, after *v1alpha1.AutoscalingRunnerSet) {
	if w.Deleting() {
		if w.Blocked != "" && !meta.IsStatusConditionTrue(w.Set.Status.Conditions, v1alpha1.ConditionDeletionBlocked) {
			c.recordFarewell(ctx, w, report.Warning(v1alpha1.ReasonForeignFinalizers, actionDelete, w.Blocked))
		}
		return
	}
	news := append(w.Edges(w.Set.Status.ActiveSchedules, after.Status.ActiveSchedules),
		conditions.Transitions(w.Set.Status.Conditions, after.Status.Conditions)...)
	for _, event := range news {
		report.RecordEvent(ctx, c.options.Recorder, w.Set, nil, event)
	}
}

// One Event about scaling is recorded every scalingEventInterval at most, and covers all changes in it. An Event is
// kept for an hour, so there are at most 60 per set, however its jobs come and go.
const scalingEventInterval = time.Minute

// recordScaling records an Event if the number of runners that there are to be has changed.
func (c *Controller) recordScaling(ctx context.Context, w *world) {
	runnerSet := w.RunnerSet()
	decided := w.DesiredRunners()
	if decided == nil || w.Deleting() {
		return
	}
	last, desired := w.Memory.size, *decided
	if last == nil {
		// The previous manager recorded the Event about what this one finds when it starts.
		w.Memory.size = &scaling{runners: desired}
		return
	}
	if last.runners == desired {
		return
	}
	if wait := last.recordedAt.Add(scalingEventInterval).Sub(w.Now); wait > 0 {
		w.Requeue.After(wait)
		return
	}
	w.Memory.size = &scaling{runners: desired, recordedAt: w.Now}
	report.RecordEvent(ctx, c.options.Recorder, w.Set, nil,
		scaled(last.runners, desired, runnerSet.Spec.AssignedJobs, w.Numbers.Limit()))
}

// scaled returns the Event about a change of the number of runners. jobs is the number of jobs they are for. limit is
// the maximum in force, if there is one.
func scaled(before, after, jobs int, limit *int) report.Event {
	reason := "ScaledUp"
	if after < before {
		reason = "ScaledDown"
	}
	limited := ""
	if limit != nil && after >= *limit {
		limited = fmt.Sprintf("; maxRunners of %d allows no more", *limit)
	}
	return report.Normal(reason, "Scale",
		fmt.Sprintf("From %d to %d runners for %d assigned jobs%s", before, after, jobs, limited))
}
