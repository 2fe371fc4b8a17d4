package ephemeralrunner

import (
	"context"
	"errors"
	"fmt"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/credentials"
)

// deregister asks GitHub, in the pool, to remove the runner's registration. Success proves that the runner will not get a
// job. If the runner's id is not certain, GitHub is asked for it by name; if nothing but its status says that it was ever registered and
// no set counts it, it has no registration.
func (c *Controller) deregister(p *pass) {
	// A copy: the call outlasts the pass, which may go on to write the runner's status.
	runner, id, certain := p.EphemeralRunner.DeepCopy(), p.memory.runnerID, p.memory.pod.uid != "" || p.memory.shared.wasAsked()
	c.deregistrations.Go(groupOf(runner), p.key, func(ctx context.Context) (struct{}, error) {
		ctx = withRunnerLogger(ctx, runner)
		if !certain {
			if counted, err := c.isCounted(ctx, runner); err != nil || !counted {
				return struct{}{}, removalFailure(err)
			}
		}
		github, err := c.options.GitHub(ctx, credentials.ForEphemeralRunner(runner))
		if err != nil {
			return struct{}{}, registrationFailure(err)
		}
		id, err = c.registrationOf(ctx, github, runner, id, certain)
		if err == nil && id != 0 {
			err = github.RemoveRunner(ctx, id)
		}
		return struct{}{}, removalFailure(err)
	})
}

// isCounted reports whether a runner belongs to a set that an AutoscalingRunnerSet owns. Whatever the status of any other says, and whatever
// GitHub has under its name, may be a runner's that works in another cluster.
func (c *Controller) isCounted(ctx context.Context, runner *v1alpha1.EphemeralRunner) (bool, error) {
	set, err := c.runnerSet(ctx, runner)
	if err != nil || set == nil {
		return false, err
	}
	origin, err := c.origin(ctx, set)
	return origin != nil, err
}

// registrationOf returns the id of the registration that the runner has on GitHub, 0 if it has none or certainly none of its own. certain
// says that known comes from the runner's own pod, or that this process has registered it. Otherwise only the status names it, which may be
// a copy of another runner's or from another time: then the registration is that of the runner's name, which nobody else gets here.
func (c *Controller) registrationOf(ctx context.Context, github GitHub, runner *v1alpha1.EphemeralRunner, known int, certain bool) (int, error) {
	if certain && known != 0 {
		return known, nil
	}
	found, err := github.GetRunnerByName(ctx, runner.Name)
	if err != nil || found.RunnerScaleSetID != runner.Spec.RunnerScaleSetID {
		return 0, err
	}
	return found.ID, nil
}

// removal returns the state of the last call to remove the registration. The answer that there is none is as good as a
// removal, except while a runner with a job is alive: the 404 may have come from a proxy or gateway in front of GitHub, and
// would cost the job. That is decided when the answer is used, because the job may have been reported since GitHub was asked.
func (c *Controller) removal(p *pass) progress {
	last := progressOf(c.deregistrations.Last(p.key))
	lives := p.pod != nil && !p.outcome.over()
	if last.failure == nil || last.failure.kind != failureNotFound || lives && p.mayHaveJob() {
		return last
	}
	return progress{known: true, finishedAt: last.finishedAt}
}

// removalFailure returns why a registration could not be removed, nil if it was.
func removalFailure(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, actions.ErrJobStillRunning):
		return &failure{kind: failureBusy, reason: "JobRunning", message: "GitHub does not remove the runner while it runs a job"}
	default:
		f := registrationFailure(err)
		f.message = fmt.Sprintf("remove the registration: %s", f.message)
		if errors.Is(err, actions.ErrRunnerNotFound) {
			f.kind = failureNotFound
		}
		return f
	}
}
