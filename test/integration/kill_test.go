package integration

import (
	"testing"
	"time"

	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

// Manager and listener are killed in the middle of a burst: every job is done once, and nothing is left.
func TestKillsInABurst(t *testing.T) {
	const jobs = 60
	r := rig.Start(t, testkube.Shared(t), rig.Options{MaxRunners: 15, GitHub: fakegithub.Options{JITLatency: 200 * time.Millisecond}})
	ids := r.QueueJobs(jobs, time.Second, 3*time.Second)
	r.AwaitCompleted(ids, 5)
	r.KillManager()
	r.AwaitCompleted(ids, 20)
	r.KillListener()
	r.AwaitCompleted(ids, 35)
	r.KillManager()
	r.KillListener()
	done := r.WaitDone(ids)
	r.AwaitQuiet()
	t.Log(rig.TimingOf(done))
	t.Logf("%d runners were created for %d jobs", r.Requests().Created["ephemeralrunners"], jobs)
}
