package ephemeralrunnerset

import (
	"context"
	"errors"
	"slices"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/kube/requeue"
)

// unseenPause is how long to wait for an event of the runners created last before looking again without one.
const unseenPause = time.Second

// finalize deletes the set's runners, and removes the set's finalizer when the last of them is gone. That includes runners
// that were created last and are not visible yet. A runner with a job finishes it first: its own finalization sees to that.
// The set owns the proxy Secret, which is garbage collected.
func (c *Controller) finalize(ctx context.Context, p *pass) (ctrl.Result, error) {
	p.state = c.setStateOf(p.set)
	p.state.creations.abandon()
	listErr := errors.Join(c.countUnseen(ctx, p), c.tellLost(ctx, p))
	switch {
	case len(p.views) > 0:
		remaining := slices.DeleteFunc(slices.Clone(p.views), func(r *runnerView) bool { return r.deleting })
		err := c.deleteRunners(ctx, p, remaining)
		requeueAt, reportErr := c.reportLeft(ctx, p)
		if err = errors.Join(listErr, err, reportErr); err != nil {
			return ctrl.Result{}, err // an error requeues the set
		}
		p.requeueBy(requeueAt)
		p.requeueBy(p.state.creations.listDueAt())
		return requeue.At(p.requeueAt, c.options.Clock.Now()), nil
	case p.unseen.expected > 0:
		_, reportErr := c.reportLeft(ctx, p)
		if err := errors.Join(listErr, reportErr); err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{RequeueAfter: unseenPause}, nil
	default:
		return ctrl.Result{}, kube.RemoveFinalizers(ctx, c.options.Client, p.set, v1alpha1.FinalizerEphemeralRunnerSet, v1alpha1.FinalizerFormerRunnerSet)
	}
}

// reportLeft keeps the counts in the status correct while the set drains. Its AutoscalingRunnerSet shows how many runners it
// is waiting for, and lets the set that replaces this one use the room of runners that are gone. It returns when to call it
// again, zero if it has done its work.
func (c *Controller) reportLeft(ctx context.Context, p *pass) (time.Time, error) {
	now := c.options.Clock.Now()
	kept, lookAt := c.tellKept(ctx, p, now)
	if due := p.state.reportedAt.Add(reportPeriod); now.Before(due) {
		return kube.EarlierOf(due, lookAt), nil
	}
	before := p.set.DeepCopy()
	report.SetConditions(&p.set.Status.Conditions, p.set.Generation, now, kept...)
	countWithDeleting(&p.set.Status, p.views)
	p.set.Status.Capacity = new(p.set.Status.BusyRunners + 1) // the next set runs further jobs, but the listener must not announce 0
	report.SetConditions(&p.set.Status.Conditions, p.set.Generation, now, p.state.creations.unseenWhileDeleted(p.set)...)
	c.publishLeft(p)
	wrote, err := kube.PatchStatus(ctx, c.options.Client, p.set, before)
	if wrote {
		p.state.reportedAt = now
	}
	return lookAt, client.IgnoreNotFound(err)
}

// publishLeft keeps the metrics correct, too, unless another set has replaced this one: then the metrics belong to that set.
func (c *Controller) publishLeft(p *pass) {
	c.mu.Lock()
	replaced := c.served(p.state.scaleSet, p.state)
	c.mu.Unlock()
	if c.options.PublishMetrics && !replaced {
		p.state.publishCounts(p.set)
		p.state.publishStates(p.set, p.views)
	}
}
