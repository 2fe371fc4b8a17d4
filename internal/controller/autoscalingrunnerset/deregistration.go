package autoscalingrunnerset

import (
	"context"
	"errors"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/apiaccess"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/pool"
)

// DeregisterTimeout is how long the deletion of a scale set on GitHub is retried. After that the scale set is left there, an Event
// says so, and the finalizer is removed. The timeout outlasts a restart of GitHub Enterprise Server's services and most incidents,
// and still lets a `kubectl delete namespace` end while somebody watches. GitHub itself deletes scale sets that are unused for days.
const DeregisterTimeout = 5 * time.Minute

// deregistration is the result of a call that deletes scale sets.
type deregistration struct {
	// asked are all registrations that the call was to delete, failures why some of them were not deleted.
	asked    []v1alpha1.ScaleSetRegistration
	failures map[v1alpha1.ScaleSetRegistration]error
}

// deregistrationState is the progress of the deletion of scale sets.
type deregistrationState struct {
	// over is set when nothing more will be tried. left are the scale sets that GitHub may still have then. cause is why the last
	// call failed, nil if there was none or it did not fail.
	over    bool
	deleted []v1alpha1.ScaleSetRegistration
	left    []v1alpha1.ScaleSetRegistration
	cause   error
	// requeueAfter is when to check again, zero if the end of a call brings the next pass.
	requeueAfter time.Duration
}

// deregisterAll deletes the scale sets by calls in the pool, with retries, and returns the progress.
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
	state := deregistrationStateOf(last, known, registrations, p.memory.deregistrationStart, p.now, p.deleting())
	if !state.over && state.requeueAfter == 0 {
		c.startDeregistration(p, registrations) // does nothing while a call runs
	}
	if state.over {
		c.abandonDeregistration(p)
	}
	return state
}

// abandonDeregistration forgets the attempts and the deadline, so that the next deregistration starts afresh. A running call can't be
// taken back: it is forgotten by the pass that its end brings.
func (c *Controller) abandonDeregistration(p *pass) {
	if last, _ := c.deregistrations.Last(p.key); !last.Running() {
		c.deregistrations.Forget(p.key)
		p.memory.deregistrationStart = time.Time{}
	}
}

// deleted returns the registrations that the call deleted.
func (d deregistration) deleted() []v1alpha1.ScaleSetRegistration {
	return slices.DeleteFunc(slices.Clone(d.asked), func(r v1alpha1.ScaleSetRegistration) bool { return d.failures[r] != nil })
}

// covers reports whether GitHub was asked to delete all of the registrations.
func (d deregistration) covers(registrations []v1alpha1.ScaleSetRegistration) bool {
	return !slices.ContainsFunc(registrations, func(r v1alpha1.ScaleSetRegistration) bool { return !slices.Contains(d.asked, r) })
}

// deregistrationStateOf returns the progress according to the last call, which covered all of these registrations if it has ended. A
// running call is awaited, because it has its own timeout. Unusable credentials end the deregistration only if the set is being
// deleted; otherwise somebody may correct them.
func deregistrationStateOf(
	last pool.Call[deregistration], known bool, registrations []v1alpha1.ScaleSetRegistration, startedAt, now time.Time, deleting bool,
) deregistrationState {
	if !known || last.Running() {
		return deregistrationState{}
	}
	left := slices.DeleteFunc(slices.Clone(registrations), func(r v1alpha1.ScaleSetRegistration) bool { return last.Result.failures[r] == nil })
	deadline := startedAt.Add(DeregisterTimeout)
	hopeful := slices.ContainsFunc(left, func(r v1alpha1.ScaleSetRegistration) bool {
		failure := last.Result.failures[r]
		return !isHopeless(failure, deleting) || apiaccess.MayPass(failure, startedAt, now)
	})
	if !hopeful || !now.Before(deadline) {
		return deregistrationState{over: true, deleted: last.Result.deleted(), left: left, cause: last.Err}
	}
	return deregistrationState{cause: last.Err, requeueAfter: max(min(retryAt(last).Sub(now), deadline.Sub(now)), 0)}
}

