package autoscalingrunnerset

import (
	"context"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/pool"
)

const (
	// checkEvery is how often a scale set that nobody complains about is looked at on GitHub, give or take a tenth so
	// that sets created together don't ask together. 200 sets make less than one request a second.
	checkEvery = 5 * time.Minute
	// retryFirst and retryMost bound the pauses after a failed call; they double in between.
	retryFirst = 5 * time.Second
	retryMost  = time.Minute
	// recheckPause keeps a listener that goes on complaining from making us ask all the time.
	recheckPause = 5 * time.Second
)

// enrolled is the outcome of an enrolment.
type enrolled struct {
	// question is what was asked for; see questionOf.
	question string
	// wished is a hash of the wish alone.
	wished string
	wish   wish
	// posted says that this or an earlier call may have created a scale set, be it that no answer came.
	posted bool
	// set is GitHub's answer, nil where the call failed.
	set *actions.RunnerScaleSet
}

func (e enrolled) registration() *v1alpha1.ScaleSetRegistration {
	return &v1alpha1.ScaleSetRegistration{URL: e.wish.URL, Group: e.set.RunnerGroupName, Name: e.set.Name, ID: e.set.ID}
}

// resolve finds out what GitHub would be asked for, and with which credentials, or what keeps it from being asked.
func (c *Controller) resolve(ctx context.Context, p *pass) error {
	p.wish, p.obstacle = wishOf(p.set)
	if p.obstacle != nil {
		return nil
	}
	resolved, err := c.options.Connections.Resolve(ctx, credentials.ForAutoscalingRunnerSet(p.set))
	p.again.After(credentials.RereadAfter)
	switch {
	case err == nil:
		p.question = questionOf(p.wish, resolved)
	case credentials.IsVerdict(err):
		p.obstacle = err
	default:
		return fmt.Errorf("read the credentials: %w", err)
	}
	return nil
}

// questionOf is a hash of the wish and of the credentials it is asked with.
func questionOf(w wish, resolved *credentials.Resolved) string {
	return kube.Hash(struct {
		Wish     wish
		Resolved *credentials.Resolved
	}{w, resolved})
}

// enrolWhenDue has GitHub asked when it is time to.
func (c *Controller) enrolWhenDue(ctx context.Context, p *pass) error {
	if p.obstacle != nil {
		return nil
	}
	last, known := c.enrolments.Last(p.key)
	if wait := due(p, last, known); wait > 0 {
		p.again.After(wait)
		return nil
	}
	return c.enrol(ctx, p, last)
}

// readAnswer notes what the last call has brought, be it only that it is under way.
func (c *Controller) readAnswer(_ context.Context, p *pass) error {
	if p.obstacle != nil {
		return nil
	}
	p.enrolment, p.asked = c.enrolments.Last(p.key)
	p.asked = p.asked && (p.enrolment.Running() || p.enrolment.Result.question == p.question)
	if p.asked && p.enrolment.Running() && p.registration == nil {
		p.again.After(max(silentAfter-p.now.Sub(p.enrolment.Started), statusPause))
	}
	return nil
}

// due returns how long GitHub need not be asked, zero when it is time to.
func due(p *pass, last pool.Call[enrolled], known bool) time.Duration {
	switch {
	case !known:
		return 0
	case last.Running():
		return checkEvery // its end is news and wakes us
	case last.Result.question != p.question:
		return 0
	case last.Err != nil:
		return backOff(last).Sub(p.now)
	case p.lostSince(last.Started):
		return last.Finished.Add(recheckPause).Sub(p.now)
	}
	return last.Finished.Add(jittered(p)).Sub(p.now)
}

// backOff returns when a failed call may be repeated: after a pause, and not before the time that GitHub has named.
func backOff[T any](last pool.Call[T]) time.Time {
	return actions.RetryAt(last.Err, last.Finished.Add(pauseAfter(last.Failures)))
}

// pauseAfter is the pause after so many failures in a row, one at least.
func pauseAfter(failures int) time.Duration {
	return kube.ExponentialBackoff(retryFirst, retryMost, failures)
}

// lostSince says that the listener has reported the scale set gone after it was last looked at. Its clock has whole
// seconds.
func (p *pass) lostSince(looked time.Time) bool {
	runnerSet := p.runnerSet()
	if runnerSet == nil || runnerSet.Status.Listener == nil || runnerSet.Status.Listener.Since == nil {
		return false
	}
	listener := runnerSet.Status.Listener
	return listener.Reason == v1alpha1.ReasonScaleSetNotFound && listener.Since.Add(time.Second).After(looked)
}

// jittered is checkEvery, longer or shorter by up to a tenth: always the same for one set, different between sets.
func jittered(p *pass) time.Duration {
	hash := fnv.New32a()
	hash.Write([]byte(p.set.UID))
	fraction := float64(hash.Sum32()) / float64(1<<32)
	return time.Duration(float64(checkEvery) * (0.9 + 0.2*fraction))
}

