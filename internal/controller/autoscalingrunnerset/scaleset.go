package autoscalingrunnerset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
)

// defaultGroupID and defaultGroupName identify the runner group that exists everywhere.
const (
	defaultGroupID   = 1
	defaultGroupName = "Default"
)

// desiredScaleSet is the scale set as the spec wants it on GitHub.
type desiredScaleSet struct {
	URL   string
	Group string
	Name  string
	// Labels has the name and then the labels of the spec, without duplicates. Case is ignored, as it is in runs-on.
	Labels []string
}

// nameTooLongError is returned for an AutoscalingRunnerSet whose name is too long for the value of a label. Every object created for
// the set has its name as a label, and is found by it.
type nameTooLongError struct{ Length int }

// Error says what to do, because a name can't be changed.
func (e *nameTooLongError) Error() string {
	return fmt.Sprintf("the name of the AutoscalingRunnerSet has %d characters, but may have at most %d; create it under a shorter name and delete this one; "+
		"runnerScaleSetName can keep the name on GitHub", e.Length, validation.LabelValueMaxLength)
}

// desiredOf returns what the spec asks for. It fails with *nameTooLongError or *actions.InvalidConfigURLError.
func desiredOf(set *v1alpha1.AutoscalingRunnerSet) (desiredScaleSet, error) {
	if len(set.Name) > validation.LabelValueMaxLength {
		return desiredScaleSet{}, &nameTooLongError{Length: len(set.Name)}
	}
	url, err := actions.ParseConfigURL(set.Spec.GitHubConfigUrl)
	if err != nil {
		return desiredScaleSet{}, err
	}
	desired := desiredScaleSet{URL: url.String(), Group: set.Spec.RunnerGroup, Name: desiredName(set)}
	known := sets.New[string]()
	for _, label := range append([]string{desired.Name}, set.Spec.RunnerScaleSetLabels...) {
		if folded := strings.ToLower(label); !known.Has(folded) {
			known.Insert(folded)
			desired.Labels = append(desired.Labels, label)
		}
	}
	return desired, nil
}

// desiredName returns the name that the spec asks for on GitHub.
func desiredName(set *v1alpha1.AutoscalingRunnerSet) string {
	return cmp.Or(set.Spec.RunnerScaleSetName, set.Name)
}

// scaleSet returns the request body that creates the scale set.
func (d desiredScaleSet) scaleSet(groupID int) *actions.RunnerScaleSet {
	set := &actions.RunnerScaleSet{Name: d.Name, RunnerGroupID: groupID, RunnerSetting: actions.RunnerSetting{DisableUpdate: true}}
	for _, label := range d.Labels {
		set.Labels = append(set.Labels, actions.Label{Name: label})
	}
	return set
}

// inUseError is returned if the scale set on GitHub belongs to another AutoscalingRunnerSet in this cluster. Two listeners can't share
// it, because GitHub grants a scale set a single session.
type inUseError struct {
	ID    int
	Name  string
	Owner string
}

// Error names the owner and the next step.
func (e *inUseError) Error() string {
	return fmt.Sprintf("scale set %d on GitHub already belongs to AutoscalingRunnerSet %s; choose another runnerScaleSetName or runnerGroup", e.ID, e.Owner)
}

// scaleSetName identifies a scale set if its id can't be used.
type scaleSetName struct{ Group, Name string }

// scaleSetSync brings one scale set on GitHub to the desired state. It runs in the pool and is idempotent.
type scaleSetSync struct {
	github  GitHub
	desired desiredScaleSet
	// id is the scale set's, 0 if it is not known.
	id int
	// named is the name that the scale set with the id must have to be ours, nil if it is known to be ours. An id that only an
	// annotation names proves nothing: it may have been copied.
	named *string
	// knownAs has the names under which the scale set with the id may be found: as registered, and as last requested.
	knownAs []scaleSetName
	// lastAnswer is GitHub's last answer to the same desired scale set, nil if there is none. GitHub would answer the same again,
	// so what it did not accept then is not requested a second time.
	lastAnswer *actions.RunnerScaleSet
	// unanswered are scale sets that earlier calls, for another group or name, may have created without an answer.
	unanswered []scaleSetName
	// owners are the other AutoscalingRunnerSets that hold or want scale sets at the same address.
	owners owners

	// groupID is the desired runner group's, 0 until it has been looked up.
	groupID int
	// posted is set once GitHub was asked to create a scale set, created once it has answered that it did, and uncertain if it may have
	// done so without an answer.
	posted, created, uncertain bool
}

// run finds, creates and updates the scale set, and returns it as it is afterwards. It fails with actions.ErrRunnerGroupNotFound,
// *inUseError, or an error of GitHub's methods.
func (s *scaleSetSync) run(ctx context.Context) (*actions.RunnerScaleSet, error) {
	current, err := s.find(ctx)
	if errors.Is(err, actions.ErrScaleSetNotFound) {
		current, err = s.create(ctx)
	}
	if err != nil {
		return nil, err
	}
	if owner, owned := s.owners.of(current.ID, current.Name); owned && !s.created {
		return nil, &inUseError{ID: current.ID, Name: current.Name, Owner: owner.String()}
	}
	return s.update(ctx, current)
}

