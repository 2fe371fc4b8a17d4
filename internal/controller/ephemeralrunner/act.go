package ephemeralrunner

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/registrations"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
)

// jobByGitHub is the condition that remembers a job known only from GitHub's refusal to remove the registration.
var jobByGitHub = report.True(v1alpha1.ConditionDraining, "JobRunning", "GitHub says that the runner has a job")

// cleanUp deletes what a runner that is done leaves behind: pod, Secret, what its hooks created, and registration. The
// object stays until its set has read its status. While there may be a job, GitHub may still count it, and the runner's
// set asks; after a job that was not lost, the runner itself has told GitHub.
func (c *Controller) cleanUp(ctx context.Context, w *world) error {
	if w.launched.Running {
		return nil // see plan
	}
	err := errors.Join(c.deletePod(ctx, w), c.deleteSecret(ctx, w), c.deleteHooked(ctx, w), c.failExitedIdle(ctx, w),
		c.nameVersion(ctx, w))
	told := w.Status.Phase == v1alpha1.EphemeralRunnerPhaseSucceeded ||
		(w.Status.JobCompleted() && w.Status.LostCause == "")
	if told || w.Memory.mayHaveJob(&w.Status) || w.Memory.unregistered(w.EphemeralRunner, c.beganAt) ||
		c.verdict(w) == registrations.Removed {
		return err
	}
	ask, at := w.removal().AskAgain(w.Now)
	if ask {
		c.deregister(w)
	}
	w.RequeueAt(at)
	return err
}

// failExitedIdle writes that a runner that exited without a job has failed. The runner's set finds out that it had no
// job: GitHub keeps its record.
func (c *Controller) failExitedIdle(ctx context.Context, w *world) error {
	status, verdict := &w.Status, c.options.Verdicts.Of(registrations.Registration{Runner: w.UID})
	idle := status.Phase == v1alpha1.EphemeralRunnerPhaseSucceeded && !status.HadJob() && !status.JobCompleted() &&
		!w.Memory.mayHaveJob(status)
	if verdict == registrations.None || !idle {
		return nil
	}
	before := w.EphemeralRunner.DeepCopy()
	d, phase := rules.ExitedIdle(&w.Spec.PodSpec, verdict == registrations.NoJob), v1alpha1.EphemeralRunnerPhaseFailed
	if verdict == registrations.VersionRefused {
		d, phase = rules.VersionRefused(&w.Spec, c.recordedVersion(w), false), v1alpha1.EphemeralRunnerPhaseOutdated
	}
	status.Phase, status.Reason, status.Message = phase, d.Reason, d.Message
	return c.patchStatus(ctx, w, before, runnerFailed(d))
}

// nameVersion writes the version of a runner that GitHub has refused, once GitHub's record of it was read: the image's
// tag may name none.
func (c *Controller) nameVersion(ctx context.Context, w *world) error {
	status, recorded := &w.Status, c.recordedVersion(w)
	if status.Phase != v1alpha1.EphemeralRunnerPhaseOutdated || recorded == "" ||
		status.Message != rules.VersionRefused(&w.Spec, "", true).Message {
		return nil
	}
	before := w.EphemeralRunner.DeepCopy()
	status.Message = rules.VersionRefused(&w.Spec, recorded, true).Message
	return c.patchStatus(ctx, w, before)
}

// recordedVersion returns the version in GitHub's record of the runner, empty if it isn't known.
func (c *Controller) recordedVersion(w *world) string {
	return c.options.Verdicts.VersionOf(registrations.Registration{Runner: w.UID, ID: w.Status.RunnerID})
}

// deleteRunner deletes the object of a runner that is no longer needed or must be replaced. It deletes the pod first,
// because the pod occupies a machine; the event of the pod's deletion requeues the runner, behind other runners' ended
// pods.
func (c *Controller) deleteRunner(ctx context.Context, w *world, d rules.Decision) error {
	if w.Memory.runnerDeleted {
		return nil
	}
	if failure := w.Memory.jobHooks.TakeFailure(w.EphemeralRunner); failure != "" {
		c.record(ctx, w, report.Warning(v1alpha1.ReasonJobHooksFailed, actionRun, failure))
	}
	if w.podStays() {
		var err error
		if rules.GivenUp(w.Status.JobResult) {
			err = c.deleteSecret(ctx, w) // before the pod: see goneUnseen
		}
		// If the controller may not delete it, garbage collection does, after the runner is gone.
		if err = errors.Join(err, c.deletePod(ctx, w)); err != nil || w.Memory.pod.deleted {
			return err
		}
	}
	c.rememberBusy(w)
	if c.leaving(w).NothingLeft() {
		if err := c.finalizeEarly(ctx, w); err != nil {
			return err
		}
	}
	runner := &v1alpha1.EphemeralRunner{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name}}
	err := c.options.Client.Delete(ctx, runner, kube.UIDPrecondition(w.EphemeralRunner))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete runner: %w", err)
	}
	w.Memory.runnerDeleted = true
	if d.Step == rules.Replace {
		c.record(ctx, w, report.Warning(d.Reason, actionRegister, d.Message))
	}
	return nil
}

