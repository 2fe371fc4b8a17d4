package scaleset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/holders"
)

// defaultGroupID and defaultGroupName identify the runner group that exists everywhere.
const (
	defaultGroupID   = 1
	defaultGroupName = "Default"
)

// ErrAbsent is returned if GitHub does not have the scale set and the journal does not say that it may be created.
var ErrAbsent = errors.New("GitHub does not have the scale set; it is created by the next request")

// Name identifies a scale set if its id can't be used.
type Name struct{ Group, Name string }

// sync brings one scale set on GitHub to the desired state. It is idempotent.
type sync struct {
	github  GitHub
	desired Desired
	// id is the scale set's, 0 if it is not known.
	id int
	// named is the name that the scale set with the id must have to be ours, nil if it is known to be ours. An id that
	// only an annotation names proves nothing: it may have been copied.
	named *string
	// knownAs has the names under which the scale set with the id may be found: as registered, and as last requested.
	knownAs []Name
	// lastAnswer is GitHub's last answer to the same desired scale set, nil if there is none. GitHub would answer the
	// same again, so what it did not accept then is not requested a second time.
	lastAnswer *actions.RunnerScaleSet
	// mayCreate is set if a scale set that isn't there may be created, and mayBeNamed are the names of scale sets that
	// earlier calls, for another group or name, may have created without an answer.
	mayCreate  bool
	mayBeNamed []Name
	// unsought are those of mayBeNamed that GitHub was not asked about, because another was found first.
	unsought []Name
	// holders has who holds what, nil to take everything for this set's. waits is set if the set leaves to others what
	// nobody holds.
	holders *holders.Store
	set     holders.Set
	waits   bool

	// groupID is the desired runner group's, 0 until it has been looked up.
	groupID int
	// posted is set when GitHub was asked to create a scale set, created when it has answered that it did, and
	// uncertain if it may have done so without an answer.
	posted, created, uncertain bool
	// held is the id of the scale set that it was recorded last that this set holds, 0 if it wasn't.
	held int
}

// run finds, creates and updates the scale set, and returns it as it is afterwards. Nothing is changed before it is
// recorded that this set holds the scale set. It fails with actions.ErrRunnerGroupNotFound, an error of
// holders.Store.Hold, or one of GitHub's methods.
func (s *sync) run(ctx context.Context) (*actions.RunnerScaleSet, error) {
	current, err := s.find(ctx)
	if errors.Is(err, actions.ErrScaleSetNotFound) {
		if !s.mayCreate {
			return nil, ErrAbsent
		}
		current, err = s.create(ctx)
	}
	if err != nil {
		return nil, err
	}
	if err := s.hold(ctx, current); err != nil {
		return nil, err
	}
	updated, err := s.update(ctx, current)
	if err == nil && updated.Name != current.Name {
		err = s.hold(ctx, updated)
	}
	return updated, err
}

// hold records that this set holds a scale set.
func (s *sync) hold(ctx context.Context, current *actions.RunnerScaleSet) error {
	if s.holders == nil {
		return nil
	}
	found := s.scaleSet(current.ID, current.Name)
	if s.waits && !s.created {
		held, err := s.holders.IsHeld(ctx, s.set, found)
		if err != nil {
			return err
		}
		if !held {
			return &holders.HeldError{Asking: s.set.Key, ID: current.ID, Name: current.Name}
		}
	}
	err := s.holders.Hold(ctx, s.set, found, s.created)
	if err == nil {
		s.held = found.ID
	}
	return err
}

// scaleSet returns a scale set at the desired address, as it is reached.
func (s *sync) scaleSet(id int, name string) holders.ScaleSet {
	return holders.ScaleSet{URL: s.desired.URL, Way: s.github.Way(), ID: id, Name: name}
}

// isAnothers reports whether another set holds a scale set that this one knows by that name.
func (s *sync) isAnothers(ctx context.Context, id int, name string) (bool, error) {
	if s.holders == nil {
		return false, nil
	}
	rival, err := s.holders.Rival(ctx, s.set, s.scaleSet(id, name))
	return rival != nil, err
}

// isNamedByAnother reports whether another set holds a scale set of that name.
func (s *sync) isNamedByAnother(ctx context.Context, name string) (bool, error) {
	if s.holders == nil {
		return false, nil
	}
	return s.holders.IsNamedByAnother(ctx, s.set, s.scaleSet(0, name))
}

// find returns the scale set, and finds out which others an earlier call may have created all the same.
func (s *sync) find(ctx context.Context) (*actions.RunnerScaleSet, error) {
	s.unsought = s.mayBeNamed
	current, err := s.findAny(ctx)
	if err == nil {
		s.unsought = slices.DeleteFunc(slices.Clone(s.unsought), func(asked Name) bool {
			sameGroup := current.RunnerGroupName == "" ||
				strings.EqualFold(cmp.Or(asked.Group, defaultGroupName), current.RunnerGroupName)
			return (sameGroup && strings.EqualFold(asked.Name, current.Name)) ||
				asked == Name{s.desired.Group, s.desired.Name}
		})
	}
	return current, err
}

// findAny looks for the id first, because a name can be changed on GitHub and an id can't.
func (s *sync) findAny(ctx context.Context) (*actions.RunnerScaleSet, error) {
	if s.id > 0 {
		current, err := s.findByID(ctx)
		foreign := errors.Is(err, actions.ErrScaleSetNotFound)
		if err == nil {
			foreign, err = s.isForeign(ctx, current.Name)
		}
		switch {
		case foreign:
		case err != nil || s.named == nil || strings.EqualFold(current.Name, *s.named):
			return current, err
		}
	}
	group, err := s.group(ctx)
	if err != nil {
		return nil, err
	}
	current, err := s.github.GetRunnerScaleSet(ctx, group, s.desired.Name)
	if errors.Is(err, actions.ErrScaleSetNotFound) {
		return s.findUnanswered(ctx, err)
	}
	return current, err
}

