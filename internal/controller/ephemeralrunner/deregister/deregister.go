// Package deregister has GitHub remove the registration of one runner, in the pool. Consent proves that the runner will not get a job.
package deregister

import (
	"context"

	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/calls"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/pool"
)

// Options are what a Remover needs from outside.
type Options struct {
	// GitHub returns the client for a scale set's credentials.
	GitHub func(context.Context, credentials.Reference) (calls.GitHub, error)
	Pool   *pool.Pool
	Clock  clock.PassiveClock
	// Wake is called at the end of each call.
	Wake func(calls.Key)
	// Counted reports whether the runner belongs to a set that an AutoscalingRunnerSet owns. Whatever the status of any other says, and
	// whatever GitHub has under its name, may be a runner's that works in another cluster.
	Counted func(context.Context, *v1alpha1.EphemeralRunner) (bool, error)
}

// Remover asks GitHub, and knows its last answer about each runner. Safe for concurrent use.
type Remover struct {
	options Options
	removes *pool.Calls[calls.Key, struct{}]
}

// New returns a Remover.
func New(options Options) *Remover {
	return &Remover{options: options, removes: pool.NewCalls[calls.Key, struct{}](options.Pool, options.Clock, options.Wake)}
}

// Start asks GitHub, in the pool, to remove the runner's registration; it does nothing while that is under way. certain says that the id
// comes from the runner's own pod, or that this process has registered the runner: otherwise only its status says so, and GitHub is asked
// for the registration by the runner's name. A runner of which nothing is certain, and that no set counts, has no registration.
func (r *Remover) Start(runner *v1alpha1.EphemeralRunner, id int, certain bool) {
	runner = runner.DeepCopy() // the call outlasts the pass, which may go on to write the runner's status
	r.removes.Go(calls.GroupOf(runner), calls.KeyOf(runner), func(ctx context.Context) (struct{}, error) {
		ctx = calls.WithLogger(ctx, runner)
		if !certain {
			if counted, err := r.options.Counted(ctx, runner); err != nil || !counted {
				return struct{}{}, calls.NotRemoved(err)
			}
		}
		github, err := r.options.GitHub(ctx, credentials.ForEphemeralRunner(runner))
		if err != nil {
			return struct{}{}, calls.RegistrationFailure(err)
		}
		found, err := registrationOf(ctx, github, runner, id, certain)
		if err == nil && found != 0 {
			err = github.RemoveRunner(ctx, found)
		}
		return struct{}{}, calls.NotRemoved(err)
	})
}

// Last returns how far the last call about the runner is.
func (r *Remover) Last(key calls.Key) calls.Progress { return calls.ProgressOf(r.removes.Last(key)) }

// Forget forgets the last answer about the runner.
func (r *Remover) Forget(key calls.Key) { r.removes.Forget(key) }

// registrationOf returns the id of the registration that the runner has on GitHub, 0 if it has none or certainly none of its own. An id
// that isn't certain may be a copy of another runner's or from another time: then the registration is that of the runner's name, which
// nobody else gets here.
func registrationOf(ctx context.Context, github calls.GitHub, runner *v1alpha1.EphemeralRunner, known int, certain bool) (int, error) {
	if certain && known != 0 {
		return known, nil
	}
	found, err := github.GetRunnerByName(ctx, runner.Name)
	if err != nil || found.RunnerScaleSetID != runner.Spec.RunnerScaleSetID {
		return 0, err
	}
	return found.ID, nil
}
