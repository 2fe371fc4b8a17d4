package ephemeralrunner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/calls"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/mark"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/memory"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/podstatus"
	"github.com/harrier-ci/harrier/internal/registrations"
)

// step does what the runner needs now, and returns when to reconcile it again.
func (c *Controller) step(ctx context.Context, p *pass) (time.Time, error) {
	switch {
	case !p.DeletionTimestamp.IsZero():
		return c.finalize(ctx, p)
	case p.memory.IsBehind(p.EphemeralRunner):
		return c.options.Clock.Now().Add(staleRequeueAfter), nil
	}
	var err error
	if p.runnerSet, err = c.runnerSet(ctx, p.EphemeralRunner); err != nil {
		return time.Time{}, err
	}
	switch {
	case p.runnerSet == nil:
		return c.removeAbandoned(ctx, p)
	case p.Status.Done():
		return c.cleanUp(ctx, p)
	default:
		c.endNotedAttempt(ctx, p)
		return c.apply(ctx, p, rules.Plan(c.observe(p)))
	}
}

// jobByGitHub is the condition that remembers a job known only from GitHub's refusal to remove the registration.
var jobByGitHub = report.True(v1alpha1.ConditionDraining, "JobRunning", "GitHub says that the runner has a job")

// apply takes a step, and returns when to reconcile the runner again.
func (c *Controller) apply(ctx context.Context, p *pass, d rules.Decision) (time.Time, error) {
	switch d.Step {
	case rules.Launch:
		return c.launchCounted(ctx, p)
	case rules.Deregister:
		c.deregister(p)
	case rules.ReportRunning:
		return d.RequeueAt, c.reportRunning(ctx, p)
	case rules.ReportPending:
		return d.RequeueAt, c.reportPending(ctx, p, d)
	case rules.ReportSidecar:
		// Only the runner's own end decides, but a job's failure may have this cause.
		p.memory.SidecarReported = true
		c.record(ctx, p, report.Warning(d.Reason, actionRun, d.Message))
		return c.options.Clock.Now(), nil // so that the next pass plans for the pod itself
	case rules.DeleteFailedPod:
		return d.RequeueAt, c.deletePod(ctx, p)
	case rules.Retry, rules.Reregister:
		return d.RequeueAt, c.retry(ctx, p, d)
	case rules.Exited:
		p.memory.ExitedAt = c.options.Clock.Now()
		return d.RequeueAt, c.deletePod(ctx, p)
	case rules.Succeed:
		return d.RequeueAt, c.finish(ctx, p, v1alpha1.EphemeralRunnerPhaseSucceeded, rules.Decision{}, nil)
	case rules.Fail:
		return d.RequeueAt, c.finish(ctx, p, v1alpha1.EphemeralRunnerPhaseFailed, d, []report.Event{runnerFailed(d)})
	case rules.FailBusy:
		return d.RequeueAt, c.finish(ctx, p, v1alpha1.EphemeralRunnerPhaseFailed, d, []report.Event{runnerFailed(d)}, jobByGitHub)
	case rules.Outdate:
		return d.RequeueAt, c.finish(ctx, p, v1alpha1.EphemeralRunnerPhaseOutdated, d, []report.Event{report.Warning(d.Reason, actionRun, d.Message)})
	case rules.DeleteRunner, rules.Replace:
		return d.RequeueAt, c.deleteRunner(ctx, p, d)
	case rules.Wait:
	}
	return d.RequeueAt, nil
}

// launchCounted starts an attempt of a runner that its set counts. Any other waits, and says so.
func (c *Controller) launchCounted(ctx context.Context, p *pass) (time.Time, error) {
	why, err := c.uncounted(ctx, p)
	switch {
	case err != nil:
		return time.Time{}, err
	case why == nil:
		// No copy of the runner: a pass that launches writes no status.
		c.launcher.Start(p.EphemeralRunner, p.memory.RunnerID, &p.memory.Launch)
		return time.Time{}, nil
	}
	now := c.options.Clock.Now()
	return c.apply(ctx, p, rules.PlanReport(&rules.World{Runner: p.EphemeralRunner, Now: now, Attempt: p.memory.Attempt}, why, now.Add(uncountedRecheck)))
}

