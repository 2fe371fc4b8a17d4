package chaos

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/testkube/fakenode"
	"github.com/harrier-ci/harrier/test/rig"
)

const (
	// All lost jobs have to be decided about within rerunTime: the first minute is left to other losses, and nobody
	// leads for 15 s whenever the manager is killed.
	rerunTime = 6 * time.Minute
	// The manager is killed rerunKills times meanwhile, each time just after something was written down or asked for.
	rerunKills = 8
	// rerunLostAfter exceeds the time without a leader after a kill, as GitHub's ten minutes do.
	rerunLostAfter = 45 * time.Second
)

// While evicted jobs are run again, the manager is killed whenever it has just written down an intent, asked GitHub, or
// noted an end, and half of GitHub's answers are lost: each lost job has exactly one second attempt, or an Event says
// why not, and no other job runs again.
func TestLostJobsRunAgainOnceUnderKills(t *testing.T) {
	w := newWorld(t, schedule{seed: 2, maxRunners: 24, managers: 1, reruns: true})
	w.began = time.Now()
	ctx, stop := context.WithCancel(context.Background())
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		w.observer.run(ctx)
	}()
	defer func() { stop(); <-watched }()

	const long, short = 20, 4
	for range 12 {
		w.queue([]time.Duration{rig.Held})
	}
	for range short {
		w.queue([]time.Duration{time.Second, rig.Held, rig.Held})
	}
	// Only runners that GitHub has at work are hit: each of them loses a job.
	busy := func() []types.NamespacedName {
		jobs := w.rig.GitHub.Jobs("running")
		return slices.DeleteFunc(w.observer.runnerPods(), func(pod types.NamespacedName) bool {
			return !slices.ContainsFunc(jobs, func(job fakegithub.Job) bool { return job.Runner == pod.Name })
		})
	}
	if !w.await(jobsTime, func() bool { return len(w.rig.GitHub.Jobs("completed")) == short && len(busy()) == long }) {
		t.Fatalf("%d jobs run, %d are completed", len(w.rig.GitHub.Jobs("running")), len(w.rig.GitHub.Jobs("completed")))
	}
	victims := w.some(busy(), 70)
	w.take(victims)
	evicted, deleted := victims[:len(victims)/2], victims[len(victims)/2:]
	// Without a word to GitHub, which notices later, and says that the jobs failed.
	w.hit(evicted, func(pod types.NamespacedName) error {
		return w.rig.Node.Evict(pod, "The node was low on resource: memory.")
	})
	// These runners are told, and cancel their jobs.
	w.deleteAll(&corev1.Pod{}, deleted)
	w.logf("evicted: %v, deleted: %v", evicted, deleted)
	if _, err := w.rig.GitHub.AddFault(fakegithub.Fault{Endpoint: "rerun-failed-jobs", Drop: fakegithub.DropAfter,
		Probability: 0.5}); err != nil {
		t.Fatal(err)
	}

	// That a job was lost is written down before it can be run again; which kills that survives is for TestChaos.
	noted := func() bool {
		states, _ := w.rerunStates()
		return len(states) == len(victims)
	}
	if !w.await(jobsTime, noted) {
		t.Fatal("not all lost jobs are noted")
	}

	kills, seen := 0, map[string]v1alpha1.RerunState{}
	attempts := 0
	decided := func() bool {
		w.rig.GitHub.EndJobs() // a run with lost jobs can run again only when its other jobs have ended
		states, undecided := w.rerunStates()
		now := len(w.rig.GitHub.Jobs(""))
		changed := now != attempts
		for runner, state := range states {
			changed = changed || seen[runner] != state
		}
		seen, attempts = states, now
		if changed && kills < rerunKills && len(w.observer.managerPods()) > 0 {
			pods := w.observer.managerPods()
			killed := w.kill(pods, "manager", (*fakenode.Node).Kill)
			kills += len(killed)
			w.logf("killed when %v: %v", states, killed)
			// Another pod takes its place immediately, without the back-off of a container.
			w.hit(pods, func(pod types.NamespacedName) error {
				return w.rig.Node.Evict(pod, "The node was low on resource: memory.")
			})
		}
		return len(states) > 0 && undecided == 0 && w.allCompleted()
	}
	if !w.await(rerunTime, decided) {
		w.errorf("not decided: %v", seen)
	}
	w.logf("%d kills", kills)
	w.checkReruns()
}