// finalizeEarly finalizes a runner that has nothing left before its deletion, because deleting an object with
// finalizers costs another write of the whole object. If a deletion is forbidden, the regular finalization goes on
// without it, and garbage collection deletes the rest after the runner is gone.
func (c *Controller) finalizeEarly(ctx context.Context, w *world) error {
	err := c.deleteChildren(ctx, w, false)
	switch {
	case apierrors.IsForbidden(err):
		return nil
	case err != nil:
		return err
	default:
		return c.removeFinalizers(ctx, w, "")
	}
}

// finish writes a final phase, then deletes pod and Secret.
func (c *Controller) finish(ctx context.Context, w *world, phase v1alpha1.EphemeralRunnerPhase, d rules.Decision,
	events []report.Event, conditions ...metav1.Condition,
) error {
	before := w.EphemeralRunner.DeepCopy()
	status := &w.Status
	c.noteStart(w, d)
	status.Phase, status.Ready, status.Reason, status.Message = phase, false, d.Reason, d.Message
	status.LostCause = cmp.Or(status.LostCause, d.Lost.Cause)
	status.RunnerID, status.RunnerName = w.Memory.runnerID, w.Name
	c.setConditions(w, conditions...)
	if err := c.patchStatus(ctx, w, before, events...); err != nil {
		return err
	}
	return errors.Join(c.deletePod(ctx, w), c.deleteSecret(ctx, w))
}

// retry remembers the end of an attempt and deletes its pod, and its Secret if the registration is gone.
func (c *Controller) retry(ctx context.Context, w *world, d rules.Decision) error {
	if d.Step == rules.Reregister {
		if err := c.deleteSecret(ctx, w); err != nil {
			return err
		}
		w.Memory.runnerID = 0
	}
	before := w.EphemeralRunner.DeepCopy()
	var seen types.UID
	if w.Memory.hadPod(&w.Status) {
		seen = w.Memory.pod.uid
	}
	key := rules.NewKey(&w.Status, seen)
	w.Memory.failed = &failedAttempt{key: key, Decision: d}
	c.noteStart(w, d)
	rules.Record(&w.Status, key, d, w.Now)
	w.Status.Phase, w.Status.Ready, w.Status.RunnerID = v1alpha1.EphemeralRunnerPhasePending, false, w.Memory.runnerID
	w.Status.Reason, w.Status.Message = d.Reason, d.Message
	if err := c.patchStatus(ctx, w, before, attemptEnded(d, &w.Status)); err != nil {
		return err
	}
	// Not earlier: if the status could not be written, the same must be decided again, from the same answers.
	c.endAttempt(w)
	return c.deletePod(ctx, w)
}

// noteStart writes into the status whether a container of the runner has started, when an attempt has ended: nobody can
// tell later, and claims in which nothing has run are passed on.
func (c *Controller) noteStart(w *world, d rules.Decision) {
	switch {
	case !volumeclaims.Named(w.Spec.VolumeClaims):
	case !w.Memory.claims.MayHaveRun(w.use()):
		c.setConditions(w, report.False(v1alpha1.ConditionPodStarted, d.Reason, d.Message))
	case meta.IsStatusConditionFalse(w.Status.Conditions, v1alpha1.ConditionPodStarted):
		c.setConditions(w, report.True(v1alpha1.ConditionPodStarted, "Running", "the runner container may have started"))
	}
}

// endAttempt forgets the attempt whose failure is now in the status.
func (c *Controller) endAttempt(w *world) {
	w.Memory.Attempt, w.Memory.pod.recorded = rules.Attempt{}, true
	if w.Memory.failed.Step == rules.Reregister {
		w.Memory.runnerID, w.Memory.secretDeleted = 0, false // the registration is gone, too
	}
	w.Memory.failed = nil
	w.Memory.launch.ForgetCalls()
	w.launched = rules.Progress{}
}

// attemptEnded is the Event of every attempt that ended without a job and may be followed by another.
func attemptEnded(d rules.Decision, status *v1alpha1.EphemeralRunnerStatus) report.Event {
	if d.Disruption {
		return report.Warning(d.Reason, actionRun, fmt.Sprintf(
			"the runner lost its pod before it had a job, which is not held against it; the next pod follows in %s: %s",
			rules.BackoffAfter(rules.AttemptsRecorded(status)), d.Message))
	}
	return report.Warning(d.Reason, actionRun,
		fmt.Sprintf("attempt %d of %d failed: %s", len(status.Failures), len(rules.RetryBackoff)+1, d.Message))
}
