package autoscalingrunnerset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
)

// defaultGroupID is the runner group that exists everywhere.
const defaultGroupID = 1

// wish is the scale set as the spec wants it on GitHub.
type wish struct {
	URL   string
	Group string
	Name  string
	// Labels are the name first and then those of the spec, each once without regard to case, as GitHub matches runs-on.
	Labels []string
}

// NameTooLongError says that an AutoscalingRunnerSet has a name that fits no label. Everything made for the set bears its
// name as one, and is found by it.
type NameTooLongError struct{ Length int }

// Error says what to do: a name can't be changed.
func (e *NameTooLongError) Error() string {
	return fmt.Sprintf("the name of the AutoscalingRunnerSet has %d characters and may have %d; create it under a shorter one and delete this, "+
		"runnerScaleSetName can name it on GitHub", e.Length, validation.LabelValueMaxLength)
}

// wishOf fails with *NameTooLongError or *actions.InvalidConfigURLError.
func wishOf(set *v1alpha1.AutoscalingRunnerSet) (wish, error) {
	if len(set.Name) > validation.LabelValueMaxLength {
		return wish{}, &NameTooLongError{Length: len(set.Name)}
	}
	url, err := actions.ParseConfigURL(set.Spec.GitHubConfigUrl)
	if err != nil {
		return wish{}, err
	}
	w := wish{URL: url.String(), Group: set.Spec.RunnerGroup, Name: set.Spec.RunnerScaleSetName}
	if w.Name == "" {
		w.Name = set.Name
	}
	for _, label := range append([]string{w.Name}, set.Spec.RunnerScaleSetLabels...) {
		if !slices.ContainsFunc(w.Labels, func(known string) bool { return strings.EqualFold(known, label) }) {
			w.Labels = append(w.Labels, label)
		}
	}
	return w, nil
}

// scaleSet returns the body that creates the scale set.
func (w wish) scaleSet(groupID int) *actions.RunnerScaleSet {
	set := &actions.RunnerScaleSet{Name: w.Name, RunnerGroupID: groupID, RunnerSetting: actions.RunnerSetting{DisableUpdate: true}}
	for _, label := range w.Labels {
		set.Labels = append(set.Labels, actions.Label{Name: label})
	}
	return set
}

// InUseError says that the scale set on GitHub belongs to another AutoscalingRunnerSet of this cluster. Two listeners
// can't share one: GitHub grants a scale set a single session.
type InUseError struct {
	ID    int
	Owner string
}

// Error names the owner and the next step.
func (e *InUseError) Error() string {
	return fmt.Sprintf("scale set %d on GitHub belongs to AutoscalingRunnerSet %s already; choose another runnerScaleSetName or runnerGroup", e.ID, e.Owner)
}

// enrolment brings one scale set on GitHub to the wish. It runs in the pool, and doing it twice does no harm.
type enrolment struct {
	github GitHub
	wish   wish
	// id is that of the scale set as far as we know, 0 when we don't.
	id int
	// named is the name that the scale set with the id must have to be ours, nil where that is certain. An annotation alone
	// proves nothing: it may have been copied.
	named *string
	// settled is GitHub's last answer to the same wish, nil when there is none: what GitHub made of the wish then it
	// would make of it again, so it isn't asked for a second time.
	settled *actions.RunnerScaleSet
	// owners are the AutoscalingRunnerSets that hold other scale sets under the same address, by id.
	owners map[int]string

	groupID int
	// posted says that GitHub was asked to create a scale set.
	posted bool
}

// run returns the scale set as it now is. It fails with actions.ErrRunnerGroupNotFound, *InUseError, or as GitHub does.
func (e *enrolment) run(ctx context.Context) (*actions.RunnerScaleSet, error) {
	current, err := e.find(ctx)
	if errors.Is(err, actions.ErrScaleSetNotFound) {
		current, err = e.create(ctx)
	}
	if err != nil {
		return nil, err
	}
	if owner, owned := e.owners[current.ID]; owned {
		return nil, &InUseError{ID: current.ID, Owner: owner}
	}
	return e.update(ctx, current)
}

