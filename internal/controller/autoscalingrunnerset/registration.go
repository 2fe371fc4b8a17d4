package autoscalingrunnerset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/kube/requeue"
	"github.com/harrier-ci/harrier/internal/pool"
)

const (
	// checkPeriod is how often a scale set is checked on GitHub while nothing indicates a change, plus or minus a tenth, so that
	// sets created together are not checked together. 200 sets make less than one request a second.
	checkPeriod = 5 * time.Minute
	// retryBaseDelay and retryMaxDelay are the shortest and the longest pause after a failed call. Each further failure
	// doubles the pause.
	retryBaseDelay = 5 * time.Second
	retryMaxDelay  = time.Minute
	// recheckAfter is the pause between checks while the listener keeps reporting that the scale set is gone.
	recheckAfter = 5 * time.Second
	// contestedAfter is the pause between checks while another set has recorded the id under another name: one of the two scale
	// sets is gone from GitHub, and its listener may be taking the other's jobs.
	contestedAfter = 30 * time.Second
)

// syncResult is the result of a scaleSetSync.
type syncResult struct {
	// requestHash identifies the request; see requestHashOf.
	requestHash string
	// desiredHash is a hash of desired alone.
	desiredHash string
	desired     desiredScaleSet
	// reference says how GitHub was reached.
	reference credentials.Reference
	// posted is set if this or an earlier call may have created a scale set at the same address, even if no answer arrived.
	posted bool
	// unanswered are the scale sets that calls without an answer may have created there.
	unanswered []scaleSetName
	// set is GitHub's answer, nil if the call failed.
	set *actions.RunnerScaleSet
}

// registration returns where the call found or created the scale set. There must be an answer. If the answer doesn't name the group,
// it is the desired one, in which the call has left the scale set.
func (r syncResult) registration() *v1alpha1.ScaleSetRegistration {
	group := cmp.Or(r.set.RunnerGroupName, r.desired.Group)
	return &v1alpha1.ScaleSetRegistration{URL: r.desired.URL, Group: group, Name: r.set.Name, ID: r.set.ID}
}

// replaces reports whether the answer names another scale set at the registration's address, which is to replace the registered one.
func (r syncResult) replaces(registered v1alpha1.ScaleSetRegistration) bool {
	return r.set != nil && r.set.ID != registered.ID && sameURL(r.desired.URL, registered.URL)
}

// resolve determines what to request from GitHub and with which credentials, or the obstacle to that.
func (c *Controller) resolve(ctx context.Context, p *pass) error {
	p.desired, p.obstacle = desiredOf(p.set)
	if p.obstacle != nil {
		return nil
	}
	read := c.options.Connections.Resolve
	if p.mustReread() {
		read = c.options.Connections.Reread
	}
	resolved, err := read(ctx, credentials.ForAutoscalingRunnerSet(p.set))
	p.requeue.After(credentials.RereadAfter)
	if p.isRefused() {
		p.requeue.After(refusedRereadPeriod)
	}
	switch {
	case err == nil:
		p.requestHash, p.credentialsHash = requestHashOf(p.desired, resolved), credentialsHashOf(p.desired, resolved)
	case credentials.IsUserError(err):
		p.obstacle = err
	default:
		return fmt.Errorf("read the credentials: %w", err)
	}
	revision := p.set.Spec.GitHubConfigSecretRevision
	p.memory.revision = &revision
	return nil
}

// requestHashOf returns a hash of the desired scale set and of the credentials for the request. It is kept only in memory.
func requestHashOf(desired desiredScaleSet, resolved *credentials.Resolved) string {
	return kube.Hash(struct {
		Desired  desiredScaleSet
		Resolved *credentials.Resolved
	}{desired, resolved})
}

// syncWhenDue starts a call to GitHub if one is due.
func (c *Controller) syncWhenDue(ctx context.Context, p *pass) error {
	if p.hasValidURL() {
		if err := c.leaveUnrecorded(ctx, p, p.desired.URL); err != nil {
			return err
		}
	}
	if p.obstacle != nil {
		return nil
	}
	if c.isDeletingHere(p) {
		return nil // the end of that call brings the next pass
	}
	last, known := c.syncs.Last(p.key)
	if wait := due(p, last, known); wait > 0 {
		p.requeue.After(wait)
		return nil
	}
	return c.startSync(ctx, p, last)
}