// cleanUp deletes what a runner that is done leaves behind: pod, Secret, what its hooks created, and registration. The object stays
// until its set has read its status. While there may be a job, it is the set that asks GitHub, which may still count it; and after a job
// that was not lost, the runner itself has told GitHub.
func (c *Controller) cleanUp(ctx context.Context, p *pass) (time.Time, error) {
	if p.provisioning.Running {
		return time.Time{}, nil // see plan
	}
	err := errors.Join(c.deletePod(ctx, p), c.deleteSecret(ctx, p), c.deleteHooked(ctx, p), c.failExitedIdle(ctx, p))
	told := p.Status.Phase == v1alpha1.EphemeralRunnerPhaseSucceeded || p.Status.JobCompleted() && p.Status.LostCause == ""
	if told || p.memory.MayHaveJob(&p.Status) || p.memory.Unregistered(p.EphemeralRunner, c.beganAt) || c.verdict(p) == registrations.Removed {
		return time.Time{}, err
	}
	ask, at := c.removal(p).AskAgain(c.options.Clock.Now())
	if ask {
		c.deregister(p)
	}
	return at, err
}

// failExitedIdle writes that a runner has failed that exited without a job. Its set finds that out: GitHub keeps its record.
func (c *Controller) failExitedIdle(ctx context.Context, p *pass) error {
	status, verdict := &p.Status, c.options.Verdicts.Of(registrations.Registration{Runner: p.UID})
	idle := status.Phase == v1alpha1.EphemeralRunnerPhaseSucceeded && !status.HadJob() && !status.JobCompleted() && !p.memory.MayHaveJob(status)
	if verdict == registrations.None || !idle {
		return nil
	}
	before := p.EphemeralRunner.DeepCopy()
	d := rules.ExitedIdle(&p.Spec.PodSpec, verdict == registrations.NoJob)
	status.Phase, status.Reason, status.Message = v1alpha1.EphemeralRunnerPhaseFailed, d.Reason, d.Message
	return c.patchStatus(ctx, p, before, runnerFailed(d))
}

// deleteRunner deletes the object of a runner that is no longer needed or must be replaced. It deletes the pod first, because
// the pod occupies a machine; the event of the pod's deletion requeues the runner, behind other runners' ended pods.
func (c *Controller) deleteRunner(ctx context.Context, p *pass, d rules.Decision) error {
	if p.memory.RunnerDeleted {
		return nil
	}
	if p.podStays() {
		// If the controller may not delete it, garbage collection does once the runner is gone.
		if err := c.deletePod(ctx, p); err != nil || p.memory.Pod.Deleted {
			return err
		}
	}
	c.noteBusy(p)
	if c.observeFinalizing(p).NothingLeft() {
		if err := c.finalizeEarly(ctx, p); err != nil {
			return err
		}
	}
	runner := &v1alpha1.EphemeralRunner{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}
	err := c.options.Client.Delete(ctx, runner, kube.UIDPrecondition(p.EphemeralRunner))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete runner: %w", err)
	}
	p.memory.RunnerDeleted = true
	if d.Step == rules.Replace {
		c.record(ctx, p, report.Warning(d.Reason, actionRegister, d.Message))
	}
	return nil
}

// finalizeEarly finalizes a runner that has nothing left before its deletion, because deleting an object with finalizers
// costs another write of the whole object. If a deletion is forbidden, the regular finalization goes on without it, and
// garbage collection deletes the rest once the runner is gone.
func (c *Controller) finalizeEarly(ctx context.Context, p *pass) error {
	err := c.deleteChildren(ctx, p, false)
	switch {
	case apierrors.IsForbidden(err):
		return nil
	case err != nil:
		return err
	default:
		return c.removeFinalizers(ctx, p, "")
	}
}

// podStays reports whether there is a pod whose deletion has not been requested, or was interrupted.
func (p *pass) podStays() bool {
	return p.pod != nil && !p.memory.Pod.Deleted && (p.pod.DeletionTimestamp == nil || halfDeleted(p.pod))
}

