package ephemeralrunner

import (
	"context"

	"github.com/harrier-ci/harrier/internal/kube"
)

// What Events say that was being done.
const (
	actionRun    = "RunPod"
	actionDelete = "Delete"
	actionMark   = "MarkPod"
)

// tell records an Event about the runner and logs it. A runner that simply succeeds has none.
func (c *Controller) tell(ctx context.Context, r *run, event kube.Event) {
	kube.Tell(ctx, c.Recorder, r.EphemeralRunner, nil, event)
}
