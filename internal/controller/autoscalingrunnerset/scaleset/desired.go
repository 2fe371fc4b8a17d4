package scaleset

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
)

// Desired is the scale set as the spec wants it on GitHub.
type Desired struct {
	URL   string
	Group string
	Name  string
	// Labels has the name and then the labels of the spec, without duplicates. Case is ignored, as it is in runs-on.
	Labels []string
}

// NameTooLongError is returned for an AutoscalingRunnerSet whose name is too long for the value of a label. Every
// object created for the set has its name as a label, and is found by it.
type NameTooLongError struct{ Length int }

// Error says what to do, because a name can't be changed.
func (e *NameTooLongError) Error() string {
	return fmt.Sprintf("the name of the AutoscalingRunnerSet has %d characters, but may have at most %d; create "+
		"it under a shorter name and delete this one; runnerScaleSetName can keep the name on GitHub",
		e.Length, validation.LabelValueMaxLength)
}

// CauseReason implements causes.Named.
func (e *NameTooLongError) CauseReason() string { return v1alpha1.ReasonNameTooLong }

// DesiredOf returns the scale set that the spec asks for. It fails with *NameTooLongError or
// *actions.InvalidConfigURLError.
func DesiredOf(set *v1alpha1.AutoscalingRunnerSet) (Desired, error) {
	if len(set.Name) > validation.LabelValueMaxLength {
		return Desired{}, &NameTooLongError{Length: len(set.Name)}
	}
	url, err := actions.ParseConfigURL(set.Spec.GitHubConfigUrl)
	if err != nil {
		return Desired{}, err
	}
	desired := Desired{
		URL: url.String(), Group: set.Spec.RunnerGroup, Name: cmp.Or(set.Spec.RunnerScaleSetName, set.Name),
	}
	known := sets.New[string]()
	for _, label := range append([]string{desired.Name}, set.Spec.RunnerScaleSetLabels...) {
		if folded := strings.ToLower(label); !known.Has(folded) {
			known.Insert(folded)
			desired.Labels = append(desired.Labels, label)
		}
	}
	return desired, nil
}

// Registration returns the entry in the set's journal for a scale set that has no id yet.
func (d Desired) Registration() v1alpha1.ScaleSetRegistration {
	return v1alpha1.ScaleSetRegistration{URL: d.URL, Group: d.Group, Name: d.Name}
}

// body returns the request body that creates the scale set.
func (d Desired) body(groupID int) *actions.RunnerScaleSet {
	set := &actions.RunnerScaleSet{
		Name:          d.Name,
		RunnerGroupID: groupID,
		RunnerSetting: actions.RunnerSetting{DisableUpdate: true},
	}
	for _, label := range d.Labels {
		set.Labels = append(set.Labels, actions.Label{Name: label})
	}
	return set
}

// difference returns the changes that bring current to the desired state, nil if there are none. Labels and settings
// that are as in lastAnswer, GitHub's answer to the same desired scale set, are left alone: an older GitHub Enterprise
// Server drops all labels but the first, and would do so again.
func difference(desired Desired, group int, current, lastAnswer *actions.RunnerScaleSet) *actions.RunnerScaleSet {
	patch, changed := &actions.RunnerScaleSet{}, false
	if !strings.EqualFold(current.Name, desired.Name) {
		patch.Name, changed = desired.Name, true
	}
	if current.RunnerGroupID != group {
		patch.RunnerGroupID, changed = group, true
	}
	if !sameLabels(current, desired.Labels) && (lastAnswer == nil || !sameLabels(current, labelNames(lastAnswer))) {
		patch.Labels, changed = desired.body(group).Labels, true
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
	return len(MissingLabels(set, names)) == 0 && len(set.Labels) == len(names)
}

// MissingLabels returns the names that are not among the scale set's labels.
func MissingLabels(set *actions.RunnerScaleSet, names []string) []string {
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