// isForeign reports whether a scale set of that name is another set's, although it has the id that this one had: GitHub
// lost its state, or was restored, and assigns ids a second time.
func (s *sync) isForeign(ctx context.Context, name string) (bool, error) {
	if strings.EqualFold(name, s.desired.Name) ||
		slices.ContainsFunc(s.knownAs, func(known Name) bool { return strings.EqualFold(known.Name, name) }) {
		return false, nil
	}
	return s.isNamedByAnother(ctx, name)
}

// findUnanswered looks for a scale set that was created under another name or in another group without an answer, and
// else returns notFound.
func (s *sync) findUnanswered(ctx context.Context, notFound error) (*actions.RunnerScaleSet, error) {
	for i, asked := range s.mayBeNamed {
		s.unsought = s.mayBeNamed[i+1:]
		if (asked == Name{s.desired.Group, s.desired.Name}) {
			continue // found already, if it were there
		}
		current, err := s.findByName(ctx, asked)
		if errors.Is(err, actions.ErrScaleSetNotFound) || errors.Is(err, actions.ErrRunnerGroupNotFound) {
			continue
		}
		taken := false
		if err == nil {
			taken, err = s.isNamedByAnother(ctx, current.Name)
		}
		if err != nil || !taken {
			return current, err
		}
	}
	return nil, notFound
}

// findByID reads by id. If the service may not have that call, it looks for the id under the names that the scale set
// is known by, and fails with actions.ErrScaleSetNotFound if none of them has it.
func (s *sync) findByID(ctx context.Context) (*actions.RunnerScaleSet, error) {
	current, err := s.github.GetRunnerScaleSetByID(ctx, s.id)
	if !actions.LacksReadByID(err) {
		return current, err
	}
	for _, known := range s.knownAs {
		current, err := s.findByName(ctx, known)
		switch {
		case errors.Is(err, actions.ErrScaleSetNotFound) || errors.Is(err, actions.ErrRunnerGroupNotFound):
		case err != nil || current.ID == s.id:
			return current, err
		}
	}
	return nil, actions.ErrScaleSetNotFound
}

// findByName doesn't look up the group Default, which exists everywhere.
func (s *sync) findByName(ctx context.Context, known Name) (*actions.RunnerScaleSet, error) {
	group := &actions.RunnerGroup{ID: defaultGroupID}
	if known.Group != "" && !strings.EqualFold(known.Group, defaultGroupName) {
		var err error
		if group, err = s.github.GetRunnerGroupByName(ctx, known.Group); err != nil {
			return nil, err
		}
	}
	return s.github.GetRunnerScaleSet(ctx, group.ID, known.Name)
}

// create creates the scale set. If one exists already, it returns that: the answer to an earlier attempt was lost.
func (s *sync) create(ctx context.Context) (*actions.RunnerScaleSet, error) {
	group, err := s.group(ctx)
	if err != nil {
		return nil, err
	}
	s.posted = true
	created, err := s.github.CreateRunnerScaleSet(ctx, s.desired.body(group))
	if !errors.Is(err, actions.ErrScaleSetExists) {
		s.created, s.uncertain = err == nil, err != nil && mayBeCarriedOut(err)
		return created, err
	}
	existing, lookupErr := s.github.GetRunnerScaleSet(ctx, group, s.desired.Name)
	if errors.Is(lookupErr, actions.ErrScaleSetNotFound) {
		return nil, fmt.Errorf("%w, but there is none of that name in runner group %d", err, group)
	}
	return existing, lookupErr
}

// mayBeCarriedOut reports whether GitHub may have done what a failed call asked for: it gave no answer, or failed at
// it. A call that GitHub has limited may have been sent before, with another outcome.
func mayBeCarriedOut(err error) bool {
	_, unreached := errors.AsType[*actions.NetworkError](err)
	_, limited := errors.AsType[*actions.RateLimitedError](err)
	answer, answered := errors.AsType[*actions.Error](err)
	return unreached || limited || !answered || answer.StatusCode >= http.StatusInternalServerError
}

// update makes a request only if there is a difference.
func (s *sync) update(ctx context.Context, current *actions.RunnerScaleSet) (*actions.RunnerScaleSet, error) {
	group := current.RunnerGroupID
	if !s.inGroup(current) {
		var err error
		if group, err = s.group(ctx); err != nil {
			return nil, err
		}
	}
	patch := difference(s.desired, group, current, s.lastAnswer)
	if patch == nil {
		return current, nil
	}
	return s.github.UpdateRunnerScaleSet(ctx, current.ID, patch)
}

// inGroup reports whether the scale set is in the desired group, without looking up the group on GitHub.
func (s *sync) inGroup(current *actions.RunnerScaleSet) bool {
	if s.desired.Group == "" {
		return current.RunnerGroupID == defaultGroupID
	}
	return strings.EqualFold(current.RunnerGroupName, s.desired.Group)
}

// group returns the id of the desired group, which is looked up at most a single time per run.
func (s *sync) group(ctx context.Context) (int, error) {
	switch {
	case s.groupID != 0:
	case s.desired.Group == "":
		s.groupID = defaultGroupID
	default:
		group, err := s.github.GetRunnerGroupByName(ctx, s.desired.Group)
		if err != nil {
			return 0, err
		}
		s.groupID = group.ID
	}
	return s.groupID, nil
}
