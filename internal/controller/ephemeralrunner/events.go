package ephemeralrunner

import (
	"context"
	"fmt"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// The actions named by Events.
const (
	actionRegister = "Register"
	actionRun      = "RunPod"
	actionDelete   = "Delete"
	actionMark     = "MarkPod"
)

// replaced is the Event of a runner that another one replaces because it can't get its name.
func replaced(d decision) report.Event {
	return report.Warning(d.reason, actionRegister, d.message)
}

// attemptEnded is the Event of every attempt that ended without a job and may be followed by another.
func attemptEnded(d decision, status *v1alpha1.EphemeralRunnerStatus) report.Event {
	if d.disruption {
		return report.Warning(d.reason, actionRun, fmt.Sprintf(
			"the runner lost its pod before it had a job, which is not held against it; the next pod follows in %s: %s",
			backoffAfter(attemptsNoted(status)), d.message))
	}
	return report.Warning(d.reason, actionRun,
		fmt.Sprintf("attempt %d of %d failed: %s", len(status.Failures), len(retryBackoff)+1, d.message))
}

// runnerWaits is recorded once per reason, and again later if the message has changed.
func runnerWaits(d decision) report.Event {
	return report.Warning(d.reason, actionRun, "the runner waits: "+d.message)
}

// sidecarFailed is recorded because a job's failure may have this cause. The runner's own end decides what becomes of the
// runner.
func sidecarFailed(d decision) report.Event {
	return report.Warning(d.reason, actionRun, d.message)
}

// runnerFailed is the last Event of a runner that has failed for good.
func runnerFailed(d decision) report.Event {
	return report.Warning(d.reason, actionRun, "the runner failed: "+d.message)
}

// runnerOutdated is the last Event of a runner whose version GitHub refuses.
func runnerOutdated(d decision) report.Event {
	return report.Warning(d.reason, actionRun, d.message)
}

// draining is not a warning: a job may take as long as it needs.
func draining() report.Event {
	return report.Normal(v1alpha1.ConditionDraining, actionDelete, "the runner has a job; it is deleted once the job has finished")
}

// podKept is the Event of a runner that has ended and can't be removed because its pod is kept.
func podKept(message string) report.Event {
	return report.Warning(v1alpha1.ReasonPodTerminating, actionDelete, "the runner has ended and waits for its pod: "+message)
}

// registrationLeft is the last Event of a runner that is gone while GitHub may still have its registration.
func registrationLeft(cause string) report.Event {
	return report.Warning("RegistrationLeft", actionDelete,
		"the registration is left on GitHub, which removes it after a day: "+cause)
}

// removalUnanswered says what the deletion of a runner waits for, and for how long. The cause comes last because it may be
// long.
func removalUnanswered(mayHaveJob bool, cause string) report.Event {
	limit := fmt.Sprintf("for %s at most", answerTimeout)
	if mayHaveJob {
		limit = "until its job has ended"
	}
	return report.Warning("RemovalUnanswered", actionDelete,
		fmt.Sprintf("GitHub is asked to remove the registration, %s; the last attempt failed: %s", limit, cause))
}

// hookResourcesLeft names what nobody will delete, and how to find it. The API server's words come last because they may be
// long.
func hookResourcesLeft(runner string, refusal error) report.Event {
	return report.Warning("HookResourcesLeft", actionDelete, fmt.Sprintf(
		"pods, Jobs and Secrets that container hooks created for the runner's job may be left, and may keep its volume claim: "+
			"delete those labelled %s=%s; the manager needs the rights that the scale set's chart grants it: %v",
		v1alpha1.LabelRunnerPod, runner, refusal))
}

// podMetadataForbidden names the ways out: the permission or the policy. The API server's words come last because they may be long.
func podMetadataForbidden(namespace string, refusal error) report.Event {
	return report.Warning("PodMetadataForbidden", actionMark, fmt.Sprintf(
		"running jobs of namespace %s are not protected from eviction, and pods don't show their jobs: the manager may not patch pods; "+
			"grant it the verb, as the scale set chart's Role ending in -pod-metadata does, or exempt it from the policy or webhook that is "+
			"named here: %v", namespace, refusal))
}

// record records an Event about the runner and logs it. A runner that simply succeeds gets none.
func (c *Controller) record(ctx context.Context, p *pass, event report.Event) {
	report.RecordEvent(ctx, c.options.Recorder, p.EphemeralRunner, nil, event)
}