// isDeletingHere reports whether GitHub is being asked to delete what the set had at the desired address, to which it has returned:
// a scale set that is found there may be gone a moment later.
func (c *Controller) isDeletingHere(p *pass) bool {
	last, _ := c.deregistrations.Last(p.key)
	return last.Running() && slices.ContainsFunc(formerOf(p.set), func(f formerRegistration) bool { return mayBeOneAddress(f.URL, p.desired.URL) })
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
	p.noteAnswer()
	return nil
}

// due returns how long to wait until GitHub is asked again, zero or less if it is time.
func due(p *pass, last pool.Call[syncResult], known bool) time.Duration {
	switch {
	case !known:
		return 0
	case last.Running():
		return checkPeriod // its end brings a pass
	case last.Result.requestHash != p.requestHash:
		return 0
	case p.isGivenUp(last.Err):
		return 0
	case last.Err != nil:
		return retryAt(last).Sub(p.now)
	case last.Result.set != nil && p.owners.hold(last.Result.set.ID, last.Result.set.Name):
		return 0 // another set has recorded it in the meantime
	case p.lostSince(last.Started):
		return last.Finished.Add(recheckAfter).Sub(p.now)
	case last.Result.set != nil && p.owners.contest(last.Result.set.ID, last.Result.set.Name):
		return last.Finished.Add(contestedAfter).Sub(p.now)
	}
	return last.Finished.Add(jitteredCheckPeriod(p)).Sub(p.now)
}

// isGivenUp reports whether the last call was refused because another set held the scale set, and that set no longer holds it.
func (p *pass) isGivenUp(err error) bool {
	inUse, refused := errors.AsType[*inUseError](err)
	return refused && !p.owners.hold(inUse.ID, inUse.Name)
}

// retryAt returns when a failed call may be repeated: after a pause, and not before the time that GitHub has asked for.
func retryAt[T any](last pool.Call[T]) time.Time {
	return actions.RetryAt(last.Err, last.Finished.Add(retryAfter(last.Failures)))
}

// retryAfter returns the pause after that many failures in a row, at least one.
func retryAfter(failures int) time.Duration {
	return requeue.Backoff(retryBaseDelay, retryMaxDelay, failures)
}

// lostSince reports whether the listener has reported the scale set as gone since it was last checked. The listener's time has whole
// seconds, so it is rounded up.
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
	result := syncResult{
		requestHash: p.requestHash, desiredHash: kube.Hash(p.desired), desired: p.desired, reference: reference,
	}
	result.inherit(last.Result, p.registration == nil)
	work := scaleSetSync{desired: p.desired, owners: owners, unanswered: result.unanswered}
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
		result.note(work, err)
		return result, err
	})
	return nil
}

// inherit keeps what earlier calls may have created at the same address, or, before the first registration, at another spelling of it.
func (r *syncResult) inherit(last syncResult, unregistered bool) {
	switch {
	case sameURL(last.desired.URL, r.desired.URL):
		r.posted, r.unanswered = last.posted, last.unanswered
	case unregistered && mayBeOneAddress(last.desired.URL, r.desired.URL):
		r.posted, r.unanswered = last.posted, last.unanswered
		if last.set != nil {
			r.unanswered = append(slices.Clone(r.unanswered), scaleSetName{last.set.RunnerGroupName, last.set.Name})
		}
	}
}

// note records what the call may have created.
func (r *syncResult) note(work scaleSetSync, err error) {
	_, inUse := errors.AsType[*inUseError](err)
	r.posted = (r.posted || work.posted) && !inUse // what has the name is another set's
	asked := scaleSetName{work.desired.Group, work.desired.Name}
	switch {
	case err == nil:
		r.unanswered = nil
	case (work.created || work.uncertain) && !slices.Contains(r.unanswered, asked):
		r.unanswered = append(slices.Clone(r.unanswered), asked)
	}
}

