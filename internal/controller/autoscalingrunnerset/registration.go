package autoscalingrunnerset

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/conditions"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/holders"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/journal"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/scaleset"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/pool"
)

const (
	// A scale set is checked on GitHub every checkInterval while nothing indicates a change, plus or minus a tenth, so
	// that sets created together are not checked together. 200 sets make less than one request a second.
	checkInterval = 5 * time.Minute
	// recheckInterval is the pause between checks while the listener keeps reporting that the scale set is gone.
	recheckInterval = 5 * time.Second
	// While GitHub refuses them, credentials are read every refusedRereadInterval, because somebody may be about to
	// replace them. The listener's controller has the same interval, and they share the read.
	refusedRereadInterval = 15 * time.Second
)

// resolve determines what to request from GitHub and with which credentials, or the cause that prevents it.
func (c *Controller) resolve(ctx context.Context, w *world) error {
	w.Desired, w.Cause = scaleset.DesiredOf(w.Set)
	if w.Cause != nil {
		return nil
	}
	resolved, err := c.options.Connections.Resolve(ctx, credentials.ForAutoscalingRunnerSet(w.Set), w.mustReread())
	w.Requeue.After(credentials.RereadInterval)
	if w.CredentialsRefused() {
		w.Requeue.After(refusedRereadInterval)
	}
	switch {
	case err == nil: // hashes of secrets are kept only in memory
		w.RequestHash = kube.Hash(struct {
			Desired  scaleset.Desired
			Resolved *credentials.Resolved
		}{w.Desired, resolved})
		w.credentialsHash = kube.Hash(struct {
			URL      string
			Resolved *credentials.Resolved
		}{w.Desired.URL, resolved})
	case credentials.IsUserError(err):
		w.Cause = err
	default:
		return fmt.Errorf("read the credentials: %w", err)
	}
	w.Memory.revision = new(w.Set.Spec.GitHubConfigSecretRevision)
	return nil
}

// mustReread reports whether the credentials are read whatever is remembered of them: the spec says that they have
// changed, or the set is new, and the Secret may have the name of one that was deleted with another set.
func (w *world) mustReread() bool {
	if w.Memory.revision == nil {
		return w.Now.Sub(w.Set.CreationTimestamp.Time) < credentials.RereadInterval
	}
	return *w.Memory.revision != w.Set.Spec.GitHubConfigSecretRevision
}

// syncWhenDue starts a call to GitHub if one is due.
func (c *Controller) syncWhenDue(ctx context.Context, w *world) error {
	if w.HasValidURL() {
		if err := c.leaveAsked(ctx, w, w.Desired.URL); err != nil {
			return err
		}
	}
	if w.Cause != nil {
		return nil
	}
	if deletion, _ := c.deletions.Last(w.Key); deletion.Running() && w.hasReturned() {
		return nil // what is found there may be gone a moment later; the end of that call brings the next pass
	}
	last, known := c.syncs.Last(w.Key)
	if wait := untilDue(w, last, known); wait > 0 {
		w.Requeue.After(wait)
		return nil
	}
	request := scaleset.Request{
		Desired: w.Desired, Reference: credentials.ForAutoscalingRunnerSet(w.Set), Hash: w.RequestHash,
		Registered: w.Registration.DeepCopy(), Unconfirmed: w.Unconfirmed,
		Holders: c.holders, Set: holders.SetOf(w.Set), Waits: w.waits(),
		MayBeNamed: namesOf(w.Records.AskedAt(w.Desired.URL)),
	}
	wanted := w.Desired.Registration()
	state := w.Records.StateOf(wanted)
	request.MayExist = state == v1alpha1.RegistrationAsked
	isNew := state == "" && !w.RegisteredHere()
	request.MayCreate = request.MayExist || isNew || errors.Is(last.Err, scaleset.ErrAbsent)
	if request.MayCreate && !request.MayExist {
		if err := c.recordAsked(ctx, w, wanted); err != nil {
			return err
		}
	}
	c.syncs.Go(w.group(), w.Key, func(ctx context.Context) (scaleset.Result, error) {
		return scaleset.Ensure(kube.WithScaleSetLogger(ctx, w.Key), c.options.Connections, request, last.Result)
	})
	return nil
}

