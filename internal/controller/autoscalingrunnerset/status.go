package autoscalingrunnerset

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/conditions"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// report writes the status, at most once in statusPeriod, and publishes the metrics. A new registration is written at once: otherwise
// the next pass would treat the former address as the present one, and move once more.
func (c *Controller) report(ctx context.Context, p *pass) error {
	if p.released {
		return nil
	}
	c.recordScaling(ctx, p)
	if p.Template.HeldFor > 0 && !p.Moved() {
		p.requeue.After(p.Template.HeldFor)
		return nil
	}
	p.memory.lostJobs = max(p.memory.lostJobs, p.LostJobs())
	if wait := p.memory.statusWrittenAt.Add(statusPeriod).Sub(p.Now); wait > 0 && !p.Moved() {
		p.requeue.After(wait)
		return nil
	}
	after := p.Set.DeepCopy()
	after.Status = p.Status(c.options.Version)
	after.Status.LostJobs = p.memory.lostJobs
	p.memory.shown.Show(p.key, after.Status.Conditions, p.Deleting())
	wrote, err := kube.PatchStatus(ctx, c.options.Client, after, p.Set)
	if wrote {
		p.memory.statusWrittenAt = p.Now
		c.recordTransitions(ctx, p, after)
	}
	return client.IgnoreNotFound(err)
}

// recordTransitions records Events about changed conditions. While the set is being deleted, which is meant to end them, there is only
// one about what keeps it.
func (c *Controller) recordTransitions(ctx context.Context, p *pass, after *v1alpha1.AutoscalingRunnerSet) {
	if p.Deleting() {
		if p.Blocked != "" && !meta.IsStatusConditionTrue(p.Set.Status.Conditions, v1alpha1.ConditionDeletionBlocked) {
			c.recordFarewell(ctx, p, report.Warning(v1alpha1.ReasonForeignFinalizers, "Delete", p.Blocked))
		}
		return
	}
	for _, event := range conditions.Transitions(p.Set.Status.Conditions, after.Status.Conditions) {
		report.RecordEvent(ctx, c.options.Recorder, p.Set, nil, event)
	}
}

// scalingEventPeriod is the shortest time between two Events about scaling. An Event is kept for an hour, so there are at most 60 per
// set, however its jobs come and go. One Event at the end of the period covers all changes in it.
const scalingEventPeriod = time.Minute

// scaling is a set's size as last recorded: by an Event at recordedAt, or, without an Event, as the manager found it when it started.
type scaling struct {
	runners    int
	recordedAt time.Time
}

// recordScaling records an Event if the number of runners that the listener asks for has changed.
func (c *Controller) recordScaling(ctx context.Context, p *pass) {
	runnerSet := p.RunnerSet()
	if runnerSet == nil || p.Deleting() {
		return
	}
	last, spec := p.memory.size, &runnerSet.Spec
	if last == nil {
		// The previous manager recorded the Event about what this one finds when it starts.
		p.memory.size = &scaling{runners: spec.Replicas}
		return
	}
	if last.runners == spec.Replicas {
		return
	}
	if wait := last.recordedAt.Add(scalingEventPeriod).Sub(p.Now); wait > 0 {
		p.requeue.After(wait)
		return
	}
	p.memory.size = &scaling{runners: spec.Replicas, recordedAt: p.Now}
	report.RecordEvent(ctx, c.options.Recorder, p.Set, nil, scaledFrom(last.runners, spec))
}

// scaledFrom returns the Event about the change from a number of runners to the spec's, for the spec's number of jobs.
func scaledFrom(before int, spec *v1alpha1.EphemeralRunnerSetSpec) report.Event {
	reason := "ScaledUp"
	if spec.Replicas < before {
		reason = "ScaledDown"
	}
	limit := ""
	if spec.MaxRunners != nil && spec.Replicas >= *spec.MaxRunners {
		limit = fmt.Sprintf("; maxRunners of %d allows no more", *spec.MaxRunners)
	}
	return report.Normal(reason, "Scale",
		fmt.Sprintf("From %d to %d runners for %d assigned jobs%s", before, spec.Replicas, spec.AssignedJobs, limit))
}