// isHopeless reports whether asking again is pointless.
func isHopeless(failure error, deleting bool) bool {
	return credentials.Gone(failure) || deleting && (credentials.Unusable(failure) || errors.Is(failure, errNoCredentials))
}

// startDeregistration tries all registrations in one call. Its result has the deleted ones even if others fail.
func (c *Controller) startDeregistration(p *pass, registrations []v1alpha1.ScaleSetRegistration) {
	listeners, references := make([]client.ObjectKey, 0, len(registrations)), make([][]credentials.Reference, 0, len(registrations))
	for _, registration := range registrations {
		listeners, references = append(listeners, p.listenerAt(registration.URL)), append(references, c.referencesTo(p, registration))
	}
	c.deregistrations.Go(p.group(), p.key, func(ctx context.Context) (deregistration, error) {
		ctx = kube.WithScaleSetLogger(ctx, p.key)
		result := deregistration{asked: registrations, failures: map[v1alpha1.ScaleSetRegistration]error{}}
		var errs []error
		for i, registration := range registrations {
			if err := c.deleteScaleSet(ctx, references[i], listeners[i], registration.ID); err != nil {
				errs, result.failures[registration] = append(errs, err), err
			}
		}
		return result, errors.Join(errs...)
	})
}

// errNoCredentials is returned for a registration on a server for which the set no longer has credentials.
var errNoCredentials = errors.New("the credentials that it was registered with are not known, and no others are for that server")

// deleteScaleSet tries the references in turn. It returns the first error, or a later one if the first says that the credentials are
// unusable: those won't come back, while the later ones may be refused only for now.
func (c *Controller) deleteScaleSet(ctx context.Context, references []credentials.Reference, listener client.ObjectKey, id int) error {
	failure := errNoCredentials
	for i, reference := range references {
		err := c.withAnyCredentials(ctx, reference, listener, func(github GitHub) error { return github.DeleteRunnerScaleSet(ctx, id) })
		if err == nil {
			return nil
		}
		if i == 0 || credentials.Unusable(failure) {
			failure = err
		}
	}
	return failure
}

// listenerAt returns the key of the listener whose credentials may be sent to an address, empty if there is none.
func (p *pass) listenerAt(address string) client.ObjectKey {
	if live := p.listener(); live != nil && sameServer(live.Spec.GitHubConfigUrl, address) {
		return client.ObjectKeyFromObject(live)
	}
	return client.ObjectKey{}
}

// withAnyCredentials uses the credentials that the reference names. It falls back to those in the listener's Secret if the former are
// gone (an uninstall deletes the Secret first), can't be used (they were edited), or are refused (they were replaced together with
// the address).
func (c *Controller) withAnyCredentials(
	ctx context.Context, at credentials.Reference, listener client.ObjectKey, ask func(GitHub) error,
) error {
	github, err := c.options.Connections.GitHub(ctx, at)
	if err == nil {
		err = ask(github)
	}
	if err == nil || listener.Name == "" || !credentials.Unusable(err) && !errors.Is(err, actions.ErrUnauthorized) {
		return err
	}
	if github, err = c.options.Connections.GitHubOfListener(ctx, at, listener, err); err != nil {
		return err
	}
	return ask(github)
}

// recordDeregistration records Events about what was deleted and what was left.
func (c *Controller) recordDeregistration(ctx context.Context, p *pass, state deregistrationState) {
	for _, registration := range state.deleted {
		report.RecordEvent(ctx, c.options.Recorder, p.set, nil, deregistered(registration))
	}
	if len(state.left) > 0 {
		c.recordFarewell(ctx, p, leftBehind(state.left, state.cause))
	}
}

// recordFarewell records the Event for the listener, too: if the set's namespace is being deleted, no Event can be created there.
func (c *Controller) recordFarewell(ctx context.Context, p *pass, event report.Event) {
	report.RecordEvent(ctx, c.options.Recorder, p.set, nil, event)
	if listener := p.listener(); listener != nil {
		report.RecordEvent(ctx, c.options.Recorder, listener, p.set, event)
	}
}
