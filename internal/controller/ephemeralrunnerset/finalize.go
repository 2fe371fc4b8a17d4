package ephemeralrunnerset

import (
	"context"
	"slices"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// unseenPause is how long to wait for runners that were created last to be seen, before looking without an event.
const unseenPause = time.Second

// finalize deletes the set's runners and lets the set go when the last is gone, those included that were created last
// and are not visible yet. A runner with a job finishes it first: its own finalization sees to that. The proxy Secret has
// the set as its owner and goes by garbage collection.
func (c *Controller) finalize(ctx context.Context, set *v1alpha1.EphemeralRunnerSet, runners []v1alpha1.EphemeralRunner) (ctrl.Result, error) {
	m := c.memoryOf(set)
	m.unanswered = nil // they are not tried again, so they are expected for a while only
	views := observe(runners, "")
	expected := c.expected(set, m, views)
	switch {
	case len(views) > 0:
		going := slices.DeleteFunc(views, func(r *runner) bool { return r.deleting })
		return ctrl.Result{}, c.drop(ctx, set, m, going, false)
	case expected > 0:
		return ctrl.Result{RequeueAfter: unseenPause}, nil
	default:
		return ctrl.Result{}, kube.RemoveFinalizers(ctx, c.Client, set, v1alpha1.FinalizerEphemeralRunnerSet)
	}
}
