package ephemeralrunner

import (
	"cmp"
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/phases"
	"github.com/harrier-ci/harrier/internal/setmetrics"
)

// The actions named by Events.
const (
	actionRegister = "Register"
	actionRun      = "RunPod"
	actionDelete   = "Delete"
)

// reportRunning writes the only status patch of a runner that simply works.
func (c *Controller) reportRunning(ctx context.Context, w *world) error {
	before := w.EphemeralRunner.DeepCopy()
	status := &w.Status
	starts := status.Phase != v1alpha1.EphemeralRunnerPhaseRunning
	status.Phase, status.Ready = v1alpha1.EphemeralRunnerPhaseRunning, w.outcome.Ready
	status.RunnerID, status.RunnerName = w.Memory.runnerID, w.Name
	status.Reason, status.Message = "", ""
	// Conditions that have reported a failure turn to their good state. A runner that never failed has none.
	if meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionPodStarted) != nil {
		c.setConditions(w, report.True(v1alpha1.ConditionPodStarted, "Running", "the runner container runs"))
	}
	if meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionQuotaExceeded) != nil {
		c.setConditions(w, report.False(v1alpha1.ConditionQuotaExceeded, "Running", "the pod was admitted"))
	}
	defer c.reports.Enter()()
	wrote, err := c.writeStatus(ctx, w, before)
	if wrote && starts {
		countStart(w, w.Memory.StartedAt) // not earlier: a write that fails is repeated
	}
	return err
}

// reasonCompleted is the reason of Ready=False for a runner that has succeeded.
const reasonCompleted = "Completed"

// readiness returns the conditions that sum up the status for kubectl wait and kstatus. A runner that works has only
// Ready: every byte of it is written for each runner.
func readiness(status *v1alpha1.EphemeralRunnerStatus) []metav1.Condition {
	switch status.Phase {
	case v1alpha1.EphemeralRunnerPhaseFailed, v1alpha1.EphemeralRunnerPhaseOutdated:
		return report.Unready(status.Reason, status.Message, true)
	case v1alpha1.EphemeralRunnerPhaseSucceeded:
		return []metav1.Condition{report.False(v1alpha1.ConditionReady, reasonCompleted, "the runner has exited")}
	case v1alpha1.EphemeralRunnerPhaseRunning:
		if status.Ready {
			return []metav1.Condition{report.True(v1alpha1.ConditionReady, "Running", "")}
		}
		return []metav1.Condition{report.False(v1alpha1.ConditionReady, "PodNotReady",
			"the runner runs, but a container of its pod is not ready")}
	default:
		return []metav1.Condition{report.False(v1alpha1.ConditionReady, cmp.Or(status.Reason, v1alpha1.ReasonPending),
			status.Message)}
	}
}

// reportPending writes to the status, and records as a single Event, why the runner does not run yet.
func (c *Controller) reportPending(ctx context.Context, w *world, d rules.Decision) error {
	before := w.EphemeralRunner.DeepCopy()
	if w.Status.Phase != v1alpha1.EphemeralRunnerPhaseRunning {
		// A runner that ran stays Running until GitHub's answer decides what follows: that it ran must not be
		// forgotten.
		w.Status.Phase = v1alpha1.EphemeralRunnerPhasePending
	}
	w.Status.Reason, w.Status.Message = d.Reason, d.Message
	if d.Reason == v1alpha1.ReasonQuotaExceeded {
		c.setConditions(w, report.True(v1alpha1.ConditionQuotaExceeded, v1alpha1.ReasonPodForbidden, d.Message))
	}
	c.setConditions(w, report.False(v1alpha1.ConditionPodStarted, d.Reason, d.Message))
	w.Memory.PendingReportedAt = w.Now
	// The Event is recorded a single time per reason, and again later if the message has changed.
	return c.patchStatus(ctx, w, before, report.Warning(d.Reason, actionRun, "the runner waits: "+d.Message))
}

// runnerFailed returns the last Event of a runner that has failed and will not be tried again.
func runnerFailed(d rules.Decision) report.Event {
	return report.Warning(d.Reason, actionRun, "the runner failed: "+d.Message)
}

// patchStatus writes the status and then records the Events. A write that fails is repeated; its Events must not be.
func (c *Controller) patchStatus(
	ctx context.Context, w *world, before *v1alpha1.EphemeralRunner, events ...report.Event,
) error {
	_, err := c.writeStatus(ctx, w, before, events...)
	return err
}

// writeStatus is patchStatus for callers that need to know whether something was written.
func (c *Controller) writeStatus(
	ctx context.Context, w *world, before *v1alpha1.EphemeralRunner, events ...report.Event,
) (bool, error) {
	w.Status.ObservedGeneration, w.Status.Phases = w.Generation, phases.Of(w.EphemeralRunner, w.pod)
	c.setConditions(w, readiness(&w.Status)...)
	wrote, err := kube.PatchStatus(ctx, c.options.Client, w.EphemeralRunner, before)
	if wrote {
		w.Memory.writtenVersion = w.ResourceVersion
		for _, event := range events {
			c.record(ctx, w, event)
		}
	}
	return wrote, client.IgnoreNotFound(err)
}

func (c *Controller) setConditions(w *world, conditions ...metav1.Condition) {
	report.SetConditions(&w.Status.Conditions, w.Generation, w.Now, conditions...)
}

// record records an Event about the runner and logs it. A runner that simply succeeds gets none.
func (c *Controller) record(ctx context.Context, w *world, event report.Event) {
	report.RecordEvent(ctx, c.options.Recorder, w.EphemeralRunner, nil, event)
}

var startupSeconds = setmetrics.Histogram("runner_startup_seconds",
	"Time from a runner's creation until its container ran, including registration, scheduling and the image pull; "+
		"runners that needed a second pod are left out.", setmetrics.StartupBuckets)

// countStart records the time that a runner took to start at its first attempt. A later pod may replace one that was
// idle for days.
func countStart(w *world, now time.Time) {
	if rules.AttemptsRecorded(&w.Status) > 0 {
		return
	}
	set := w.Memory.scaleSet
	startupSeconds.WithLabelValues(set.Name, set.Namespace).Observe(max(0, now.Sub(w.CreationTimestamp.Time).Seconds()))
}
