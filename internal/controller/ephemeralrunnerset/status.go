package ephemeralrunnerset

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/capacity/limits"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/pass"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/reconcile"
)

// reportInterval is the shortest time between two writes of a set's status that only move counts: a burst changes them
// a thousand times.
const reportInterval = time.Second

// pace limits the writes of a set's status. Each publication of the listener makes a new generation, and nobody waits
// for the status to name it.
var pace = report.Pace{Figures: reportInterval, Echo: 5 * time.Second}

// report says what was seen and decided, in the status and by metrics. The counts stay correct while the set drains:
// its AutoscalingRunnerSet shows the number of runners it is waiting for, and lets the set that replaces this one use
// the room of runners that are gone. The metrics then belong to that set. The pass fails, too, if the API server did
// not say which runners exist.
func (c *Controller) report(ctx context.Context, w *world) error {
	set, m := w.Object, w.Memory
	before := set.DeepCopy()
	for _, describe := range c.descriptions(ctx, w) {
		report.SetConditions(&set.Status.Conditions, set.Generation, w.Now, describe(w.pass)...)
	}
	if c.options.PublishMetrics && (!w.deleting() || !c.isReplaced(m)) {
		m.series.publish(m.scaleSet, set, w.pass.Drained(), w.views)
	}
	return errors.Join(w.listErr, c.writeStatus(ctx, w, before))
}

// descriptions are the parts of the status, in the order in which a later one may read an earlier one. Each writes its
// figures into the status of the pass's set and returns its conditions; what was never true is left out.
func (c *Controller) descriptions(ctx context.Context, w *world) []func(*pass.Pass) []metav1.Condition {
	m := w.Memory
	kept := func(p *pass.Pass) []metav1.Condition { return c.keepers.Describe(ctx, p) }
	if w.deleting() {
		return []func(*pass.Pass) []metav1.Condition{
			func(p *pass.Pass) []metav1.Condition { return m.DescribeLeft(&p.Set.Status, p.Set, p.Runners, p.Now) },
			kept,
			c.authors.DescribeLeft,
		}
	}
	return []func(*pass.Pass) []metav1.Condition{
		func(p *pass.Pass) []metav1.Condition { return m.Describe(&p.Set.Status, p.Set, p.Runners, w.plan) },
		w.lease.Describe,
		c.snapshots.Describe,
		w.room.Describe,
		kept,
		c.authors.Describe,
		func(p *pass.Pass) []metav1.Condition { return describeLimit(p, w.limit()) },
	}
}

// limit names what keeps the set from running more jobs, as far as its conditions say by now.
func (w *world) limit() limits.Limit {
	return limits.Of(limits.Seen{
		Conditions: w.Object.Status.Conditions, Drained: w.origin.Drained(), Max: &w.most,
		Assigned: w.Object.Spec.AssignedJobs, Announced: w.Object.Status.Capacity,
	})
}

// describeLimit says in one word why there are not more runners.
func describeLimit(p *pass.Pass, limit limits.Limit) []metav1.Condition {
	p.Set.Status.LimitReason = report.KnownReason(limit.Reason)
	return nil
}

// writeStatus writes the status when its change is due, and then records the Events that go with it.
func (c *Controller) writeStatus(ctx context.Context, w *world, before *v1alpha1.EphemeralRunnerSet) error {
	m := w.Memory
	if !equality.Semantic.DeepEqual(m.described, w.Object.Status) {
		m.described, m.movedAt = *w.Object.Status.DeepCopy(), w.Now
	}
	change := changeOf(&before.Status, &w.Object.Status)
	if change == report.ChangeNone {
		m.changedAt = time.Time{}
		return nil
	}
	kube.SetIfZero(&m.changedAt, w.Now)
	due := pace.DueAt(change, m.reported, m.changedAt, m.movedAt)
	if change == report.ChangeTurn && reconcile.IsStale(before, m.reported.Version) {
		due = w.Now.Add(report.TurnInterval)
	}
	if w.Now.Before(due) {
		w.RequeueAt(due)
		return nil
	}
	began := c.options.Clock.Now() // the pass may have taken longer than a period
	if _, err := kube.PatchStatus(ctx, c.options.Client, w.Object, before); err != nil {
		return client.IgnoreNotFound(err)
	}
	now := c.options.Clock.Now()
	m.reported, m.changedAt = report.Written{At: now, Took: now.Sub(began), Version: w.Object.ResourceVersion},
		time.Time{}
	if !w.deleting() {
		c.recordEvents(ctx, before, w.Object)
	}
	return nil
}

// changeOf returns the kind of change that a write of the status would make. The listener waits for a capacity that
// comes or goes, and the AutoscalingRunnerSet for the phase. A number of runners that are wanted is no news for itself:
// those that are created or go follow within seconds, and both are written together.
func changeOf(before, after *v1alpha1.EphemeralRunnerSetStatus) report.Change {
	if report.Turned(before.Conditions, after.Conditions) || before.Phase != after.Phase ||
		(before.Capacity == nil) != (after.Capacity == nil) {
		return report.ChangeTurn
	}
	if equality.Semantic.DeepEqual(before, after) {
		return report.ChangeNone
	}
	bare := before.DeepCopy()
	bare.ObservedGeneration, bare.Conditions = after.ObservedGeneration, after.Conditions
	bare.Desired, bare.LimitReason = after.Desired, after.LimitReason
	same := equality.Semantic.DeepEqual(report.WithoutGeneration(before.Conditions),
		report.WithoutGeneration(after.Conditions))
	if same && equality.Semantic.DeepEqual(bare, after) {
		return report.ChangeEcho
	}
	return report.ChangeFigures
}

// recordEvents records an Event for each condition that became true or false between two states of a set.
func (c *Controller) recordEvents(ctx context.Context, before, after *v1alpha1.EphemeralRunnerSet) {
	for _, conditionType := range []string{v1alpha1.ConditionDegraded, v1alpha1.ConditionRunnerOutdated,
		v1alpha1.ConditionStatisticsDoubtful} {
		held := meta.IsStatusConditionTrue(before.Status.Conditions, conditionType)
		now := meta.FindStatusCondition(after.Status.Conditions, conditionType)
		switch holds := now != nil && now.Status == metav1.ConditionTrue; {
		case holds && !held:
			report.RecordEvent(ctx, c.options.Recorder, after, nil,
				report.Warning(conditionType, "ScaleRunners", now.Message))
		case held && !holds:
			report.RecordEvent(ctx, c.options.Recorder, after, nil,
				report.Normal(now.Reason, "ScaleRunners", now.Message))
		}
	}
}
