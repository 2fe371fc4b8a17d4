package autoscalingrunnerset

import (
	"cmp"
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
	// checkPeriod is how often a scale set is checked on GitHub while nothing indicates a change, give or take a tenth, so
	// that sets created together are not checked together. 200 sets make less than one request a second.
	checkPeriod = 5 * time.Minute
	// retryBaseDelay and retryMaxDelay are the shortest and the longest pause after a failed call. Each further failure
	// doubles the pause.
	retryBaseDelay = 5 * time.Second
	retryMaxDelay  = time.Minute
	// recheckAfter is the pause between checks while the listener keeps reporting that the scale set is gone.
	recheckAfter = 5 * time.Second
)

// syncResult is the result of a scaleSetSync.
type syncResult struct {
	// requestHash identifies what was asked for; see requestHashOf.
	requestHash string
	// desiredHash is a hash of desired alone.
	desiredHash string
	desired     desiredScaleSet
	// posted is set when this or an earlier call may have created a scale set, even if no answer arrived.
	posted bool
	// set is GitHub's answer, nil where the call failed.
	set *actions.RunnerScaleSet
}

// registration returns where the call found or created the scale set. There must be an answer. One that doesn't name the group
// means the desired one, in which the call has left the scale set.
func (r syncResult) registration() *v1alpha1.ScaleSetRegistration {
	group := cmp.Or(r.set.RunnerGroupName, r.desired.Group)
	return &v1alpha1.ScaleSetRegistration{URL: r.desired.URL, Group: group, Name: r.set.Name, ID: r.set.ID}
}

// resolve determines what GitHub is to be asked for and with which credentials, or the obstacle to asking.
func (c *Controller) resolve(ctx context.Context, p *pass) error {
	p.desired, p.obstacle = desiredOf(p.set)
	if p.obstacle != nil {
		return nil
	}
	resolved, err := c.options.Connections.Resolve(ctx, credentials.ForAutoscalingRunnerSet(p.set))
	p.requeue.After(credentials.RereadAfter)
	switch {
	case err == nil:
		p.requestHash = requestHashOf(p.desired, resolved)
	case credentials.IsVerdict(err):
		p.obstacle = err
	default:
		return fmt.Errorf("read the credentials: %w", err)
	}
	return nil
}

// requestHashOf returns a hash of the desired scale set and of the credentials that it is asked for with. It is kept in memory
// only.
func requestHashOf(desired desiredScaleSet, resolved *credentials.Resolved) string {
	return kube.Hash(struct {
		Desired  desiredScaleSet
		Resolved *credentials.Resolved
	}{desired, resolved})
}

// syncWhenDue starts a call to GitHub when one is due.
func (c *Controller) syncWhenDue(ctx context.Context, p *pass) error {
	if p.obstacle != nil {
		return nil
	}
	last, known := c.syncs.Last(p.key)
	if wait := due(p, last, known); wait > 0 {
		p.requeue.After(wait)
		return nil
	}
	return c.startSync(ctx, p, last)
}

// readSync reads the state of the last call: its result, or that it is still running.
func (c *Controller) readSync(_ context.Context, p *pass) error {
	if p.obstacle != nil {
		return nil
	}
	p.lastSync, p.asked = c.syncs.Last(p.key)
	p.asked = p.asked && (p.lastSync.Running() || p.lastSync.Result.requestHash == p.requestHash)
	if p.asked && p.lastSync.Running() && p.registration == nil {
		p.requeue.After(max(silentAfter-p.now.Sub(p.lastSync.Started), statusPeriod))
	}
	return nil
}

// due returns how long it is until GitHub is to be asked, zero or less when it is time to.
func due(p *pass, last pool.Call[syncResult], known bool) time.Duration {
	switch {
	case !known:
		return 0
	case last.Running():
		return checkPeriod // its end brings a pass
	case last.Result.requestHash != p.requestHash:
		return 0
	case last.Err != nil:
		return retryAt(last).Sub(p.now)
	case p.lostSince(last.Started):
		return last.Finished.Add(recheckAfter).Sub(p.now)
	}
	return last.Finished.Add(jitteredCheckPeriod(p)).Sub(p.now)
}

// retryAt returns when a failed call may be repeated: after a pause, and not before the time that GitHub has asked for.
func retryAt[T any](last pool.Call[T]) time.Time {
	return actions.RetryAt(last.Err, last.Finished.Add(retryAfter(last.Failures)))
}

// retryAfter returns the pause after that many failures in a row, which is at least one.
func retryAfter(failures int) time.Duration {
	return kube.ExponentialBackoff(retryBaseDelay, retryMaxDelay, failures)
}

// lostSince reports whether the listener has reported the scale set gone since it was last checked. The listener's time has
// whole seconds, so it is rounded up.
func (p *pass) lostSince(looked time.Time) bool {
	runnerSet := p.runnerSet()
	if runnerSet == nil || runnerSet.Status.Listener == nil || runnerSet.Status.Listener.Since == nil {
		return false
	}
	listener := runnerSet.Status.Listener
	return listener.Reason == v1alpha1.ReasonScaleSetNotFound && listener.Since.Add(time.Second).After(looked)
}

