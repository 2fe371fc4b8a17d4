package scaleset

import (
	"cmp"
	"context"
	"errors"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/holders"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/journal"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
)

// Request has the scale set that there is to be, and what is known of it before GitHub is asked.
type Request struct {
	Desired Desired
	// Reference says how GitHub is reached.
	Reference credentials.Reference
	// Hash identifies the request with its credentials. The result has it, too.
	Hash string
	// Registered is the recorded scale set, nil if there is none. Unconfirmed is set while only ARC's annotation names
	// it.
	Registered  *v1alpha1.ScaleSetRegistration
	Unconfirmed bool
	// MayCreate is set if the set's journal says that GitHub may be asked to create the scale set, and MayExist if an
	// earlier call may have done so. MayBeNamed are other names under which earlier calls may have created one.
	MayCreate, MayExist bool
	MayBeNamed          []Name
	// Holders has who holds which scale set, and Set who asks. Waits is set if the set does not take what nobody is
	// recorded to hold: who held it before there were records is to be asked first.
	Holders *holders.Store
	Set     holders.Set
	Waits   bool
}

// Result is the result of Ensure.
type Result struct {
	// RequestHash identifies the request; see Request.Hash.
	RequestHash string
	// DesiredHash is a hash of Desired alone.
	DesiredHash string
	Desired     Desired
	// Reference says how GitHub was reached, and Way by which way, empty if it wasn't.
	Reference credentials.Reference
	Way       credentials.Way
	// Posted is set if this or an earlier call of this process may have created a scale set at the same address, even
	// if no answer arrived.
	Posted bool
	// MayExist is set if the call failed and GitHub may have the scale set all the same.
	MayExist bool
	// Held is the id that it was recorded last that the set holds, 0 if that wasn't. The call may have failed after that.
	Held int
	// Set is GitHub's answer, nil if the call failed. Unsought are names of Request.MayBeNamed that it says nothing
	// about.
	Set      *actions.RunnerScaleSet
	Unsought []Name
}

// Ensure finds or creates the scale set, and updates it. last is the result of the call before, zero if there was none.
// It fails with actions.ErrRunnerGroupNotFound, *holders.HeldError, *holders.RecordError, ErrAbsent, or an error of the
// methods of Connections and GitHub; the result then says what may have been created.
func Ensure(ctx context.Context, connections Connections, request Request, last Result) (Result, error) {
	result := Result{
		RequestHash: request.Hash, DesiredHash: kube.Hash(request.Desired), Desired: request.Desired,
		Reference: request.Reference,
		MayExist:  request.MayExist,
	}
	result.Posted = last.Posted && (journal.SameURL(last.Desired.URL, request.Desired.URL) ||
		(request.Registered == nil && journal.MayBeOneAddress(last.Desired.URL, request.Desired.URL)))
	work := sync{
		desired:    request.Desired,
		holders:    request.Holders,
		set:        request.Set,
		waits:      request.Waits,
		mayCreate:  request.MayCreate,
		mayBeNamed: request.MayBeNamed,
	}
	if last.DesiredHash == result.DesiredHash {
		work.lastAnswer = last.Set
	}
	github, err := connections.GitHub(ctx, request.Reference)
	if err != nil {
		return result, err
	}
	work.github, result.Way = github, github.Way()
	if err := work.identify(ctx, request.Registered, request.Unconfirmed, last); err != nil {
		return result, err
	}
	result.Set, err = work.run(ctx)
	result.Unsought, result.Held = work.unsought, work.held
	_, inUse := errors.AsType[*holders.HeldError](err) // what has the name is another set's
	result.Posted = (result.Posted || work.posted) && !inUse
	result.MayExist = err != nil && !inUse && (result.MayExist || work.created || work.uncertain)
	return result, err
}

// Registration names the place where the call found or created the scale set. There must be an answer. If the answer
// doesn't name the group, it is the desired one, in which the call has left the scale set.
func (r Result) Registration() *v1alpha1.ScaleSetRegistration {
	group := cmp.Or(r.Set.RunnerGroupName, r.Desired.Group)
	return &v1alpha1.ScaleSetRegistration{URL: r.Desired.URL, Group: group, Name: r.Set.Name, ID: r.Set.ID}
}

