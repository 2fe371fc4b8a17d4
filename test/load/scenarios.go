package load

import (
	"fmt"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

// scenario is one kind of load.
type scenario struct {
	// jobs is the number of jobs unless -n says otherwise.
	jobs int
	run  func(t *testing.T, cluster *testkube.Cluster, s *settings, jobs int) Result
}

// scenarios are the scenarios by their names for -scenario.
var scenarios = map[string]scenario{
	"check":   {jobs: 100, run: check},
	"burst":   {jobs: 500, run: burst},
	"big":     {jobs: 5000, run: burst},
	"drain":   {jobs: 500, run: drain},
	"latency": {jobs: 20, run: latency},
	"churn":   {jobs: 300, run: churn},
	"soak":    {run: soak},
	"sets":    {jobs: 20, run: manySets},
	"hang":    {jobs: 20, run: hangingSet},
	"limit":   {jobs: 600, run: limited},
	"idle":    {run: idle},
}

// burst queues all jobs at the same time.
func burst(t *testing.T, cluster *testkube.Cluster, s *settings, jobs int) Result {
	result := newResult(s, jobs)
	floor(t, cluster, warmUp, 0)
	before := floor(t, cluster, jobs, s.jit)
	r := rig.Start(t, cluster, s.rigOptions(jobs))
	m := begin(t, r).profiled(s)
	r.QueueJobs(jobs, s.job)
	m.awaitJobs(jobs)
	m.end(&result)
	result.over(jobs, before, floor(t, cluster, jobs, s.jit))
	return result
}

// check is a burst without the floor, because only what does not depend on the machine is checked.
func check(t *testing.T, cluster *testkube.Cluster, s *settings, jobs int) Result {
	result := newResult(s, jobs)
	r := rig.Start(t, cluster, s.rigOptions(jobs))
	m := begin(t, r).profiled(s)
	r.QueueJobs(jobs, s.job)
	m.awaitJobs(jobs)
	m.end(&result)
	return result
}

// drain makes all jobs end at the same time, as when a user cancels them.
func drain(t *testing.T, cluster *testkube.Cluster, s *settings, jobs int) Result {
	result := newResult(s, jobs)
	r := rig.Start(t, cluster, s.rigOptions(jobs))
	m := begin(t, r).profiled(s)
	ids := r.QueueJobs(jobs, time.Hour)
	gomega.NewWithT(t).Eventually(func() int { return r.GitHub.Snapshot().JobsByState["running"] }, patience, look).
		Should(gomega.Equal(jobs), "running jobs")
	for _, id := range ids {
		if err := r.GitHub.CancelJob(id); err != nil {
			t.Fatal(err)
		}
	}
	m.awaitJobs(jobs)
	m.end(&result)
	return result
}

// latency queues jobs one after the other, each on a set without any runner.
func latency(t *testing.T, cluster *testkube.Cluster, s *settings, jobs int) Result {
	result := newResult(s, jobs)
	r := rig.Start(t, cluster, s.rigOptions(10))
	r.QueueJobs(1, 0) // opens connections
	begin(t, r).awaitOneMore()
	m := begin(t, r).profiled(s)
	for done := range jobs {
		r.QueueJobs(1, 0)
		m.awaitJobs(done + 1)
	}
	m.end(&result)
	service := s.latency + s.jit
	result.Notes["p50 beyond the service's own"] = fmt.Sprintf("%.0f ms (of %s)",
		1000*(result.Created.P50-service.Seconds()), service)
	return result
}

// awaitOneMore waits for the job that was queued before the measurement began.
func (m *measurement) awaitOneMore() { m.awaitJobs(1 - min(1, m.known)) }

// churn lets jobs arrive at a steady rate.
func churn(t *testing.T, cluster *testkube.Cluster, s *settings, jobs int) Result {
	result := newResult(s, jobs)
	r := rig.Start(t, cluster, s.rigOptions(jobs))
	m := begin(t, r).profiled(s)
	arrive(t, r, s, jobs, func(int) {})
	m.awaitJobs(jobs)
	m.end(&result)
	return result
}

// soak is a long churn that notes the memory of both programs ten times.
func soak(t *testing.T, cluster *testkube.Cluster, s *settings, _ int) Result {
	jobs := int(s.length.Seconds() * s.rate)
	result := newResult(s, jobs)
	r := rig.Start(t, cluster, s.rigOptions(jobs))
	m := begin(t, r).profiled(s)
	arrive(t, r, s, jobs, func(queued int) {
		if tenth := max(1, jobs/10); queued%tenth == 0 {
			manager, listener := r.Usage(rig.ManagerProgram), r.Usage(rig.ListenerProgram)
			result.Notes[fmt.Sprintf("memory after %6d jobs", queued)] = fmt.Sprintf("manager %d MiB, listener %d MiB",
				manager.Resident>>20, listener.Resident>>20)
		}
	})
	m.awaitJobs(jobs)
	m.end(&result)
	return result
}

// arrive queues jobs one at a time at the rate of the settings, and calls each with the number queued so far.
func arrive(t *testing.T, r *rig.Rig, s *settings, jobs int, each func(queued int)) {
	t.Helper()
	ticker := time.NewTicker(time.Duration(float64(time.Second) / s.rate))
	defer ticker.Stop()
	for i := range jobs {
		<-ticker.C
		r.QueueJobs(1, s.job)
		each(i + 1)
	}
}