// jitteredCheckPeriod returns checkPeriod plus or minus up to a tenth: always the same for one set, different between sets.
func jitteredCheckPeriod(p *pass) time.Duration {
	hash := fnv.New32a()
	hash.Write([]byte(p.set.UID))
	fraction := float64(hash.Sum32()) / float64(1<<32)
	return time.Duration(float64(checkPeriod) * (0.9 + 0.2*fraction))
}

// startSync starts the call that finds or creates the scale set, and updates it.
func (c *Controller) startSync(ctx context.Context, p *pass, last pool.Call[syncResult]) error {
	owners, err := c.owners(ctx, p)
	if err != nil {
		return err
	}
	reference := credentials.ForAutoscalingRunnerSet(p.set)
	result := syncResult{requestHash: p.requestHash, desiredHash: kube.Hash(p.desired), desired: p.desired, posted: last.Result.posted}
	work := scaleSetSync{desired: p.desired, owners: owners}
	work.identify(p, last.Result)
	if last.Result.desiredHash == result.desiredHash {
		work.lastAnswer = last.Result.set
	}
	c.syncs.Go(p.group(), p.key, func(ctx context.Context) (syncResult, error) {
		ctx = kube.WithScaleSetLogger(ctx, p.key)
		github, err := c.options.Connections.GitHub(ctx, reference)
		if err != nil {
			return result, err
		}
		work.github = github
		result.set, err = work.run(ctx)
		result.posted = result.posted || work.posted
		return result, err
	})
	return nil
}

// identify sets what is known of the scale set before GitHub is asked, from the registration and from the last call.
func (s *scaleSetSync) identify(p *pass, last syncResult) {
	registered := p.registration != nil && sameURL(p.registration.URL, s.desired.URL)
	asked := sameURL(last.desired.URL, s.desired.URL)
	switch {
	case registered && !p.unconfirmed:
		s.id = p.registration.ID
	case asked && last.set != nil:
		s.id = last.set.ID // of a spec that changed before the answer could be recorded
	case registered && s.owners[p.registration.ID] == "": // otherwise the annotations were copied, name and all
		s.id, s.named = p.registration.ID, &p.registration.Name
	}
	if registered && p.registration.Name != "" {
		s.knownAs = append(s.knownAs, scaleSetName{p.registration.Group, p.registration.Name})
	}
	if asked { // even without an answer, since the request may have been carried out
		s.knownAs = append(s.knownAs, scaleSetName{last.desired.Group, last.desired.Name})
	}
}

// owners returns the other AutoscalingRunnerSets that hold scale sets at the desired address, by the scale set's id. Of two
// that hold the same scale set the older one is its owner, so that exactly one of them gives it up.
func (c *Controller) owners(ctx context.Context, p *pass) (map[int]string, error) {
	var sets v1alpha1.AutoscalingRunnerSetList
	if err := c.options.Client.List(ctx, &sets); err != nil {
		return nil, fmt.Errorf("list AutoscalingRunnerSets: %w", err)
	}
	owners := map[int]string{}
	for i := range sets.Items {
		other := &sets.Items[i]
		if held := registrationOf(other); other.UID != p.set.UID && held != nil && sameURL(held.URL, p.desired.URL) {
			if p.registration == nil || p.registration.ID != held.ID || older(other, p.set) {
				owners[held.ID] = client.ObjectKeyFromObject(other).String()
			}
		}
	}
	return owners, nil
}

// older reports whether a was created before b.
func older(a, b *v1alpha1.AutoscalingRunnerSet) bool { return newestFirst(b, a) < 0 }

// sameURL reports whether GitHub takes the addresses for the same: it ignores case and slashes at the end.
func sameURL(a, b string) bool {
	left, leftErr := actions.ParseConfigURL(a)
	right, rightErr := actions.ParseConfigURL(b)
	if leftErr != nil || rightErr != nil {
		return a == b
	}
	return strings.EqualFold(left.String(), right.String())
}

// recordRegistration writes where the scale set is, according to GitHub's answer, to the annotations that ARC knows, and to
// the pass for status.registration. A registration at another address than the new one becomes a former one, which stays
// until its runners have finished.
func (c *Controller) recordRegistration(ctx context.Context, p *pass) error {
	if !p.answered() || p.lastSync.Err != nil {
		return nil
	}
	now := *p.lastSync.Result.registration()
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
		previous = nil // the scale set that the annotation names is not ours, or gone
	}
	p.registration, p.unconfirmed = &now, false
	if event, news := registrationNews(previous, now); news && wrote {
		kube.RecordEvent(ctx, c.options.Recorder, p.set, nil, event)
	}
	return nil
}

// registrationNews returns the Event for the change from before to now, and false where there is nothing to say.
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