// finish writes a final phase, then deletes pod and Secret.
func (c *Controller) finish(ctx context.Context, p *pass, phase v1alpha1.EphemeralRunnerPhase, d rules.Decision,
	events []report.Event, conditions ...metav1.Condition,
) error {
	before := p.EphemeralRunner.DeepCopy()
	status := &p.Status
	status.Phase, status.Ready, status.Reason, status.Message = phase, false, d.Reason, d.Message
	status.LostCause = cmp.Or(status.LostCause, d.Lost.Cause)
	status.RunnerID, status.RunnerName = p.memory.RunnerID, p.Name
	c.setConditions(p, conditions...)
	if err := c.patchStatus(ctx, p, before, events...); err != nil {
		return err
	}
	return errors.Join(c.deletePod(ctx, p), c.deleteSecret(ctx, p))
}

// retry notes the end of an attempt and deletes its pod, and its Secret if the registration is gone.
func (c *Controller) retry(ctx context.Context, p *pass, d rules.Decision) error {
	if d.Step == rules.Reregister {
		if err := c.deleteSecret(ctx, p); err != nil {
			return err
		}
		p.memory.RunnerID = 0
	}
	before := p.EphemeralRunner.DeepCopy()
	var seen types.UID
	if p.memory.HadPod(&p.Status) {
		seen = p.memory.Pod.UID
	}
	key := rules.NewKey(&p.Status, seen)
	p.memory.Failed = &memory.FailedAttempt{Key: key, Decision: d}
	rules.Note(&p.Status, key, d, c.options.Clock.Now())
	p.Status.Phase, p.Status.Ready, p.Status.RunnerID = v1alpha1.EphemeralRunnerPhasePending, false, p.memory.RunnerID
	p.Status.Reason, p.Status.Message = d.Reason, d.Message
	if err := c.patchStatus(ctx, p, before, attemptEnded(d, &p.Status)); err != nil {
		return err
	}
	// Not earlier: if the status could not be written, the same must be decided again, from the same answers.
	c.endAttempt(p)
	return c.deletePod(ctx, p)
}

// endAttempt forgets the attempt whose failure is now in the status.
func (c *Controller) endAttempt(p *pass) {
	p.memory.NewAttempt(p.memory.Failed.Step == rules.Reregister)
	p.memory.Failed = nil
	c.launcher.Forget(p.key)
	c.deregistrar.Forget(p.key)
	p.provisioning = calls.Progress{}
}

// attemptEnded is the Event of every attempt that ended without a job and may be followed by another.
func attemptEnded(d rules.Decision, status *v1alpha1.EphemeralRunnerStatus) report.Event {
	if d.Disruption {
		return report.Warning(d.Reason, actionRun, fmt.Sprintf(
			"the runner lost its pod before it had a job, which is not held against it; the next pod follows in %s: %s",
			rules.BackoffAfter(rules.AttemptsNoted(status)), d.Message))
	}
	return report.Warning(d.Reason, actionRun,
		fmt.Sprintf("attempt %d of %d failed: %s", len(status.Failures), len(rules.RetryBackoff)+1, d.Message))
}

// endNotedAttempt ends an attempt whose failure was written to the status although the answer to that write was lost.
// Otherwise what is known of its pod would be attributed to the next attempt, which would seem to have lost its pod.
func (c *Controller) endNotedAttempt(ctx context.Context, p *pass) {
	failed := p.memory.Failed
	if failed == nil {
		return
	}
	if _, written := rules.Noted(&p.Status, failed.Key); written {
		c.endAttempt(p)
		c.record(ctx, p, attemptEnded(failed.Decision, &p.Status))
	}
}

// deletePod deletes the runner's pod unless it is already being deleted. A pod whose containers have all ended, or whose node
// does not answer, is deleted without a grace period. The caller's options come after its own.
func (c *Controller) deletePod(ctx context.Context, p *pass, more ...client.DeleteOption) error {
	if p.pod == nil || p.memory.Pod.PassedOver() {
		return nil
	}
	options := []client.DeleteOption{kube.UIDPrecondition(p.pod)}
	hangs := podstatus.Stuck(p.pod, p.memory.APIServerTime(p.pod, c.options.Clock.Now()))
	over := p.pod.Status.Phase == corev1.PodSucceeded || p.pod.Status.Phase == corev1.PodFailed
	if !p.podStays() && !hangs {
		return nil
	}
	if over || hangs {
		options = append(options, client.GracePeriodSeconds(0))
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.pod.Namespace, Name: p.pod.Name}}
	err := c.options.Client.Delete(ctx, pod, append(options, more...)...)
	p.memory.Pod.Left = apierrors.IsForbidden(err) && !p.DeletionTimestamp.IsZero()
	if err == nil {
		p.memory.Pod.Deleted = true
		p.memory.Pod.Removed = (over || hangs) && len(p.pod.Finalizers) == 0
	}
	return calls.DeletionFailure(p.EphemeralRunner, "delete pod", err)
}