// find goes by id first: a name can be changed on GitHub, an id can't.
func (e *enrolment) find(ctx context.Context) (*actions.RunnerScaleSet, error) {
	if e.id > 0 {
		current, err := e.github.GetRunnerScaleSetByID(ctx, e.id)
		switch {
		case errors.Is(err, actions.ErrScaleSetNotFound):
		case err != nil || e.named == nil || strings.EqualFold(current.Name, *e.named):
			return current, err
		}
	}
	group, err := e.group(ctx)
	if err != nil {
		return nil, err
	}
	return e.github.GetRunnerScaleSet(ctx, group, e.wish.Name)
}

// create takes "exists" for the sign of an earlier attempt whose answer was lost.
func (e *enrolment) create(ctx context.Context) (*actions.RunnerScaleSet, error) {
	group, err := e.group(ctx)
	if err != nil {
		return nil, err
	}
	e.posted = true
	created, err := e.github.CreateRunnerScaleSet(ctx, e.wish.scaleSet(group))
	if errors.Is(err, actions.ErrScaleSetExists) {
		return e.github.GetRunnerScaleSet(ctx, group, e.wish.Name)
	}
	return created, err
}

// update asks GitHub for nothing where there is no difference.
func (e *enrolment) update(ctx context.Context, current *actions.RunnerScaleSet) (*actions.RunnerScaleSet, error) {
	group := current.RunnerGroupID
	if !e.inGroup(current) {
		var err error
		if group, err = e.group(ctx); err != nil {
			return nil, err
		}
	}
	patch := difference(e.wish, group, current, e.settled)
	if patch == nil {
		return current, nil
	}
	return e.github.UpdateRunnerScaleSet(ctx, current.ID, patch)
}

// inGroup spares the look-up of a group that the scale set is known to be in.
func (e *enrolment) inGroup(current *actions.RunnerScaleSet) bool {
	if e.wish.Group == "" {
		return current.RunnerGroupID == defaultGroupID
	}
	return strings.EqualFold(current.RunnerGroupName, e.wish.Group)
}

// group returns the id of the wished group, which is looked up once per run at most.
func (e *enrolment) group(ctx context.Context) (int, error) {
	switch {
	case e.groupID != 0:
	case e.wish.Group == "":
		e.groupID = defaultGroupID
	default:
		group, err := e.github.GetRunnerGroupByName(ctx, e.wish.Group)
		if err != nil {
			return 0, err
		}
		e.groupID = group.ID
	}
	return e.groupID, nil
}

// difference returns what has to be changed for current to become the wish, nil when nothing has. Where current is what
// GitHub made of the same wish before, labels and settings are left as they are: an older GitHub Enterprise Server
// drops all labels but the first, and would do so again.
func difference(w wish, group int, current, settled *actions.RunnerScaleSet) *actions.RunnerScaleSet {
	patch, changed := &actions.RunnerScaleSet{}, false
	if !strings.EqualFold(current.Name, w.Name) {
		patch.Name, changed = w.Name, true
	}
	if current.RunnerGroupID != group {
		patch.RunnerGroupID, changed = group, true
	}
	if !sameLabels(current, w.Labels) && (settled == nil || !sameLabels(current, labelNames(settled))) {
		patch.Labels, changed = w.scaleSet(group).Labels, true
	}
	if !current.RunnerSetting.DisableUpdate && (settled == nil || settled.RunnerSetting.DisableUpdate) {
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

// sameLabels compares as GitHub matches runs-on: without regard to order or case.
func sameLabels(set *actions.RunnerScaleSet, names []string) bool {
	return len(missingLabels(set, names)) == 0 && len(set.Labels) == len(names)
}

// missingLabels returns those of names that the scale set doesn't have.
func missingLabels(set *actions.RunnerScaleSet, names []string) []string {
	var missing []string
	for _, name := range names {
		if !slices.ContainsFunc(set.Labels, func(label actions.Label) bool { return strings.EqualFold(label.Name, name) }) {
			missing = append(missing, name)
		}
	}
	return missing
}