// mayBeCarriedOut reports whether GitHub may have done what a failed call asked for: it gave no answer, or failed at it. A call that
// GitHub has limited may have been sent before, with another outcome.
func mayBeCarriedOut(err error) bool {
	_, unreached := errors.AsType[*actions.NetworkError](err)
	_, limited := errors.AsType[*actions.RateLimitedError](err)
	answer, answered := errors.AsType[*actions.Error](err)
	return unreached || limited || !answered || answer.StatusCode >= http.StatusInternalServerError
}

// identify sets what is known about the scale set before GitHub is asked, from the last call and from the registration. It leaves out
// a scale set that belongs to another set, because after a change of the name this set would rename it.
func (s *scaleSetSync) identify(p *pass, last syncResult) {
	registered := p.registration != nil && mayBeOneAddress(p.registration.URL, s.desired.URL) && !s.owners.hold(p.registration.ID, p.registration.Name)
	asked := sameURL(last.desired.URL, s.desired.URL)
	switch {
	case asked && last.set != nil && !s.owners.hold(last.set.ID, last.set.Name):
		s.id = last.set.ID // may not be recorded yet, if the spec changed before that
	case registered:
		s.id = p.registration.ID
		// The annotations may have been copied, including the name, and another spelling may lead to another server.
		if p.unconfirmed || !sameURL(p.registration.URL, s.desired.URL) {
			s.named = &p.registration.Name
		}
	}
	if registered && p.registration.Name != "" {
		s.knownAs = append(s.knownAs, scaleSetName{p.registration.Group, p.registration.Name})
	}
	if asked { // even without an answer, because the request may have been carried out
		s.knownAs = append(s.knownAs, scaleSetName{last.desired.Group, last.desired.Name})
	}
}

// recordRegistration writes where the scale set is, according to GitHub's answer, to the annotations that ARC knows, and to the pass
// for status.registration. A registration at another address becomes a former one, which stays until its runners have finished.
func (c *Controller) recordRegistration(ctx context.Context, p *pass) error {
	if !p.answered() || p.lastSync.Err != nil {
		return nil
	}
	now := *p.lastSync.Result.registration()
	before := p.set.DeepCopy()
	previous := p.registration
	moved := previous != nil && !sameURL(previous.URL, now.URL)
	renamed := moved && p.isKnownAs(*previous, now)
	if moved && !renamed {
		c.leave(ctx, p, *previous)
	}
	p.dropFormer(now)
	annotate(p.set, now)
	wrote, err := kube.Patch(ctx, c.options.Client, p.set, before)
	if err != nil {
		return fmt.Errorf("record the registration: %w", err)
	}
	if p.unconfirmed && previous.ID != now.ID {
		previous = nil // the scale set that the annotation names is not ours, or is gone
	}
	p.registration, p.unconfirmed = &now, false
	if wrote {
		p.requeue.After(ownersSeenAfter)
	}
	if renamed {
		report.RecordEvent(ctx, c.options.Recorder, p.set, nil, addressChanged(*previous, now))
	} else if event, news := registrationNews(previous, now); news && wrote {
		report.RecordEvent(ctx, c.options.Recorder, p.set, nil, event)
	}
	return nil
}

// annotate writes the registration to the annotations that ARC knows.
func annotate(set *v1alpha1.AutoscalingRunnerSet, now v1alpha1.ScaleSetRegistration) {
	kube.SetAnnotation(set, v1alpha1.AnnotationRunnerScaleSetID, strconv.Itoa(now.ID))
	kube.SetAnnotation(set, v1alpha1.AnnotationRunnerGroupName, now.Group)
	kube.SetAnnotation(set, v1alpha1.AnnotationRunnerScaleSetName, now.Name)
	set.Labels = kube.Labels(nil, withoutScope(set.Labels), kube.ScopeLabels(now.URL))
}

// registrationNews returns the Event for the change from before to now, and false if nothing changed.
func registrationNews(before *v1alpha1.ScaleSetRegistration, now v1alpha1.ScaleSetRegistration) (report.Event, bool) {
	switch {
	case before == nil || !sameURL(before.URL, now.URL):
		return registered(now), true
	case before.ID != now.ID:
		return reregistered(*before, now), true
	case before.Name != now.Name || before.Group != now.Group:
		return updated(now), true
	}
	return report.Event{}, false
}