// recordAsked writes to the journal that GitHub may be asked to create a scale set, before it is asked: a manager that
// is killed meanwhile has to find it, or say that it may be left. At an address that the set is new to, GitHub is asked
// in one go whether it has the scale set and, if not, to create it; otherwise that it isn't there is found out first,
// so that no check writes anything.
func (c *Controller) recordAsked(ctx context.Context, w *world, wanted v1alpha1.ScaleSetRegistration) error {
	before := w.Set.DeepCopy()
	w.Records = w.Records.Ask(w.Set, wanted, w.Now)
	w.Set.Status.Registrations = w.Journal()
	if _, err := kube.PatchStatus(ctx, c.options.Client, w.Set, before); err != nil {
		return fmt.Errorf("record which scale set GitHub is asked for: %w", err)
	}
	w.rememberJournal(w.Set)
	return nil
}

// namesOf returns the names of scale sets.
func namesOf(registrations []v1alpha1.ScaleSetRegistration) (names []scaleset.Name) {
	for _, r := range registrations {
		names = append(names, scaleset.Name{Group: r.Group, Name: r.Name})
	}
	return names
}

// hasReturned reports whether the set is back at an address that it had left, and where its former scale set has not
// been deleted.
func (w *world) hasReturned() bool {
	return slices.ContainsFunc(w.Records.Leaving(),
		func(r v1alpha1.ScaleSetRegistration) bool { return journal.MayBeOneAddress(r.URL, w.Desired.URL) })
}

// untilDue returns the wait until GitHub is asked again, zero or less if it is time.
func untilDue(w *world, last pool.Call[scaleset.Result], known bool) time.Duration {
	answer := last.Result.Set
	switch {
	case !known:
		return 0
	case last.Running():
		return checkInterval // its end brings a pass
	case last.Result.RequestHash != w.RequestHash:
		return 0
	case errors.Is(last.Err, scaleset.ErrAbsent):
		return 0 // which is now to be created
	case last.Err != nil:
		if _, held := errors.AsType[*holders.HeldError](last.Err); held && !w.taken && !w.waits() {
			return 0 // nobody holds it any longer
		}
		return scaleset.RetryAt(last).Sub(w.Now)
	case answer != nil && w.taken:
		return 0 // another set holds it by now
	case w.lostSince(last.Started):
		return last.Finished.Add(recheckInterval).Sub(w.Now)
	}
	// Up to a tenth more or less: always the same for one set, different between sets.
	hash := fnv.New32a()
	hash.Write([]byte(w.Set.UID))
	fraction := float64(hash.Sum32()) / float64(1<<32)
	return last.Finished.Add(time.Duration(float64(checkInterval) * (0.9 + 0.2*fraction))).Sub(w.Now)
}

// lostSince reports whether the listener has reported the scale set as gone since it was last checked. The listener's
// time has whole seconds, so it is rounded up.
func (w *world) lostSince(looked time.Time) bool {
	runnerSet := w.RunnerSet()
	if runnerSet == nil || runnerSet.Status.Listener == nil || runnerSet.Status.Listener.Since == nil {
		return false
	}
	listener := runnerSet.Status.Listener
	return listener.Reason == v1alpha1.ReasonScaleSetNotFound && listener.Since.Add(time.Second).After(looked)
}

// readSync reads the state of the last call: its result, or that it is still running. What GitHub has accepted is
// remembered, so that a change of something else doesn't put it in question.
func (c *Controller) readSync(_ context.Context, w *world) error {
	c.rememberWaiting(w)
	if w.Cause != nil {
		return nil
	}
	w.LastSync, w.Asked = c.syncs.Last(w.Key)
	w.Asked = w.Asked && (w.LastSync.Running() ||
		(w.LastSync.Result.RequestHash == w.RequestHash && !errors.Is(w.LastSync.Err, scaleset.ErrAbsent)))
	if w.Asked && w.LastSync.Running() && w.Registration == nil {
		w.Requeue.After(max(conditions.SilentTimeout-w.Now.Sub(w.LastSync.Started), statusInterval))
	}
	m, err := w.Memory, w.LastSync.Err
	switch {
	case !w.Answered():
	case err == nil:
		m.accepted, m.confirmed = w.credentialsHash, w.LastSync.Result.DesiredHash
	case scaleset.RejectsDesired(err):
		m.accepted, m.confirmed = w.credentialsHash, ""
	case errors.Is(err, actions.ErrUnauthorized) || scaleset.RefusedByUs(err) != "":
		m.accepted = ""
	}
	w.CredentialsKnown, w.ScaleSetKnown = m.accepted == w.credentialsHash, m.confirmed == kube.Hash(w.Desired)
	return nil
}

