package ephemeralrunner

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// reportRunning is the one status patch of a runner that simply works.
func (c *Controller) reportRunning(ctx context.Context, r *run) error {
	before := r.EphemeralRunner.DeepCopy()
	status := &r.Status
	status.Phase, status.Ready = v1alpha1.EphemeralRunnerPhaseRunning, outcomeOf(r.pod, c.Clock.Now()).ready
	status.RunnerID, status.RunnerName = r.memory.registration, r.Name
	status.Reason, status.Message = "", ""
	if meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionPodStarted) != nil {
		kube.SetConditions(&status.Conditions, r.Generation, c.Clock.Now(),
			kube.True(v1alpha1.ConditionPodStarted, "Running", "the runner container runs"))
	}
	if err := c.patchStatus(ctx, r, before); err != nil {
		return err
	}
	r.memory.reported, r.memory.reportedReady = c.Clock.Now(), status.Ready
	return nil
}

// reportPending says why the runner does not run yet, in the status and once as an Event.
func (c *Controller) reportPending(ctx context.Context, r *run, d decision) error {
	before := r.EphemeralRunner.DeepCopy()
	r.Status.Phase, r.Status.Reason, r.Status.Message = v1alpha1.EphemeralRunnerPhasePending, d.reason, d.message
	kube.SetConditions(&r.Status.Conditions, r.Generation, c.Clock.Now(),
		kube.False(v1alpha1.ConditionPodStarted, d.reason, d.message))
	log.FromContext(ctx).Info("Runner waits", "reason", d.reason, "cause", d.message)
	c.Recorder.Eventf(r.EphemeralRunner, nil, corev1.EventTypeWarning, d.reason, "RunPod", "the runner does not run yet: %s", d.message)
	return c.patchStatus(ctx, r, before)
}

// fail ends a runner that did not work out.
func (c *Controller) fail(ctx context.Context, r *run, d decision) error {
	log.FromContext(ctx).Info("Runner failed", "reason", d.reason, "cause", d.message, "job", r.Status.JobID)
	c.Recorder.Eventf(r.EphemeralRunner, nil, corev1.EventTypeWarning, d.reason, "RunPod", "the runner failed: %s", d.message)
	return c.finish(ctx, r, v1alpha1.EphemeralRunnerPhaseFailed, d.reason, d.message)
}

// outdate ends a runner whose version GitHub refuses.
func (c *Controller) outdate(ctx context.Context, r *run, d decision) error {
	log.FromContext(ctx).Info("Runner version refused by GitHub", "cause", d.message)
	c.Recorder.Eventf(r.EphemeralRunner, nil, corev1.EventTypeWarning, d.reason, "RunPod", "%s", d.message)
	return c.finish(ctx, r, v1alpha1.EphemeralRunnerPhaseOutdated, d.reason, d.message)
}

// finish writes a phase from which the runner does not come back, then removes what it needs no more.
func (c *Controller) finish(ctx context.Context, r *run, phase v1alpha1.EphemeralRunnerPhase, reason, message string) error {
	before := r.EphemeralRunner.DeepCopy()
	status := &r.Status
	status.Phase, status.Ready, status.Reason, status.Message = phase, false, reason, message
	status.RunnerID, status.RunnerName = r.memory.registration, r.Name
	if err := c.patchStatus(ctx, r, before); err != nil {
		return err
	}
	return errors.Join(c.deletePod(ctx, r), c.deleteSecret(ctx, r))
}
