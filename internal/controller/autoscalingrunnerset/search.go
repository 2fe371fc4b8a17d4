package autoscalingrunnerset

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
)

// annotationDeregistered says, by the set's UID, that the deregistration is over: what is found under the set's name
// from then on is not ours, or was given up. A copy of the set has another UID.
const annotationDeregistered = "actions.github.com/deregistered"

// clockSkew is how far the API server's clock, which dates the set, may be from GitHub's, which dates the scale set.
const clockSkew = time.Minute

// searched is the outcome of a call that looks for a scale set.
type searched struct {
	// since is when the first of the calls was asked for.
	since time.Time
	// found is nil where GitHub has none.
	found *v1alpha1.ScaleSetRegistration
}

// search finds a scale set that was created without being recorded: GitHub's answer was lost, or the manager was killed
// before it could write it down. It also finds out whether the one that ARC's annotation names is ours. It is done when
// the scale set is the registration, when there is none, or when it can't be found out.
func (c *Controller) search(ctx context.Context, p *pass) (bool, error) {
	wanted, err := wishOf(p.set)
	if err != nil || !c.mayBeUnrecorded(p) {
		return true, nil // with such a spec GitHub was never asked
	}
	last, known := c.searches.Last(p.key)
	if known && !last.Running() {
		switch {
		case last.Err == nil:
			return true, c.adopt(ctx, p, last.Result.found)
		case refused(last.Err) || !p.now.Before(last.Result.since.Add(DeregisterTimeout)):
			return true, c.giveUpSearch(ctx, p, wanted, last.Err)
		}
		if wait := min(backOff(last).Sub(p.now), last.Result.since.Add(DeregisterTimeout).Sub(p.now)); wait > 0 {
			p.searching = true
			p.again.After(wait)
			return false, nil
		}
	}
	p.searching = true
	c.startSearch(p, wanted, last.Result.since)
	return false, nil
}

// mayBeUnrecorded says that GitHub may have a scale set of which nothing here tells. What only this process has served
// has none unless this process has asked for one.
func (c *Controller) mayBeUnrecorded(p *pass) bool {
	if p.unconfirmed {
		return true
	}
	if p.registration != nil || p.set.Annotations[annotationDeregistered] == string(p.set.UID) {
		return false
	}
	last, _ := c.enrolments.Last(p.key)
	return last.Result.posted || !c.memory.begunHere(p.key)
}

// startSearch goes by group and name, as an enrolment that has lost an answer does, and by ARC's annotation before that.
func (c *Controller) startSearch(p *pass, wanted wish, since time.Time) {
	if since.IsZero() {
		since = p.now
	}
	reference, listener := credentials.ForAutoscalingRunnerSet(p.set), p.listenerKey()
	var id int
	var named *string
	// One that was there before the set was is somebody else's, of another cluster.
	earliest := p.set.CreationTimestamp.Add(-clockSkew)
	if p.unconfirmed {
		id, named, earliest = p.registration.ID, &p.registration.Name, time.Time{}
	}
	c.searches.Go(p.group(), p.key, func(ctx context.Context) (searched, error) {
		ctx = kube.WithScaleSetLogger(ctx, p.key)
		result := searched{since: since}
		err := c.withAnyCredentials(ctx, reference, listener, func(github GitHub) error {
			work := enrolment{github: github, wish: wanted, id: id, named: named}
			set, err := work.find(ctx)
			if err == nil && (set.CreatedOn.IsZero() || set.CreatedOn.After(earliest)) {
				result.found = enrolled{wish: wanted, set: set}.registration()
			}
			return err
		})
		if errors.Is(err, actions.ErrNotFound) {
			err = nil // be it the scale set, its runner group, or all of the address
		}
		return result, err
	})
}

// adopt makes what was found the registration, unless another AutoscalingRunnerSet holds it.
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

// refused says that asking again with these credentials is of no use.
func refused(err error) bool {
	return credentials.Gone(err) || credentials.IsVerdict(err) ||
		errors.Is(err, actions.ErrUnauthorized) || errors.Is(err, actions.ErrInvalidCredentials)
}

// giveUpSearch says what may be left, unless the credentials have never been good for creating anything.
func (c *Controller) giveUpSearch(ctx context.Context, p *pass, wanted wish, cause error) error {
	if err := c.forgetRegistration(ctx, p); err != nil {
		return err
	}
	if !refused(cause) || !meta.IsStatusConditionFalse(p.set.Status.Conditions, v1alpha1.ConditionCredentialsValid) {
		c.tellLeft(ctx, p, perhapsLeftBehind(wanted, cause))
	}
	return nil
}
