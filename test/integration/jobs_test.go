package integration

import (
	"testing"
	"time"

	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

// One job, from the queue to nothing.
func TestOneJob(t *testing.T) {
	r := rig.Start(t, testkube.Borrow(t), rig.Options{})
	jobs := r.WaitDone(r.QueueJobs(1, time.Second))
	r.AwaitQuiet()
	checkRequests(t, r, 1)
	t.Log(rig.TimingOf(jobs))
}

// Jobs of mixed length in the two ways in which GitHub gives them out.
func TestJobsOfMixedLength(t *testing.T) {
	for _, flow := range []fakegithub.Flow{fakegithub.Acquire, fakegithub.AutoAssign} {
		t.Run(string(flow), func(t *testing.T) {
			r := rig.Start(t, testkube.Borrow(t), rig.Options{
				MaxRunners: 8, GitHub: fakegithub.Options{Rules: fakegithub.Rules{Flow: flow}, JITLatency: 100 * time.Millisecond},
			})
			jobs := r.WaitDone(r.QueueJobs(20, 0, 200*time.Millisecond, time.Second, 3*time.Second))
			r.AwaitQuiet()
			checkRequests(t, r, 20)
			t.Log(rig.TimingOf(jobs))
		})
	}
}

// checkRequests fails the test when runners were created beyond the number of jobs, or the charts grant too little.
func checkRequests(t *testing.T, r *rig.Rig, jobs int) {
	t.Helper()
	requests := r.Requests()
	// Fewer is no mistake: a request that the end of its manager cuts off has no answer in the log.
	if created := requests.Created["ephemeralrunners"]; created > jobs {
		t.Errorf("%d runners were created for %d jobs", created, jobs)
	}
	if len(requests.Refused) > 0 {
		t.Errorf("the API server refused: %q", requests.Refused)
	}
	t.Logf("%d requests:\n%s", requests.Total(), requests)
}
