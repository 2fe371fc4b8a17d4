package autoscalingrunnerset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/pool"
)

// FarewellTimeout is how long GitHub is asked in vain to delete a scale set before it is left there, said so in an Event,
// and the finalizer released. It outlasts a restart of GitHub Enterprise Server's services and most incidents, and
// still lets a `kubectl delete namespace` end while somebody watches. GitHub itself deletes what is unused for days.
const FarewellTimeout = 5 * time.Minute

// parting is the outcome of a farewell.
type parting struct {
	deleted []v1alpha1.ScaleSetRegistration
}

// bye is what is known about the deletion of registrations.
type bye struct {
	// over says that nothing more will be tried; left are those that GitHub may still have, and why.
	over    bool
	deleted []v1alpha1.ScaleSetRegistration
	left    []v1alpha1.ScaleSetRegistration
	cause   error
	// again is when to look next, zero when the end of a call will wake us.
	again time.Duration
}

// partFrom has the registrations deleted in the pool, repeatedly if need be, and says how far that is.
func (c *Controller) partFrom(p *pass, registrations []v1alpha1.ScaleSetRegistration) bye {
	if len(registrations) == 0 {
		return bye{over: true}
	}
	since := c.memory.partingSince(p.key, p.now)
	last, known := c.farewells.Last(p.key)
	state := judge(last, known, registrations, since, p.now)
	if !state.over && state.again == 0 {
		c.askToPart(p, registrations) // does nothing while a call runs
	}
	if state.over {
		c.farewells.Forget(p.key)
		c.memory.partingOver(p.key)
	}
	return state
}

// judge decides what the last call means. A running call is awaited: it has a deadline of its own.
func judge(last pool.Call[parting], known bool, registrations []v1alpha1.ScaleSetRegistration, since, now time.Time) bye {
	if !known || last.Running() {
		return bye{}
	}
	left := slices.DeleteFunc(slices.Clone(registrations), func(r v1alpha1.ScaleSetRegistration) bool { return slices.Contains(last.Result.deleted, r) })
	deadline := since.Add(FarewellTimeout)
	switch {
	case len(left) == 0 || credentials.Gone(last.Err):
		return bye{over: true, deleted: last.Result.deleted, left: left, cause: last.Err}
	case last.Err == nil: // it was about other registrations
		return bye{}
	case !now.Before(deadline):
		return bye{over: true, deleted: last.Result.deleted, left: left, cause: last.Err}
	}
	next := last.Finished.Add(pauseAfter(last.Failures))
	return bye{again: max(min(next.Sub(now), deadline.Sub(now)), 0)}
}

// askToPart has all registrations tried in one call, so that one that hangs does not hide how the others went.
func (c *Controller) askToPart(p *pass, registrations []v1alpha1.ScaleSetRegistration) {
	reference := credentials.ForAutoscalingRunnerSet(p.set)
	var listener client.ObjectKey
	if live := p.listener(); live != nil {
		listener = client.ObjectKeyFromObject(live)
	}
	c.farewells.Go(p.group(), p.key, func(ctx context.Context) (parting, error) {
		ctx = kube.LogAbout(ctx, p.key)
		var result parting
		var errs []error
		for _, registration := range registrations {
			at := reference
			at.GitHubConfigURL = registration.URL
			if err := c.deleteScaleSet(ctx, at, listener, registration.ID); err != nil {
				errs = append(errs, err)
			} else {
				result.deleted = append(result.deleted, registration)
			}
		}
		return result, errors.Join(errs...)
	})
}

// deleteScaleSet uses the set's own credentials, and those that the listener was given where the set's are gone (an
// uninstall deletes the Secret first) or are refused (they were exchanged together with the address).
func (c *Controller) deleteScaleSet(ctx context.Context, at credentials.Reference, listener client.ObjectKey, id int) error {
	github, err := c.options.Connections.GitHub(ctx, at)
	if err == nil {
		err = github.DeleteRunnerScaleSet(ctx, id)
	}
	if err == nil || listener.Name == "" || !credentials.Gone(err) && !errors.Is(err, actions.ErrUnauthorized) {
		return err
	}
	resolved, listenerErr := c.options.Connections.FromListener(ctx, listener)
	if listenerErr != nil {
		return fmt.Errorf("%w (the listener's Secret doesn't help: %w)", err, listenerErr)
	}
	github, err = c.options.Connections.GitHubFrom(at, resolved)
	if err != nil {
		return err
	}
	return github.DeleteRunnerScaleSet(ctx, id)
}