// find looks for the id first, because a name can be changed on GitHub and an id can't.
func (s *scaleSetSync) find(ctx context.Context) (*actions.RunnerScaleSet, error) {
	if s.id > 0 {
		current, err := s.findByID(ctx)
		switch {
		case errors.Is(err, actions.ErrScaleSetNotFound) || err == nil && s.isForeign(current.Name):
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

// isForeign reports whether a scale set of that name is another set's, although it has the id that this one had: GitHub lost its
// state, or was restored, and assigns ids a second time.
func (s *scaleSetSync) isForeign(name string) bool {
	return s.owners.claim(name) && !strings.EqualFold(name, s.desired.Name) &&
		!slices.ContainsFunc(s.knownAs, func(known scaleSetName) bool { return strings.EqualFold(known.Name, name) })
}

// findUnanswered looks for a scale set that was created under another name or in another group without an answer, and else returns
// notFound.
func (s *scaleSetSync) findUnanswered(ctx context.Context, notFound error) (*actions.RunnerScaleSet, error) {
	for _, asked := range s.unanswered {
		current, err := s.findByName(ctx, asked)
		switch {
		case errors.Is(err, actions.ErrScaleSetNotFound) || errors.Is(err, actions.ErrRunnerGroupNotFound):
		case err != nil || !s.owners.hold(current.ID, current.Name) && !s.owners.claim(current.Name):
			return current, err
		}
	}
	return nil, notFound
}

// findByID reads by id. If the service may not have that call, it looks for the id under the names that the scale set is known by, and
// fails with actions.ErrScaleSetNotFound if none of them has it.
func (s *scaleSetSync) findByID(ctx context.Context) (*actions.RunnerScaleSet, error) {
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
func (s *scaleSetSync) findByName(ctx context.Context, known scaleSetName) (*actions.RunnerScaleSet, error) {
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
func (s *scaleSetSync) create(ctx context.Context) (*actions.RunnerScaleSet, error) {
	group, err := s.group(ctx)
	if err != nil {
		return nil, err
	}
	s.posted = true
	created, err := s.github.CreateRunnerScaleSet(ctx, s.desired.scaleSet(group))
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

// update makes a request only if there is a difference.
func (s *scaleSetSync) update(ctx context.Context, current *actions.RunnerScaleSet) (*actions.RunnerScaleSet, error) {
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
func (s *scaleSetSync) inGroup(current *actions.RunnerScaleSet) bool {
	if s.desired.Group == "" {
		return current.RunnerGroupID == defaultGroupID
	}
	return strings.EqualFold(current.RunnerGroupName, s.desired.Group)
}

// group returns the id of the desired group, which is looked up at most once per run.
func (s *scaleSetSync) group(ctx context.Context) (int, error) {
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

// difference returns the changes that bring current to the desired state, nil if there are none. Labels and settings that are as in
// lastAnswer, GitHub's answer to the same desired scale set, are left alone: an older GitHub Enterprise Server drops all labels but
// the first, and would do so again.
func difference(desired desiredScaleSet, group int, current, lastAnswer *actions.RunnerScaleSet) *actions.RunnerScaleSet {
	patch, changed := &actions.RunnerScaleSet{}, false
	if !strings.EqualFold(current.Name, desired.Name) {
		patch.Name, changed = desired.Name, true
	}
	if current.RunnerGroupID != group {
		patch.RunnerGroupID, changed = group, true
	}
	if !sameLabels(current, desired.Labels) && (lastAnswer == nil || !sameLabels(current, labelNames(lastAnswer))) {
		patch.Labels, changed = desired.scaleSet(group).Labels, true
	}
	if !current.RunnerSetting.DisableUpdate && (lastAnswer == nil || lastAnswer.RunnerSetting.DisableUpdate) {
		changed = true
	}
	if !changed {
		return nil
	}
	patch.RunnerSetting.DisableUpdate = true
	return patch
}

func labelNames(set *actions.RunnerScaleSet) []string {
	names := make([]string, 0, len(set.Labels))
	for _, label := range set.Labels {
		names = append(names, label.Name)
	}
	return names
}

// sameLabels reports whether the scale set has the labels, ignoring order and case as GitHub does for runs-on.
func sameLabels(set *actions.RunnerScaleSet, names []string) bool {
	return len(missingLabels(set, names)) == 0 && len(set.Labels) == len(names)
}

// missingLabels returns the names that are not among the scale set's labels.
func missingLabels(set *actions.RunnerScaleSet, names []string) []string {
	present := sets.New[string]()
	for _, label := range set.Labels {
		present.Insert(strings.ToLower(label.Name))
	}
	var missing []string
	for _, name := range names {
		if !present.Has(strings.ToLower(name)) {
			missing = append(missing, name)
		}
	}
	return missing
}
