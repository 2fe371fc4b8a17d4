package ephemeralrunnerset

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// unseenPause is how long to wait for runners that were created last to be seen, before looking without an event.
const unseenPause = time.Second

// finalize deletes the set's runners and lets the set go when the last is gone, those included that were created last
// and are not visible yet. A runner with a job finishes it first: its own finalization sees to that. The proxy Secret has
// the set as its owner and goes by garbage collection.
func (c *Controller) finalize(ctx context.Context, p *pass) (ctrl.Result, error) {
	p.memory = c.memoryOf(p.set)
	p.memory.unanswered = nil // they are not tried again, so they are expected for a while only
	expected := c.expected(p)
	switch {
	case len(p.views) > 0:
		going := slices.DeleteFunc(slices.Clone(p.views), func(r *runner) bool { return r.deleting })
		err := c.drop(ctx, p, going, false)
		again, reportErr := c.reportLeft(ctx, p)
		if err = errors.Join(err, reportErr); err != nil {
			return ctrl.Result{}, err // the next pass comes by itself, soon
		}
		return ctrl.Result{RequeueAfter: again}, nil
	case expected > 0:
		return ctrl.Result{RequeueAfter: unseenPause}, nil
	default:
		return ctrl.Result{}, kube.RemoveFinalizers(ctx, c.options.Client, p.set, v1alpha1.FinalizerEphemeralRunnerSet)
	}
}

// reportLeft keeps the counts of a set true while it drains: its AutoscalingRunnerSet tells how many runners it waits
// for, and gives the room of those that are gone to the set that takes this one's place. It returns when to try again.
func (c *Controller) reportLeft(ctx context.Context, p *pass) (time.Duration, error) {
	now := c.options.Clock.Now()
	if wait := p.memory.reported.Add(reportEvery).Sub(now); wait > 0 {
		return wait, nil
	}
	before := p.set.DeepCopy()
	count(&p.set.Status, p.views, true)
	p.set.Status.Capacity = ptr.To(0) // no runner is made any more: jobs stay on GitHub until one can be
	c.publishLeft(p)
	wrote, err := kube.PatchStatus(ctx, c.options.Client, p.set, before)
	if wrote {
		p.memory.reported = now
	}
	return 0, client.IgnoreNotFound(err)
}

// publishLeft keeps the metrics true, too, unless another set has taken this one's place: they are that one's then.
func (c *Controller) publishLeft(p *pass) {
	c.mu.Lock()
	replaced := c.served(p.memory.scaleSet, p.memory)
	c.mu.Unlock()
	if c.options.PublishMetrics && !replaced {
		p.memory.publishCounts(p.set)
		p.memory.publishStates(p.set, p.views)
	}
}
