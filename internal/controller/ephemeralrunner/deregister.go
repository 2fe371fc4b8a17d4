package ephemeralrunner

import (
	"context"
	"errors"
	"fmt"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/credentials"
)

// deregister asks GitHub, in the pool, to remove the runner's registration. Success proves that the runner will not get a
// job. If the runner's id is not known, GitHub is asked for it by name.
func (c *Controller) deregister(p *pass) {
	// A copy: the call outlasts the pass, which may go on to write the runner's status.
	runner, id, certain := p.EphemeralRunner.DeepCopy(), p.memory.runnerID, p.memory.pod.uid != "" || p.memory.shared.wasAsked()
	c.deregistrations.Go(groupOf(runner), p.key, func(ctx context.Context) (struct{}, error) {
		ctx = withRunnerLogger(ctx, runner)
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
