package chaos

import (
	"context"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/test/rig"
)

const (
	// settleTime is how long after the last fault there have to be as many runners as are wanted.
	settleTime = 15 * time.Second
	// excusedAtMost is how much of the time may not count because nothing could be seen, or nobody had made a manager pod.
	excusedAtMost = time.Minute
	// leaseTime is the manager's leaseDuration: a new leader has to wait for the Lease of one that was killed.
	leaseTime = 9 * time.Second
	// jobsTime is how long after that all jobs have to be done. A runner that failed may wait for its retry.
	jobsTime = 2 * time.Minute
	// leftoverTime covers the longest pauses: GitHub is asked again after a minute about a runner whose job it had not
	// given up, and surplus runners wait 30 s.
	leftoverTime = 2 * time.Minute
	// takenLate is how long a runner that was killed may still be given a job, because GitHub has not noticed.
	takenLate = 2 * time.Second
)

// checkSettles: the desired count is reached again soon after the last fault. While the API server does not even show its
// administrator what there is, the machine is too busy to say anything about the product: that time doesn't count, nor does that
// without a manager pod, up to excusedAtMost.
func (w *world) checkSettles() {
	w.t.Helper()
	began, atMost, excusedBefore := time.Now(), settleTime, w.observer.excusedFor()
	if w.schedule.managers > 1 {
		atMost += leaseTime
	}
	for {
		settled, seen := w.observer.settled(w.schedule.minRunners)
		took, excused := time.Since(began), w.observer.excusedFor()-excusedBefore
		switch {
		case settled:
			w.logf("settled %.1f s after the last fault: %s", took.Seconds(), seen)
			return
		case took-min(excused, excusedAtMost) > atMost+w.retryPause():
			w.errorf("%s after the last fault, %s of it excused: %s", took.Round(time.Second), excused.Round(time.Second), seen)
			return
		}
		w.pause(lookInterval)
	}
}

// retryPauses are the waits of a runner after its first to fifth failed attempt.
var retryPauses = []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second}

// retryPause is the longest wait of a runner that is there: faults may have hit the same one several times.
func (w *world) retryPause() time.Duration {
	var runners v1alpha1.EphemeralRunnerList
	w.request(func(ctx context.Context) error {
		return w.cluster.Client().List(ctx, &runners, client.InNamespace(w.rig.RunnerNamespace))
	})
	longest := time.Duration(0)
	for i := range runners.Items {
		if failures := len(runners.Items[i].Status.Failures); failures > 0 {
			longest = max(longest, retryPauses[min(failures, len(retryPauses))-1])
		}
	}
	return longest
}

// checkJobs: every job has ended once, and only those failed whose pod a fault took.
func (w *world) checkJobs() {
	w.t.Helper()
	done := func() bool { return len(w.rig.GitHub.Jobs("completed")) == jobsPerRun }
	if !w.await(jobsTime, done) {
		w.errorf("%d of %d jobs are done", len(w.rig.GitHub.Jobs("completed")), jobsPerRun)
	}
	w.logf("%d jobs are done", len(w.rig.GitHub.Jobs("completed")))
	failed := 0
	for _, job := range w.rig.GitHub.Jobs("") {
		switch {
		case job.State != "completed":
			w.errorf("job %d is %s, runner %q", job.RequestID, job.State, job.Runner)
		case job.Result != "succeeded" && w.tookPodOf(job): // a runner that is told to stop cancels its job
			failed++
		case job.Result != "succeeded":
			w.errorf("job %d on runner %s ended as %s, started %s, and no fault took its pod",
				job.RequestID, job.Runner, job.Result, job.StartedAt.Format(time.TimeOnly))
		}
	}
	w.logf("%d jobs failed with their pods", failed)
}

// tookPodOf reports whether a fault took the pod of the job's runner after the job had started.
func (w *world) tookPodOf(job fakegithub.Job) bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	at, taken := w.taken[job.Runner]
	return taken && job.StartedAt.Before(at.Add(takenLate))
}

// scaleDownEvery is how many seeds there are to one that scales down, which takes about a minute.
const scaleDownEvery = 3

// checkScalesDown: idle runners that are not wanted any more go, and their registrations with them. Those that had a job
// leave GitHub by themselves.
func (w *world) checkScalesDown() {
	w.t.Helper()
	if w.schedule.seed%scaleDownEvery != 1 || w.schedule.minRunners == 0 {
		return
	}
	w.rig.UpgradeSet(rig.DefaultSet, rig.Values{"minRunners": 0})
	w.checkNothingLeft("scaling down")
}

// checkNothingLeft: no object, pod, Secret or registration beyond the idle runners.
func (w *world) checkNothingLeft(after string) {
	w.t.Helper()
	began := time.Now()
	var left []string
	if w.await(leftoverTime, func() bool {
		left = w.leftovers()
		return len(left) == 0
	}) {
		w.logf("nothing left %.1f s after %s", time.Since(began).Seconds(), after)
		return
	}
	w.errorf("left %s after %s:\n%s", leftoverTime, after, strings.Join(left, "\n"))
}

// leftovers are those of the rig but for anomalies, which have a check of their own.
func (w *world) leftovers() []string {
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	left, err := w.rig.Leftovers(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	anomalies := w.rig.Anomalies()
	return slices.DeleteFunc(left, func(line string) bool { return slices.Contains(anomalies, line) })
}

// checkLimits: nothing was seen that must never be. A fault takes a runner's job with it; we never do.
func (w *world) checkLimits() {
	w.t.Helper()
	for _, violation := range w.observer.broken() {
		w.errorf("%v", violation)
	}
	for _, anomaly := range w.rig.GitHub.Anomalies() {
		w.mutex.Lock()
		_, taken := w.taken[anomaly.Runner]
		w.mutex.Unlock()
		if anomaly.Kind != "RunnerLostBusy" && anomaly.Kind != "RunnerStoppedBusy" || !taken {
			w.errorf("%v", anomaly)
		}
	}
}

// await looks until something is so, for so long at most.
func (w *world) await(atMost time.Duration, so func() bool) bool {
	deadline := time.Now().Add(atMost)
	for !so() {
		if time.Now().After(deadline) {
			return false
		}
		w.pause(lookInterval)
	}
	return true
}