// enrol has the scale set created, found or updated in the pool.
func (c *Controller) enrol(ctx context.Context, p *pass, last pool.Call[enrolled]) error {
	owners, err := c.owners(ctx, p)
	if err != nil {
		return err
	}
	reference := credentials.ForAutoscalingRunnerSet(p.set)
	outcome := enrolled{question: p.question, wished: kube.Hash(p.wish), wish: p.wish, posted: last.Result.posted}
	work := enrolment{wish: p.wish, owners: owners}
	switch here := p.registration != nil && sameURL(p.registration.URL, p.wish.URL); {
	case here && !p.unconfirmed:
		work.id = p.registration.ID
	case last.Result.set != nil && sameURL(last.Result.wish.URL, p.wish.URL):
		work.id = last.Result.set.ID // made for a wish that changed before the answer could be recorded
	case here:
		work.id, work.named = p.registration.ID, &p.registration.Name
	}
	if last.Result.wished == outcome.wished {
		work.settled = last.Result.set
	}
	c.enrolments.Go(p.group(), p.key, func(ctx context.Context) (enrolled, error) {
		ctx = kube.WithScaleSetLogger(ctx, p.key)
		github, err := c.options.Connections.GitHub(ctx, reference)
		if err != nil {
			return outcome, err
		}
		work.github = github
		outcome.set, err = work.run(ctx)
		outcome.posted = outcome.posted || work.posted
		return outcome, err
	})
	return nil
}

// owners returns who holds which scale set under the wish's address. Of two AutoscalingRunnerSets that hold the same,
// the older one does, so that exactly one gives way.
func (c *Controller) owners(ctx context.Context, p *pass) (map[int]string, error) {
	var sets v1alpha1.AutoscalingRunnerSetList
	if err := c.options.Client.List(ctx, &sets); err != nil {
		return nil, fmt.Errorf("list AutoscalingRunnerSets: %w", err)
	}
	owners := map[int]string{}
	for i := range sets.Items {
		other := &sets.Items[i]
		if held := registrationOf(other); other.UID != p.set.UID && held != nil && sameURL(held.URL, p.wish.URL) {
			if p.registration == nil || p.registration.ID != held.ID || older(other, p.set) {
				owners[held.ID] = client.ObjectKeyFromObject(other).String()
			}
		}
	}
	return owners, nil
}

func older(a, b *v1alpha1.AutoscalingRunnerSet) bool { return newestFirst(b, a) < 0 }

// sameURL compares addresses as GitHub would read them, without regard to case and to slashes at the ends.
func sameURL(a, b string) bool {
	left, leftErr := actions.ParseConfigURL(a)
	right, rightErr := actions.ParseConfigURL(b)
	if leftErr != nil || rightErr != nil {
		return a == b
	}
	return strings.EqualFold(left.String(), right.String())
}

// record writes where GitHub's answer says the scale set is to the annotations that ARC knows, and to the pass for
// status.registration. A registration under another address than before becomes a former one, which is left in peace
// until its runners are done.
func (c *Controller) record(ctx context.Context, p *pass) error {
	if !p.answered() || p.enrolment.Err != nil {
		return nil
	}
	now := *p.enrolment.Result.registration()
	before := p.set.DeepCopy()
	previous := p.registration
	if previous != nil && !sameURL(previous.URL, now.URL) {
		c.leave(ctx, p, *previous)
	}
	dropFormer(p.set, now)
	kube.SetAnnotation(p.set, v1alpha1.AnnotationRunnerScaleSetID, strconv.Itoa(now.ID))
	kube.SetAnnotation(p.set, v1alpha1.AnnotationRunnerGroupName, now.Group)
	kube.SetAnnotation(p.set, v1alpha1.AnnotationRunnerScaleSetName, now.Name)
	p.set.Labels = kube.Labels(nil, withoutScope(p.set.Labels), scopeLabels(now.URL))
	wrote, err := kube.Patch(ctx, c.options.Client, p.set, before)
	if err != nil {
		return fmt.Errorf("record the registration: %w", err)
	}
	if p.unconfirmed && previous.ID != now.ID {
		previous = nil // the scale set that the annotation names is none of ours, or gone
	}
	p.registration, p.unconfirmed = &now, false
	if event, news := registrationNews(previous, now); news && wrote {
		kube.RecordEvent(ctx, c.options.Recorder, p.set, nil, event)
	}
	return nil
}

// registrationNews returns the Event that the step from before to now is worth.
func registrationNews(before *v1alpha1.ScaleSetRegistration, now v1alpha1.ScaleSetRegistration) (kube.Event, bool) {
	switch {
	case before == nil || !sameURL(before.URL, now.URL):
		return registered(now), true
	case before.ID != now.ID:
		return reregistered(*before, now), true
	case before.Name != now.Name || before.Group != now.Group:
		return updated(now), true
	}
	return kube.Event{}, false
}
