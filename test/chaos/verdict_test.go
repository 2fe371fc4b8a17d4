package chaos

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/test/rig"
)

const (
	// Within settleTime after the last fault there have to be as many runners as are wanted.
	settleTime = 15 * time.Second
	// excusedAtMost bounds the time that does not count because the API server could not be read or there was no
	// manager pod.
	excusedAtMost = time.Minute
	// After a leader was killed nobody leads for up to leaseTime, even if there is only one: its Lease has to expire
	// first.
	leaseTime = 14 * time.Second
	// Within jobsTime after that all jobs have to be completed. A runner that failed may have to wait for its retry.
	jobsTime = 2 * time.Minute
	// leftoverTime covers the longest pauses: about a runner that still had its job, GitHub is asked again after a
	// minute, surplus runners wait for 30 s, and with keepAfter each that has started waits for a minute for the report
	// of a job, or for that long after its listener has come back.
	leftoverTime = 4 * time.Minute
	// GitHub may still give a job to a killed runner for takenLate, because it has not noticed.
	takenLate = 2 * time.Second
)

// checkSettles checks that the desired number of runners is reached soon after the last fault. Time in which not even
// the administrator can read from the API server does not count, because such a busy machine says nothing about the
// product. Nor does time without a manager pod. Both are excused up to excusedAtMost.
func (w *world) checkSettles() {
	w.t.Helper()
	began, atMost, excusedBefore := time.Now(), settleTime+leaseTime, w.observer.excusedFor()
	for {
		settled, seen := w.observer.settled(w.schedule.minRunners)
		took, excused := time.Since(began), w.observer.excusedFor()-excusedBefore
		switch {
		case settled:
			w.logf("settled %.1f s after the last fault: %s", took.Seconds(), seen)
			return
		case took-min(excused, excusedAtMost) > atMost+w.retryPause():
			w.errorf("%s after the last fault, %s of it excused: %s", took.Round(time.Second),
				excused.Round(time.Second), seen)
			return
		}
		w.pause(lookInterval)
	}
}

// retryPauses are the waits of a runner after its first to fifth attempt that ended without a job.
var retryPauses = []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second,
	80 * time.Second}

// retryPause returns the longest wait among the present runners: several faults may have hit the same one.
func (w *world) retryPause() time.Duration {
	var runners v1alpha1.EphemeralRunnerList
	w.request(func(ctx context.Context) error {
		return w.cluster.Client().List(ctx, &runners, client.InNamespace(w.rig.RunnerNamespace))
	})
	longest := time.Duration(0)
	for i := range runners.Items {
		status := &runners.Items[i].Status
		if ended := len(status.Failures) + len(status.Disruptions); ended > 0 {
			longest = max(longest, retryPauses[min(ended, len(retryPauses))-1])
		}
	}
	return longest
}

// checkJobs checks that every job has ended, and that a job failed only if a fault took its pod.
func (w *world) checkJobs() {
	w.t.Helper()
	queued := w.schedule.jobs()
	done := func() bool { return len(w.rig.GitHub.Jobs("completed")) == queued }
	if !w.await(jobsTime, done) {
		w.errorf("only %d of %d jobs are completed", len(w.rig.GitHub.Jobs("completed")), queued)
	}
	w.logf("%d jobs are completed", len(w.rig.GitHub.Jobs("completed")))
	failed := 0
	for _, job := range w.rig.GitHub.Jobs("") {
		switch {
		case job.State != "completed":
			w.errorf("job %d is %s, runner %q", job.RequestID, job.State, job.Runner)
		case job.Result != "succeeded" && w.tookPodOf(job): // a runner that is told to stop cancels its job
			failed++
		case job.Result != "succeeded":
			w.errorf("job %d on runner %s ended as %s, started %s, and no fault took its pod",
				job.RequestID, job.Runner, job.Result, w.ours(job.StartedAt).Format(time.TimeOnly))
		}
	}
	w.logf("%d jobs failed with their pods", failed)
}

// tookPodOf reports whether a fault took the pod of the job's runner after the job had started.
func (w *world) tookPodOf(job fakegithub.Job) bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	at, taken := w.taken[job.Runner]
	return taken && w.ours(job.StartedAt).Before(at.Add(takenLate))
}

// One of scaleDownEvery seeds scales down at the end, which takes about a minute.
const scaleDownEvery = 3

// checkScalesDown checks that idle runners that are no longer wanted are removed, and their registrations with them.
// Runners that had a job say nothing about that, because GitHub removes their registrations by itself.
func (w *world) checkScalesDown() {
	w.t.Helper()
	if w.schedule.seed%scaleDownEvery != 1 || w.schedule.minRunners == 0 {
		return
	}
	// Helm refuses to change what closeSet has changed, but for what is equal already.
	w.patchSet(`{"spec": {"minRunners": 0}}`)
	w.rig.UpgradeSet(rig.DefaultSet, rig.Values{"minRunners": 0})
	w.checkNothingLeft("scaling down")
}

// checkNothingLeft checks that there is no object, pod, Secret or registration beyond those of idle runners.
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
	w.errorf("still left %s after %s:\n%s", leftoverTime, after, strings.Join(left, "\n"))
}

// leftovers returns the rig's leftovers without the anomalies, which checkLimits checks.
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

// checkLimits checks that nothing was seen that must never happen. A runner may be lost or stopped during its job by a
// fault, but not by the product.
func (w *world) checkLimits() {
	w.t.Helper()
	for _, violation := range w.observer.broken() {
		w.errorf("%v", violation)
	}
	for _, shared := range w.rig.Storage.Violations() {
		w.errorf("%s", shared)
	}
	for _, anomaly := range w.rig.GitHub.Anomalies() {
		w.mutex.Lock()
		_, taken := w.taken[anomaly.Runner]
		w.mutex.Unlock()
		if (anomaly.Kind != "RunnerLostBusy" && anomaly.Kind != "RunnerStoppedBusy") || !taken {
			w.errorf("%v", anomaly)
		}
	}
}

// checkClocks checks that programs whose clock was to be wrong had such a clock: everything else holds with any.
func (w *world) checkClocks() {
	w.t.Helper()
	logs := map[rig.Program]func() string{rig.ManagerProgram: w.rig.ManagerLog, rig.ListenerProgram: w.rig.ListenerLog}
	for _, f := range w.schedule.faults {
		wrong := wrongClocks[f.variant]
		if f.kind == wrongClock &&
			!strings.Contains(logs[wrong.program](), fmt.Sprintf("the clock is set wrong by %s", wrong.ahead)) {
			w.errorf("the clock of the %s was right", wrong.program)
		}
	}
}

// await waits until so returns true, and reports whether it did within atMost.
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
