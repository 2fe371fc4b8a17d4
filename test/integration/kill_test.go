package integration

import (
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

// Manager and listener are killed in the middle of a burst: every job is done a single time, and nothing is left.
func TestKillsInABurst(t *testing.T) {
	const jobs = 60
	r := rig.Start(t, testkube.Borrow(t), rig.Options{
		MaxRunners: 15,
		GitHub:     fakegithub.Options{JITLatency: 200 * time.Millisecond},
	})
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

// While no manager runs, running jobs end and are reported; with the managers back, the rest is done.
func TestManagersAway(t *testing.T) {
	const jobs = 40
	r := rig.Start(t, testkube.Borrow(t), rig.Options{MaxRunners: 10, ManagerReplicas: 2})
	ids := r.QueueJobs(jobs, time.Second, 2*time.Second)
	r.AwaitCompleted(ids, 5)
	r.StopManager()
	gomega.NewWithT(t).Eventually(func() int { _, busy := online(r); return busy }, rig.Patience).Should(gomega.BeZero())
	r.StartManager()
	r.WaitDone(ids)
	r.AwaitQuiet()
	checkRequests(t, r, jobs)
}

// GitHub lets go of the message session in the middle of a burst.
func TestSessionLost(t *testing.T) {
	const jobs = 40
	r := rig.Start(t, testkube.Borrow(t), rig.Options{MaxRunners: 20})
	ids := r.QueueJobs(jobs, time.Second, 2*time.Second)
	r.AwaitCompleted(ids, 5)
	if evicted := r.GitHub.EvictSessions(0); evicted != 1 {
		t.Errorf("%d sessions were there", evicted)
	}
	r.WaitDone(ids)
	r.AwaitQuiet()
	checkRequests(t, r, jobs)
	checkOneListener(t, r)
}
