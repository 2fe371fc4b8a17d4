package clusters

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/test/rig"
)

// Two clusters share jobs. One loses its nodes while both are at work: GitHub gives it hardly any more jobs until the
// nodes are back, and the jobs that ran there run again. Then it is drained, and takes jobs again. Each job is done
// exactly once.
func TestTwoClusters(t *testing.T) {
	east, west := startSites(t)
	github := east.GitHub
	eventually := gomega.NewWithT(t).Eventually
	// queue queues jobs as one workflow run. runsOn is the name or the label.
	queue := func(runsOn string, count int, duration time.Duration) []int64 {
		return east.Queue(fakegithub.JobRequest{
			Labels: []string{runsOn}, Count: count, Duration: fakegithub.Duration(duration),
		})
	}
	running := func(ids []int64) func() int {
		return func() int { return len(east.jobs("running", ids)) + len(west.jobs("running", ids)) }
	}

	// Both are new, and announce room for 10 jobs. The east loses its nodes while these are at work. Jobs that it gets
	// before it has noticed wait for the nodes' return.
	atWork := queue(label, 20, rig.Held)
	eventually(running(atWork), rig.Patience).Should(gomega.Equal(20), "jobs at work in both")
	lost := east.jobs("running", atWork)
	if len(lost) != 10 {
		t.Fatalf("%d jobs are at work in the east, want half of them", len(lost))
	}
	east.loseNodes()
	github.EndJobs() // those in the west
	began := time.Now()
	early := queue(label, 20, 0)
	eventually(func() []int64 { return east.jobs("running", lost) }, rig.Patience).Should(gomega.BeEmpty())
	eventually(func() int { return east.announced() - len(east.jobs("assigned", early)) }, rig.Patience).Should(
		gomega.BeNumerically("<=", 1), "jobs for which the east still says that it has room")
	t.Logf("%d jobs were lost; %s later the east announces %d and has %d of the 20 that were queued next",
		len(lost), time.Since(began), east.announced(), len(east.jobs("assigned", early)))
	eventually(func() string { return east.condition(v1alpha1.ConditionCapacityLimited) }, rig.Patience).
		Should(gomega.Equal("True/" + v1alpha1.ReasonPodsUnschedulable))
	late := queue(label, 30, 0)
	eventually(func() int { return len(west.jobs("completed", late)) }, rig.Patience).Should(
		gomega.BeNumerically(">=", 30-probes), "jobs that run in the west while the east has no nodes")

	// They are back. There are three times as many jobs as a cluster has slots. The west draws at most two thirds of
	// them, and keeps those that it can't run. Both are full only if the east finds out bit by bit that it has room for
	// the others.
	east.slots.Store(slots)
	east.WaitDone(slices.Concat(early, late))
	both := queue(name, 3*slots, rig.Held)
	eventually(running(both), rig.Patience).Should(gomega.Equal(2*slots), "jobs at work after the nodes are back")

	// The east is drained: its jobs are done there, new ones in the west.
	east.annotate(v1alpha1.AnnotationDrained, new(v1alpha1.DrainedValue))
	eventually(east.announced, rig.Patience).Should(gomega.Equal(-1), "a session of the drained set")
	drained := func() string { return east.condition(v1alpha1.ConditionDrained) }
	eventually(drained, rig.Patience).Should(gomega.HavePrefix("False/"))
	after := queue(name, 10, 0)
	east.EndJobs(both)
	east.WaitDone(after)
	if got := len(west.jobs("completed", after)); got != 10 {
		t.Errorf("%d of 10 jobs ran in the west while the east was drained", got)
	}
	eventually(drained, rig.Patience).Should(gomega.Equal("True/" + v1alpha1.ReasonDrained))
	east.annotate(v1alpha1.AnnotationDrained, nil)
	east.awaitSession()
	again := queue(name, 3*slots, 0) // more than the west may have
	east.WaitDone(again)
	if len(east.jobs("completed", again)) == 0 {
		t.Error("the east got no job after it was drained")
	}

	checkEachIsDoneOnce(t, east, west, lost)
}

// checkEachIsDoneOnce waits until the lost jobs have run again, and checks that each job was given to a runner a single
// time. A lost job failed, and succeeded in a second attempt of its run; every other succeeded.
func checkEachIsDoneOnce(t *testing.T, east, west *site, lost []int64) {
	t.Helper()
	secondAttempts := func() (jobs []fakegithub.Job) {
		return slices.DeleteFunc(east.GitHub.Jobs("completed"), func(job fakegithub.Job) bool {
			return job.RunAttempt == 1
		})
	}
	eventually := gomega.NewWithT(t).Eventually
	eventually(secondAttempts, rig.Patience).Should(gomega.HaveLen(len(lost)), "second attempts of lost jobs")
	for _, s := range []*site{east, west} {
		eventually(func() ([]string, error) {
			left, err := s.Leftovers(context.Background())
			known := s.Anomalies()
			return slices.DeleteFunc(left, func(what string) bool { return slices.Contains(known, what) }), err
		}, rig.Patience).Should(gomega.BeEmpty(), "left in the "+s.group)
	}
	for _, job := range east.GitHub.Jobs("") {
		want := "succeeded"
		if slices.Contains(lost, job.RequestID) {
			want = "failed"
		}
		if job.Result != want || job.Attempts != 1 {
			t.Errorf("a job was assigned %d times and has %s; want once and %s: %+v", job.Attempts, job.Result,
				want, job)
		}
	}
	for _, anomaly := range east.GitHub.Anomalies() {
		if anomaly.Kind != "RunnerLostBusy" || !slices.Contains(lost, anomaly.JobID) {
			t.Error(anomaly)
		}
	}
}
