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
	"github.com/harrier-ci/harrier/internal/apiaccess"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/pool"
)

// DeregisterTimeout is how long GitHub is asked without success to delete a scale set before the scale set is left there,
// which an Event says, and the finalizer is removed. It outlasts a restart of GitHub Enterprise Server's services and most
// incidents, and still lets a `kubectl delete namespace` end while somebody watches. GitHub itself deletes scale sets that
// are unused for days.
const DeregisterTimeout = 5 * time.Minute

// deregistration is the result of a call that deletes scale sets.
type deregistration struct {
	// asked are all that the call was to delete.
	asked   []v1alpha1.ScaleSetRegistration
	deleted []v1alpha1.ScaleSetRegistration
}

// deregistrationState is the progress of the deletion of scale sets.
type deregistrationState struct {
	// over is set when nothing more will be tried. left are those that GitHub may still have then. cause is why the last call
	// failed, nil while there has been none.
	over    bool
	deleted []v1alpha1.ScaleSetRegistration
	left    []v1alpha1.ScaleSetRegistration
	cause   error
	// requeueAfter is when to check again, zero where the end of a call brings the next pass.
	requeueAfter time.Duration
}

// deregisterAll has the registrations deleted in the pool, with retries, and returns the progress.
func (c *Controller) deregisterAll(p *pass, registrations []v1alpha1.ScaleSetRegistration) deregistrationState {
	if len(registrations) == 0 {
		return deregistrationState{over: true}
	}
	last, known := c.deregistrations.Last(p.key)
	if known && !last.Running() && !last.Result.covers(registrations) {
		c.abandonDeregistration(p)
		known = false
	}
	kube.SetIfZero(&p.memory.deregistrationStart, p.now)
	state := deregistrationStateOf(last, known, registrations, p.memory.deregistrationStart, p.now)
	if !state.over && state.requeueAfter == 0 {
		c.startDeregistration(p, registrations) // does nothing while a call runs
	}
	if state.over {
		c.abandonDeregistration(p)
	}
	return state
}

// abandonDeregistration forgets the attempts and the deadline, so that the next deregistration has its own.
func (c *Controller) abandonDeregistration(p *pass) {
	c.deregistrations.Forget(p.key)
	p.memory.deregistrationStart = time.Time{}
}

// covers reports whether GitHub was asked to delete all of the registrations.
func (d deregistration) covers(registrations []v1alpha1.ScaleSetRegistration) bool {
	return !slices.ContainsFunc(registrations, func(r v1alpha1.ScaleSetRegistration) bool { return !slices.Contains(d.asked, r) })
}

// deregistrationStateOf returns what the last call means, which covered all of these registrations if it has ended. A
// running call is awaited: it has a timeout of its own.
func deregistrationStateOf(
	last pool.Call[deregistration], known bool, registrations []v1alpha1.ScaleSetRegistration, startedAt, now time.Time,
) deregistrationState {
	if !known || last.Running() {
		return deregistrationState{}
	}
	left := slices.DeleteFunc(slices.Clone(registrations), func(r v1alpha1.ScaleSetRegistration) bool { return slices.Contains(last.Result.deleted, r) })
	deadline := startedAt.Add(DeregisterTimeout)
	if len(left) == 0 || credentials.Gone(last.Err) && !apiaccess.MayPass(last.Err, startedAt, now) || !now.Before(deadline) {
		return deregistrationState{over: true, deleted: last.Result.deleted, left: left, cause: last.Err}
	}
	return deregistrationState{cause: last.Err, requeueAfter: max(min(retryAt(last).Sub(now), deadline.Sub(now)), 0)}
}

// startDeregistration tries all registrations in one call, whose result has those that were deleted even if others hang.
func (c *Controller) startDeregistration(p *pass, registrations []v1alpha1.ScaleSetRegistration) {
	reference, listener := credentials.ForAutoscalingRunnerSet(p.set), p.listenerKey()
	secrets := make([]string, 0, len(registrations))
	for _, registration := range registrations {
		secrets = append(secrets, formerSecret(p.set, registration))
	}
	c.deregistrations.Go(p.group(), p.key, func(ctx context.Context) (deregistration, error) {
		ctx = kube.WithScaleSetLogger(ctx, p.key)
		result := deregistration{asked: registrations}
		var errs []error
		for i, registration := range registrations {
			at := reference
			at.GitHubConfigURL = registration.URL
			if err := c.deleteScaleSet(ctx, at, secrets[i], listener, registration.ID); err != nil {
				errs = append(errs, err)
			} else {
				result.deleted = append(result.deleted, registration)
			}
		}
		return result, errors.Join(errs...)
	})
}

// deleteScaleSet tries the Secret of a former registration first, if it is known and differs from the present one.
func (c *Controller) deleteScaleSet(ctx context.Context, at credentials.Reference, former string, listener client.ObjectKey, id int) error {
	deletion := func(github GitHub) error { return github.DeleteRunnerScaleSet(ctx, id) }
	if former != "" && former != at.GitHubConfigSecret {
		then := at
		then.GitHubConfigSecret = former
		if github, err := c.options.Connections.GitHub(ctx, then); err == nil && deletion(github) == nil {
			return nil
		}
	}
	return c.withAnyCredentials(ctx, at, listener, deletion)
}

// listenerKey is empty where there is no listener.
func (p *pass) listenerKey() client.ObjectKey {
	if live := p.listener(); live != nil {
		return client.ObjectKeyFromObject(live)
	}
	return client.ObjectKey{}
}

// withAnyCredentials uses the set's own credentials, and falls back to those in the listener's Secret where the set's are
// gone (an uninstall deletes the Secret first) or are refused (they were replaced together with the address).
func (c *Controller) withAnyCredentials(
	ctx context.Context, at credentials.Reference, listener client.ObjectKey, ask func(GitHub) error,
) error {
	github, err := c.options.Connections.GitHub(ctx, at)
	if err == nil {
		err = ask(github)
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
	return ask(github)
}

// recordDeregistration records Events about what was deleted and what was left.
func (c *Controller) recordDeregistration(ctx context.Context, p *pass, state deregistrationState) {
	for _, registration := range state.deleted {
		kube.RecordEvent(ctx, c.options.Recorder, p.set, nil, deregistered(registration))
	}
	if len(state.left) > 0 {
		c.recordLeftBehind(ctx, p, leftBehind(state.left, state.cause))
	}
}

// recordLeftBehind records the Event for the listener too: in a namespace that is itself being deleted none can be created.
func (c *Controller) recordLeftBehind(ctx context.Context, p *pass, event kube.Event) {
	kube.RecordEvent(ctx, c.options.Recorder, p.set, nil, event)
	if listener := p.listener(); listener != nil {
		kube.RecordEvent(ctx, c.options.Recorder, listener, p.set, event)
	}
}
