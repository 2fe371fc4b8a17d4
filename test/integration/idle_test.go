package integration

import (
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

// Idle runners take jobs immediately and are replaced; fewer are kept when minRunners is lowered.
func TestIdleRunners(t *testing.T) {
	g := gomega.NewWithT(t)
	r := rig.Start(t, testkube.Borrow(t), rig.Options{
		// Surplus runners go when an evaluation 30 s later confirms them, and each empty poll is one.
		MinRunners: 2, GitHub: fakegithub.Options{PollLength: 5 * time.Second},
	})
	awaitIdle(t, r, 2)

	ids := r.QueueJobs(1, rig.Held)
	g.Eventually(func() []int { idle, busy := online(r); return []int{idle, busy} }, rig.Patience).
		Should(gomega.Equal([]int{2, 1}))
	jobs := r.EndJobs(ids)
	if registered := jobs[0].RunnerOnlineAt; registered.After(jobs[0].QueuedAt) {
		t.Errorf("the job's runner came online at %s, after the job was queued at %s", registered, jobs[0].QueuedAt)
	}
	r.AwaitQuiet()
	checkRequests(t, r, 3)

	listener := r.ListenerPod()
	r.UpgradeSet(rig.DefaultSet, rig.Values{"minRunners": 0})
	r.AwaitQuiet()
	if after := r.ListenerPod(); after == nil || after.UID != listener.UID {
		t.Error("the listener pod was replaced for minRunners, which it reads again by itself")
	}
}

// A new template replaces idle runners; those with a job finish it.
func TestTemplateChange(t *testing.T) {
	r := rig.Start(t, testkube.Borrow(t), rig.Options{MinRunners: 2})
	awaitIdle(t, r, 2)
	ids := r.QueueJobs(4, time.Second, 4*time.Second)
	r.AwaitCompleted(ids, 1)
	container := rig.Values{"name": "runner", "image": "changed", "command": []string{"/home/runner/run.sh"}}
	r.UpgradeSet(rig.DefaultSet,
		rig.Values{"template": rig.Values{"spec": rig.Values{"containers": []rig.Values{container}}}})
	r.WaitDone(ids)
	r.AwaitQuiet()
	gomega.NewWithT(t).Eventually(func() (images []string) {
		for _, pod := range r.RunnerPods() {
			images = append(images, pod.Spec.Containers[0].Image)
		}
		return images
	}, rig.Patience).Should(gomega.Equal([]string{"changed", "changed"}))
}

// online counts the runners GitHub can give jobs to, and those that have one.
func online(r *rig.Rig) (idle, busy int) {
	for _, runner := range r.GitHub.Snapshot().Runners {
		switch {
		case runner.Busy:
			busy++
		case runner.Online:
			idle++
		}
	}
	return idle, busy
}
