package integration

import (
	"testing"
	"time"

	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

// One job, from the queue to nothing.
func TestOneJob(t *testing.T) {
	r := rig.Start(t, testkube.Shared(t), rig.Options{})
	jobs := r.WaitDone(r.QueueJobs(1, time.Second))
	r.AwaitQuiet()
	t.Log(rig.TimingOf(jobs))
	t.Logf("requests:\n%s", r.Requests())
}
