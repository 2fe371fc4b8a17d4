package ephemeralrunner

import (
	"time"

	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/podstatus"
	"github.com/harrier-ci/harrier/internal/setmetrics"
)

var (
	pendingPods = setmetrics.Gauge("pending_pods",
		"Runner pods that were created and don't run yet, by the scheduler's or kubelet's reason.", "reason")
	pendingSeconds = setmetrics.Counter("pod_pending_seconds_total",
		"Time that runner pods have waited to run, by the scheduler's or kubelet's reason; counted when the reason changes and when the wait ends.", "reason")
	startupSeconds = setmetrics.Histogram("runner_startup_seconds",
		"Time from a runner's creation until its container ran, including registration, scheduling and the image pull; runners that needed a second pod are left out.", setmetrics.StartupBuckets)
)

// waiting is a pod that does not run yet: why, since when, and the scale set whose series count it.
type waiting struct {
	name, namespace string
	reason          string
	since           time.Time
}

// measure notes what the pod waits for now, and updates the metrics if that has changed.
func (m *remembered) measure(p *pass, now time.Time) {
	reason := ""
	if p.outcome.Phase == podstatus.Pending && !rules.FailureNoted(&p.Status, p.pod.UID) {
		reason = report.KnownReason(p.outcome.Reason)
	}
	if m.waiting != nil && m.waiting.reason == reason {
		return
	}
	m.waiting.end(now)
	m.waiting = nil
	if reason == "" {
		return
	}
	set := kube.ScaleSetOf(p)
	m.waiting = &waiting{name: set.Name, namespace: set.Namespace, reason: reason, since: now}
	pendingPods.WithLabelValues(m.waiting.name, m.waiting.namespace, reason).Inc()
}

// end counts a wait that is over.
func (w *waiting) end(now time.Time) {
	if w == nil {
		return
	}
	pendingPods.WithLabelValues(w.name, w.namespace, w.reason).Dec()
	pendingSeconds.WithLabelValues(w.name, w.namespace, w.reason).Add(max(0, now.Sub(w.since).Seconds()))
}

// countStart records how long a runner took to start at its first attempt. A later pod may replace one that was idle for
// days.
func countStart(p *pass, now time.Time) {
	if rules.AttemptsNoted(&p.Status) > 0 {
		return
	}
	set := kube.ScaleSetOf(p)
	startupSeconds.WithLabelValues(set.Name, set.Namespace).Observe(max(0, now.Sub(p.CreationTimestamp.Time).Seconds()))
}
