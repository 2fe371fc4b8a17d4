package ephemeralrunner

import (
	"context"
	"errors"
	"fmt"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/credentials"
)

// deregister asks GitHub, in the pool, to remove the runner's registration. Success proves that it will take no job. A
// runner whose id is not known is looked up by its name.
func (c *Controller) deregister(p *pass) {
	// A copy: the call outlasts the pass, which may go on to write the runner's status.
	runner, id := p.EphemeralRunner.DeepCopy(), p.memory.runnerID
	c.deregistrations.Go(groupOf(runner), p.key, func(ctx context.Context) (struct{}, error) {
		ctx = withRunnerLogger(ctx, runner)
		github, err := c.options.GitHub(ctx, credentials.ForEphemeralRunner(runner))
		if err != nil {
			return struct{}{}, registrationFailure(err)
		}
		if id == 0 {
			id, err = lookUp(ctx, github, runner.Name, runner.Spec.RunnerScaleSetID)
		}
		if err == nil && id != 0 {
			err = github.RemoveRunner(ctx, id)
		}
		return struct{}{}, removalFailure(err)
	})
}

// removal returns what became of the last call to remove the registration. That there is none is as good as its removal,
// except while a runner lives that has a job: a proxy or gateway before GitHub may have answered 404, and that would cost
// the job. This is decided when the answer is used: the job may have been reported since GitHub was asked.
func (c *Controller) removal(p *pass) progress {
	last := progressOf(c.deregistrations.Last(p.key))
	lives := p.pod != nil && !p.outcome.over()
	if last.failure == nil || last.failure.kind != failureNotFound || lives && p.mayHaveJob() {
		return last
	}
	return progress{known: true, finishedAt: last.finishedAt}
}

// lookUp returns the id of the runner of that name in our scale set, 0 where another scale set has it.
func lookUp(ctx context.Context, github GitHub, name string, scaleSetID int) (int, error) {
	found, err := github.GetRunnerByName(ctx, name)
	if err != nil || found.RunnerScaleSetID != scaleSetID {
		return 0, err
	}
	return found.ID, nil
}

// removalFailure returns why a registration could not be removed; nil where it was.
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
