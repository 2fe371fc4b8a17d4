package ephemeralrunner

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"

	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/phases"
	"github.com/harrier-ci/harrier/internal/podstatus"
	"github.com/harrier-ci/harrier/internal/setmetrics"
)

var (
	pendingPods = setmetrics.Gauge("pending_pods",
		"Runner pods that were created and don't run yet, by the scheduler's or kubelet's reason.", "reason")
	pendingSeconds = setmetrics.Counter("pod_pending_seconds_total",
		"Time that runner pods have waited to run, by the scheduler's or kubelet's reason; counted when the reason "+
			"changes and when the wait ends.", "reason")
)

// measure remembers what the pod waits for now, and updates the metrics if that has changed.
func (m *memory) measure(runner *v1alpha1.EphemeralRunner, pod *corev1.Pod, seen rules.Outcome, now time.Time) {
	reason := ""
	if seen.Phase == podstatus.Pending && !rules.FailureRecorded(&runner.Status, pod.UID) {
		reason = report.KnownReason(seen.Reason)
	}
	if m.waiting != nil && m.waiting.reason == reason {
		return
	}
	m.endWait(now)
	if reason == "" {
		return
	}
	m.waiting = &waiting{reason: reason, since: now}
	pendingPods.WithLabelValues(m.scaleSet.Name, m.scaleSet.Namespace, reason).Inc()
}

// endWait counts a wait that is over, if there was one.
func (m *memory) endWait(now time.Time) {
	if m.waiting == nil {
		return
	}
	labels := []string{m.scaleSet.Name, m.scaleSet.Namespace, m.waiting.reason}
	pendingPods.WithLabelValues(labels...).Dec()
	pendingSeconds.WithLabelValues(labels...).Add(max(0, now.Sub(m.waiting.since).Seconds()))
	m.waiting = nil
}

// waitBuckets are in seconds, and few because every phase of every set has them: a warm runner, a pod, an image, a new
// node, a problem.
var waitBuckets = []float64{1, 5, 20, 80, 320}

var waitSeconds = setmetrics.Histogram("job_wait_seconds",
	"Time that jobs waited for each phase of their start, from the phase before it; observed once per job, "+
		"when it has started.", waitBuckets, "phase")

// measureWait records, a single time, the time that the runner's job waited in each phase. If the job was there when
// this manager started, the manager before has measured it.
func (m *memory) measureWait(runner *v1alpha1.EphemeralRunner, pod *corev1.Pod, seen rules.Outcome) {
	if m.waited {
		return
	}
	if pod == nil && !m.hadPod(&runner.Status) && !runner.Status.Done() {
		return // a job runs in a pod, and the watch of pods is behind
	}
	reached := phases.Of(runner, pod)
	if pod != nil && !seen.Over() && reached.ContainerUp == nil {
		return // the job arrived on another watch than its pod
	}
	m.waited = true
	for _, wait := range phases.Waits(reached) {
		waitSeconds.WithLabelValues(m.scaleSet.Name, m.scaleSet.Namespace, wait.Phase).Observe(wait.Took.Seconds())
	}
}
