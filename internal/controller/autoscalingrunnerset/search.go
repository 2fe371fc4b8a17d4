package autoscalingrunnerset

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/apiaccess"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
)

// annotationDeregistered holds the set's UID once the deregistration is over: a scale set that is found by the set's name after that is
// not ours, or was given up. A copy of the set has another UID.
const annotationDeregistered = "actions.github.com/deregistered"

func isDeregistered(set *v1alpha1.AutoscalingRunnerSet) bool {
	uid := set.Annotations[annotationDeregistered]
	return uid != "" && uid == string(set.UID)
}

// maxClockSkew is how far the API server's clock, which dates the set, may be ahead of GitHub's, which dates the scale set.
const maxClockSkew = time.Minute

// searchResult is the result of a call that looks for a scale set.
type searchResult struct {
	// startedAt is when the first of the calls started.
	startedAt time.Time
	// found is the scale set that was found, nil if GitHub has none.
	found *v1alpha1.ScaleSetRegistration
}

// search finds a scale set that was created but not recorded, because GitHub's answer was lost or the manager was killed before it
// could write it. It also checks whether the scale set that ARC's annotation names is ours. It is done when the scale set has become
// the registration, if there is none, or if GitHub can't be asked.
func (c *Controller) search(ctx context.Context, p *pass) (bool, error) {
	desired, err := desiredOf(p.set)
	if err != nil || !c.mayBeUnrecorded(p) {
		return true, nil // with such a spec GitHub was never asked
	}
	last, known := c.searches.Last(p.key)
	if known && !last.Running() {
		switch {
		case last.Err == nil:
			return true, c.adopt(ctx, p, last.Result.found)
		case refused(last.Err) && !apiaccess.MayPass(last.Err, last.Result.startedAt, p.now) || !p.now.Before(last.Result.startedAt.Add(DeregisterTimeout)):
			return true, c.giveUpSearch(ctx, p, desired, last.Err)
		}
		if wait := min(retryAt(last).Sub(p.now), last.Result.startedAt.Add(DeregisterTimeout).Sub(p.now)); wait > 0 {
			p.searching = true
			p.requeue.After(wait)
			return false, nil
		}
	}
	p.searching = true
	c.startSearch(p, desired, last.Result.startedAt)
	return false, nil
}

// mayBeUnrecorded reports whether GitHub may have a scale set that is recorded nowhere. If only this process has ever served the set,
// there is none unless this process requested it.
func (c *Controller) mayBeUnrecorded(p *pass) bool {
	if p.unconfirmed {
		return true
	}
	if p.registration != nil || isDeregistered(p.set) {
		return false
	}
	last, _ := c.syncs.Last(p.key)
	return last.Result.posted || !p.memory.begunHere
}

// startSearch looks for the id in ARC's annotation or, if there is none, for group and name, as a scaleSetSync does after an answer
// was lost.
func (c *Controller) startSearch(p *pass, desired desiredScaleSet, startedAt time.Time) {
	if startedAt.IsZero() {
		startedAt = p.now
	}
	reference, listener := credentials.ForAutoscalingRunnerSet(p.set), p.listenerAt(desired.URL)
	last, _ := c.syncs.Last(p.key)
	work := scaleSetSync{desired: desired, unanswered: last.Result.unanswered}
	// A scale set that is older than the set belongs to somebody else, in another cluster.
	earliest := p.set.CreationTimestamp.Add(-maxClockSkew)
	if p.unconfirmed {
		work.identify(p, syncResult{})
		earliest = time.Time{}
	}
	c.searches.Go(p.group(), p.key, func(ctx context.Context) (searchResult, error) {
		ctx = kube.WithScaleSetLogger(ctx, p.key)
		result := searchResult{startedAt: startedAt}
		err := c.withAnyCredentials(ctx, reference, listener, func(github GitHub) error {
			attempt := work
			attempt.github = github
			set, err := attempt.find(ctx)
			if err == nil && (set.CreatedOn.IsZero() || set.CreatedOn.After(earliest)) {
				result.found = syncResult{desired: desired, set: set}.registration()
			}
			return err
		})
		if errors.Is(err, actions.ErrNotFound) {
			err = nil // whether the scale set, its runner group or the whole address doesn't exist
		}
		return result, err
	})
}

// adopt takes the scale set that was found as the registration, unless another AutoscalingRunnerSet holds it.
func (c *Controller) adopt(ctx context.Context, p *pass, found *v1alpha1.ScaleSetRegistration) error {
	p.registration, p.unconfirmed = nil, false
	if found == nil {
		return nil
	}
	own, err := c.heldByNobodyElse(ctx, p, []v1alpha1.ScaleSetRegistration{*found})
	if err == nil && len(own) > 0 {
		p.registration = found
	}
	return err
}

// refused reports whether asking again with these credentials is pointless.
func refused(err error) bool {
	return credentials.Unusable(err) ||
		errors.Is(err, actions.ErrUnauthorized) || errors.Is(err, actions.ErrInvalidCredentials)
}

// giveUpSearch records an Event about what may be left, unless the credentials were never valid and so can't have created anything.
func (c *Controller) giveUpSearch(ctx context.Context, p *pass, desired desiredScaleSet, cause error) error {
	if err := c.forgetRegistration(ctx, p); err != nil {
		return err
	}
	if !refused(cause) || !meta.IsStatusConditionFalse(p.set.Status.Conditions, v1alpha1.ConditionCredentialsValid) {
		c.recordFarewell(ctx, p, perhapsLeftBehind(desired, cause))
	}
	return nil
}
