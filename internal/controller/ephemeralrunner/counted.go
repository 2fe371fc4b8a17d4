package ephemeralrunner

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/kube"
)

// A runner that its set doesn't count, or has no room for, is looked at again every uncountedInterval. A set that doesn't
// count is restored in a second, or deleted with its runners in half a minute.
const uncountedInterval = 5 * time.Second

// Why a runner waits that its set doesn't count.
var (
	errSetOwnerless = &rules.Failure{
		Reason:  v1alpha1.ReasonOwnerless,
		Message: "its EphemeralRunnerSet belongs to no AutoscalingRunnerSet; the manager takes the set back, or removes it",
	}
	errNoRoom = &rules.Failure{
		Reason: v1alpha1.ReasonMaxRunnersReached,
		Message: "its EphemeralRunnerSet has as many runners as maxRunners allows, without this one; those that nobody " +
			"needs are removed",
	}
	errClaimsHeld = &rules.Failure{
		Reason:  v1alpha1.ReasonVolumeClaimShared,
		Message: "another runner has its claims; one of the two is replaced",
	}
)

// launchCounted starts an attempt of a runner that its set counts: the set belongs to an AutoscalingRunnerSet, which
// decides how many runners there are, and has room for this one. A set creates no more than it has room for; others
// may. Any other runner waits, and says so.
func (c *Controller) launchCounted(ctx context.Context, w *world) error {
	origin, err := c.origin(ctx, w.set)
	if err != nil {
		return err
	}
	why := errSetOwnerless
	if origin != nil {
		switch {
		case c.options.Admit != nil && !c.options.Admit(origin, w.set, w.Key):
			why = errNoRoom
		case len(w.Spec.VolumeClaims) > 0 && c.options.Hold != nil && !c.options.Hold(w.EphemeralRunner):
			why = errClaimsHeld
		default:
			// No copy of the runner: a pass that launches writes no status.
			c.launcher.Launch(origin, w.EphemeralRunner, w.Memory.runnerID, &w.Memory.launch)
			return nil
		}
	}
	return c.apply(ctx, w, rules.PlanReport(&rules.World{
		Runner:  w.EphemeralRunner,
		Now:     w.Now,
		Attempt: w.Memory.Attempt,
	}, why, w.Now.Add(uncountedInterval)))
}

// isCounted reports whether a runner belongs to a set that an AutoscalingRunnerSet owns.
func (c *Controller) isCounted(ctx context.Context, runner *v1alpha1.EphemeralRunner) (bool, error) {
	set, err := c.runnerSet(ctx, runner)
	if err != nil || set == nil {
		return false, err
	}
	origin, err := c.origin(ctx, set)
	return origin != nil, err
}

// runnerSet returns the set that controls a runner, nil if none that lives does. What the cache lacks may just be late,
// so the API server is asked before a runner is called abandoned.
func (c *Controller) runnerSet(
	ctx context.Context, runner *v1alpha1.EphemeralRunner,
) (*v1alpha1.EphemeralRunnerSet, error) {
	for _, reader := range []client.Reader{c.options.Client, c.options.Reader} {
		set := &v1alpha1.EphemeralRunnerSet{}
		if found, err := kube.ReadController(ctx, reader, runner, "EphemeralRunnerSet", set,
			client.UnsafeDisableDeepCopy); err != nil || found {
			return set, err
		}
	}
	return nil, nil
}

// origin returns the AutoscalingRunnerSet that a set belongs to, nil if none that lives.
func (c *Controller) origin(
	ctx context.Context, set *v1alpha1.EphemeralRunnerSet,
) (*v1alpha1.AutoscalingRunnerSet, error) {
	origin := &v1alpha1.AutoscalingRunnerSet{}
	found, err := kube.ReadController(ctx, c.options.Client, set, "AutoscalingRunnerSet", origin,
		client.UnsafeDisableDeepCopy)
	if err != nil || !found {
		return nil, err
	}
	return origin, nil
}