// recordRegistration writes where the scale set is, according to GitHub's answer, to the annotations that ARC knows,
// and to the pass for status.registration. A registration at another address becomes a former one, which stays until
// its runners have finished.
func (c *Controller) recordRegistration(ctx context.Context, w *world) error {
	if (!w.Answered() && !w.Deleting()) || w.LastSync.Err != nil {
		return nil
	}
	now := *w.LastSync.Result.Registration()
	before := w.Set.DeepCopy()
	previous := w.Registration
	moved := previous != nil && !journal.SameURL(previous.URL, now.URL)
	renamed := moved && w.isKnownAs(*previous, now)
	after := w.Records
	if moved && !renamed {
		if reference, proven := journal.ReferenceAt(c.knownReferences(w), previous.URL); proven {
			after = after.Leave(w.Set, *previous, reference, w.Now)
		} else {
			c.recordUnproven(ctx, w, *previous)
		}
	}
	after = c.answered(ctx, w, after, now.URL, w.LastSync.Result.Unsought).Without(func(r journal.Record) bool {
		return r.State == v1alpha1.RegistrationLeaving && w.isPresent(r.ScaleSetRegistration, now)
	})
	after.Vouch(w.Set)
	journal.Register(w.Set, now)
	wrote, err := kube.Patch(ctx, c.options.Client, w.Set, before)
	if err != nil {
		return fmt.Errorf("record the registration: %w", err)
	}
	if w.Unconfirmed && previous.ID != now.ID {
		previous = nil // the scale set that the annotation names is not ours, or is gone
	}
	w.Registration, w.Unconfirmed, w.Records = &now, false, after
	if event := registrationEvent(previous, now, wrote, renamed); event != nil {
		report.RecordEvent(ctx, c.options.Recorder, w.Set, nil, *event)
	}
	return nil
}

// isKnownAs reports whether the last call found, under another address, the scale set that was registered before. The
// same id, and that nothing was created, is the best proof there is. If it were treated as a second scale set, the
// deletion of the first would delete the one in use. If either is a former registration, there are two.
func (w *world) isKnownAs(before, now v1alpha1.ScaleSetRegistration) bool {
	return !w.LastSync.Result.Posted && now.ID == before.ID && journal.MayLeadToOnePlace(before.URL, now.URL) &&
		!w.Records.MayBeLeaving(before) && !w.Records.MayBeLeaving(now)
}

// registrationEvent returns the Event for the change from before to now, nil if nothing changed or it was not this pass
// that wrote it. renamed says that only the address is another.
func registrationEvent(
	before *v1alpha1.ScaleSetRegistration, now v1alpha1.ScaleSetRegistration, wrote, renamed bool,
) *report.Event {
	switch {
	case renamed: // a warning, because by chance there may be two with the same name and id
		return new(report.Warning("ScaleSetAddressChanged", "Register",
			fmt.Sprintf("Scale set %q with id %d was found at %s: it is treated as the one at %s under a new "+
				"address, and nothing is deleted. If these are two places, delete the scale set at the former "+
				"address on GitHub",
				now.Name, now.ID, now.URL, before.URL)))
	case !wrote:
		return nil
	case before == nil || !journal.SameURL(before.URL, now.URL): // created or found
		return new(report.Normal("ScaleSetRegistered", "Register",
			fmt.Sprintf("Scale set %q has id %d in runner group %q of %s", now.Name, now.ID, now.Group, now.URL)))
	case before.ID != now.ID:
		// a warning, because the jobs that were queued for the old one on GitHub were deleted with it
		return new(report.Warning("ScaleSetRecreated", "Register",
			fmt.Sprintf("Scale set %d no longer exists at %s; scale set %d replaces it", before.ID, before.URL,
				now.ID)))
	case before.Name != now.Name || before.Group != now.Group: // whoever changed them
		return new(report.Normal("ScaleSetUpdated", "Register",
			fmt.Sprintf("Scale set %d is now called %q in runner group %q", now.ID, now.Name, now.Group)))
	}
	return nil
}
