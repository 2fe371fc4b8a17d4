package ephemeralrunnerset

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// finalize deletes the set's runners and lets the set go when the last is gone. A runner with a job finishes it first:
// its own finalization sees to that. The proxy Secret has the set as its owner and goes by garbage collection.
func (c *Controller) finalize(ctx context.Context, set *v1alpha1.EphemeralRunnerSet, runners []v1alpha1.EphemeralRunner) error {
	if len(runners) == 0 && len(c.expectations.Pending(client.ObjectKeyFromObject(set))) == 0 {
		return kube.RemoveFinalizers(ctx, c.Client, set, v1alpha1.FinalizerEphemeralRunnerSet)
	}
	views := observe(runners, "")
	expected := c.expected(set, views)
	var going []*runner
	for _, r := range views {
		if !r.deleting {
			going = append(going, r)
		}
	}
	if expected > 0 && len(views) == 0 {
		return errRunnersUnseen
	}
	return c.drop(ctx, set, going, false)
}

// errRunnersUnseen brings the set back, with back-off, until runners it created have been seen or their time is up.
var errRunnersUnseen = errors.New("runners that were created last are not visible yet")