// halfDeleted reports whether the API server should have removed the pod by itself. It deletes a pod without a grace period in
// two writes; a request that ends between them, because the manager or the API server is killed, leaves the pod as it is.
func halfDeleted(pod *corev1.Pod) bool {
	grace := pod.DeletionGracePeriodSeconds
	return pod.DeletionTimestamp != nil && grace != nil && *grace == 0 && len(pod.Finalizers) == 0
}

// deregister asks GitHub to remove the runner's registration.
func (c *Controller) deregister(p *pass) {
	certain := p.memory.Pod.UID != "" || p.memory.Launch.WasAsked()
	c.deregistrar.Start(p.EphemeralRunner, p.memory.RunnerID, certain)
}

// deleteSecret deletes the runner's Secret, once.
func (c *Controller) deleteSecret(ctx context.Context, p *pass) error {
	if p.memory.SecretDeleted {
		return nil
	}
	err := c.launcher.DeleteSecret(ctx, p.EphemeralRunner, &p.memory.Launch)
	p.memory.SecretDeleted = err == nil
	return err
}

// deleteHooked deletes what container hooks created for the runner's job, once the runner container has ended.
func (c *Controller) deleteHooked(ctx context.Context, p *pass) error {
	if !p.outcome.Over() && p.outcome.Phase != podstatus.Missing && !p.memory.Pod.PassedOver() {
		return nil
	}
	exited := p.memory.Attempt.Ending == podstatus.Succeeded || p.Status.Phase == v1alpha1.EphemeralRunnerPhaseSucceeded
	return c.remains.DeleteHooked(ctx, p.EphemeralRunner, exited, &p.memory.Hooked)
}

// deleteChildren deletes the pod, the Secret, and what container hooks created. With onlyUnbound, a pod that has changed
// since the cache showed it is left, with its Secret: the watch will show what has become of it.
func (c *Controller) deleteChildren(ctx context.Context, p *pass, onlyUnbound bool) error {
	var options []client.DeleteOption
	if onlyUnbound {
		options = append(options, kube.UnchangedPrecondition(p.pod))
	}
	err := c.deletePod(ctx, p, options...)
	if onlyUnbound && !p.memory.Pod.Deleted && !p.memory.Pod.Left {
		return err
	}
	return errors.Join(err, c.deleteSecret(ctx, p), c.deleteHooked(ctx, p))
}

// removeFinalizers removes the finalizers once, and records an Event if something is left on GitHub.
func (c *Controller) removeFinalizers(ctx context.Context, p *pass, leftBehind string) error {
	if p.memory.FinalizersRemoved {
		return nil
	}
	err := kube.RemoveFinalizersAndManagedFields(ctx, c.options.Client, p.EphemeralRunner,
		v1alpha1.FinalizerEphemeralRunner, v1alpha1.FinalizerRunnerRegistration)
	if err != nil {
		return err
	}
	p.memory.FinalizersRemoved = true
	if leftBehind != "" {
		c.record(ctx, p, report.Warning("RegistrationLeft", actionDelete,
			"the registration is left on GitHub, which removes it after a day: "+leftBehind))
	}
	return nil
}

// markJob writes the job on the runner's pod, unless something is about to end the pod, as far as is seen.
func (c *Controller) markJob(ctx context.Context, p *pass) (time.Time, error) {
	m := p.memory
	if p.pod == nil || p.pod.DeletionTimestamp != nil || p.Status.Done() || m.Pod.Deleted || p.outcome.Over() {
		return time.Time{}, nil
	}
	// A job was reported, or GitHub has refused to remove the registration because of one.
	busy := m.MayHaveJob(&p.Status) || c.removal(p).Busy() || c.verdict(p) == registrations.Busy
	return c.marker.Mark(ctx, &mark.Job{
		Runner: p.EphemeralRunner, Pod: p.pod, Busy: busy, Up: c.options.Clock.Now().Sub(m.StartedAt),
		Written: &m.Pod.Marked, DeniedAt: &m.DeniedAt,
	})
}