// rerunStates returns the states of the reruns of lost jobs, by their runners, and the number of those that are
// undecided.
func (w *world) rerunStates() (states map[string]v1alpha1.RerunState, undecided int) {
	var runners v1alpha1.EphemeralRunnerList
	w.request(func(ctx context.Context) error {
		return w.cluster.Client().List(ctx, &runners, client.InNamespace(w.rig.RunnerNamespace))
	})
	states = map[string]v1alpha1.RerunState{}
	for i := range runners.Items {
		status := &runners.Items[i].Status
		if status.LostCause == "" {
			continue
		}
		state := v1alpha1.RerunState("")
		if status.Rerun != nil {
			state = status.Rerun.State
		}
		states[runners.Items[i].Name] = state
		if state != v1alpha1.RerunDone && state != v1alpha1.RerunGivenUp {
			undecided++
		}
	}
	return states, undecided
}

func (w *world) allCompleted() bool {
	return len(w.rig.GitHub.Jobs("completed")) == len(w.rig.GitHub.Jobs(""))
}

// checkReruns compares what GitHub was asked for with what it says of the jobs and with the Events.
func (w *world) checkReruns() {
	w.t.Helper()
	told := w.toldNotToRunAgain()
	lost, again, given := map[int64]int{}, map[int64]int{}, map[int64]int{}
	for _, job := range w.rig.GitHub.Jobs("") {
		if job.RunAttempt > 1 {
			again[job.RunID]++
			if job.Result != "succeeded" {
				w.errorf("the second attempt of a job of run %d ended as %s", job.RunID, job.Result)
			}
		}
		if job.RunAttempt > 1 || job.Result == "succeeded" {
			continue
		}
		lost[job.RunID]++
		if notes := told[job.Runner]; len(notes) > 0 {
			given[job.RunID]++
			w.logf("not run again: %q", notes)
		}
	}
	for run, count := range lost {
		if again[run]+given[run] != count {
			w.errorf("run %d: %d jobs were lost, %d ran again, %d were told not to", run, count, again[run], given[run])
		}
	}
	for run, count := range again {
		if lost[run] == 0 {
			w.errorf("run %d: %d jobs ran again, and none was lost", run, count)
		}
	}
	w.logf("runs with lost jobs: %d, with jobs that ran again: %d", len(lost), len(again))
	if len(again) < 3 {
		w.errorf("too few for a test")
	}
}

// toldNotToRunAgain returns the Events with the reasons why jobs are not run again, by their runners.
func (w *world) toldNotToRunAgain() map[string][]string {
	var events eventsv1.EventList
	w.request(func(ctx context.Context) error {
		return w.cluster.Client().List(ctx, &events, client.InNamespace(w.rig.RunnerNamespace))
	})
	told := map[string][]string{}
	for _, event := range events.Items {
		if event.Reason == "JobRerun" && event.Related != nil && event.Type == "Warning" {
			told[event.Related.Name] = append(told[event.Related.Name], event.Note)
		}
	}
	return told
}

// With rerunValues a set has its lost jobs run again, though all runs are of one workflow and branch.
var rerunValues = rig.Values{"feedback": map[string]any{"rerunLostJobs": map[string]any{
	"maxAttempts": 1, "ifNewerRun": "Rerun",
	"causes": []any{"Evicted", "NodeLost", "Preempted", "PodDeleted", "OOMKilled", "ContainerFailed"},
}}}