// Replaces reports whether the answer names another scale set at the registration's address, which is to replace the
// registered one.
func (r Result) Replaces(registered v1alpha1.ScaleSetRegistration) bool {
	return r.Set != nil && r.Set.ID != registered.ID && journal.SameURL(r.Desired.URL, registered.URL)
}

// identify sets what is known about the scale set before GitHub is asked, from the last call and from the registration.
// It leaves out a scale set that belongs to another set, because after a change of the name this set would rename it.
func (s *sync) identify(
	ctx context.Context, recorded *v1alpha1.ScaleSetRegistration, unconfirmed bool, last Result,
) error {
	registered := recorded != nil && journal.MayBeOneAddress(recorded.URL, s.desired.URL)
	if registered {
		taken, err := s.isAnothers(ctx, recorded.ID, recorded.Name)
		if err != nil {
			return err
		}
		registered = !taken
	}
	asked := journal.SameURL(last.Desired.URL, s.desired.URL)
	answered := asked && last.Set != nil
	if answered {
		taken, err := s.isAnothers(ctx, last.Set.ID, last.Set.Name)
		if err != nil {
			return err
		}
		answered = !taken
	}
	switch {
	case answered:
		s.id = last.Set.ID // may not be recorded yet, if the spec changed before that
	case registered:
		s.id = recorded.ID
		// The annotations may have been copied, including the name, and another spelling may lead to another server.
		if unconfirmed || !journal.SameURL(recorded.URL, s.desired.URL) {
			s.named = &recorded.Name
		}
	}
	if registered && recorded.Name != "" {
		s.knownAs = append(s.knownAs, Name{recorded.Group, recorded.Name})
	}
	if asked { // even without an answer, because the request may have been carried out
		s.knownAs = append(s.knownAs, Name{last.Desired.Group, last.Desired.Name})
	}
	return nil
}

// Unrecorded describes a scale set that GitHub may have though nothing records it, because an answer was lost or the
// manager was killed before it could write it; or that only ARC's annotations record.
type Unrecorded struct {
	Desired   Desired
	Reference credentials.Reference
	// Listener is the one whose credentials may be used, too, empty if there is none.
	Listener client.ObjectKey
	// MayBeNamed are other names that it may have; see Request.
	MayBeNamed []Name
	// Annotated is the scale set of ARC's annotations, nil if they name none.
	Annotated *v1alpha1.ScaleSetRegistration
	// CreatedAt is the time at which the AutoscalingRunnerSet was created.
	CreatedAt time.Time
}

// The API server's clock, which dates the set, may be ahead of GitHub's, which dates the scale set, by maxClockSkew.
const maxClockSkew = time.Minute

// Search looks for the id in ARC's annotation or, if there is none, for group and name, as Ensure does after an answer
// was lost. It returns nil if GitHub has none, or only one that is older than the set: that belongs to somebody else,
// in another cluster. unsought are names of lost.MayBeNamed that GitHub was not asked about.
func Search(
	ctx context.Context, connections Connections, lost Unrecorded,
) (found *v1alpha1.ScaleSetRegistration, unsought []Name, err error) {
	work := sync{desired: lost.Desired, mayBeNamed: lost.MayBeNamed}
	if err := work.identify(ctx, lost.Annotated, true, Result{}); err != nil {
		return nil, nil, err
	}
	earliest := lost.CreatedAt.Add(-maxClockSkew)
	if lost.Annotated != nil {
		earliest = time.Time{}
	}
	err = withAnyCredentials(ctx, connections, lost.Reference, lost.Listener, func(github GitHub) error {
		attempt := work
		attempt.github = github
		set, err := attempt.find(ctx)
		unsought = attempt.unsought
		if err == nil && (set.CreatedOn.IsZero() || set.CreatedOn.After(earliest)) {
			found = Result{Desired: lost.Desired, Set: set}.Registration()
		}
		return err
	})
	if errors.Is(err, actions.ErrNotFound) {
		err = nil // whether the scale set, its runner group or the whole address doesn't exist
	}
	return found, unsought, err
}
