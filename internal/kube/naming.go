package kube

import (
	"fmt"
	"hash/fnv"
	"maps"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// maxName is the longest name in characters that also fits a label's value and a host name.
const maxName = 63

// EnvManagerNamespace is the environment variable by which the chart tells the manager its namespace.
const EnvManagerNamespace = "CONTROLLER_MANAGER_POD_NAMESPACE"

// NameHash is the eight characters by which ARC tells apart objects whose names would collide.
func NameHash(text string) string {
	hash := fnv.New32a()
	hash.Write([]byte(text))
	encoded := rand.SafeEncodeString(fmt.Sprint(hash.Sum32()))
	return encoded[:min(8, len(encoded))]
}

// ListenerName is the name of a new AutoscalingListener and of what belongs to it: ARC's, cut to what a host name may
// have where the set's own name is longer than its chart allows. Listeners are found by label, so nothing depends on it.
func ListenerName(set *v1alpha1.AutoscalingRunnerSet) string {
	suffix := "-" + NameHash(set.Namespace+"@"+set.Spec.RunnerGroup+"@"+set.Spec.GitHubConfigUrl) + "-listener"
	return shortened(set.Name, maxName-len(suffix)) + suffix
}

// shortened returns a name of at most limit characters: itself, or its beginning with a hash of the whole.
func shortened(name string, limit int) string {
	if len(name) <= limit {
		return name
	}
	hash := NameHash(name)
	return strings.TrimRight(name[:limit-len(hash)-1], "-.") + "-" + hash
}

// randomCharacters end a runner's name. Five of 27 make 14 million names: two of 5,000 runners would be alike in one
// of two bursts if nobody looked.
const randomCharacters = 5

// RunnerName returns a new name for a runner of the set.
func RunnerName(runnerSet string) string {
	return RunnerPrefix(runnerSet) + rand.String(randomCharacters)
}

// RunnerPrefix is what the names of the set's runners begin with, and of what is made under their names; ARC's alike.
func RunnerPrefix(runnerSet string) string {
	const infix = "-runner-"
	return shortened(runnerSet, maxName-len(infix)-randomCharacters) + infix
}

// Labels returns the union of the label sets, later ones winning, without the keys that start with an excluded prefix.
// The labels by which the manager finds what is its own can be neither excluded nor overridden, so callers give them in the
// last set.
func Labels(excludedPrefixes []string, sets ...map[string]string) map[string]string {
	merged := map[string]string{}
	for _, set := range sets {
		maps.Copy(merged, set)
	}
	maps.DeleteFunc(merged, func(key, _ string) bool {
		return key != v1alpha1.LabelScaleSetName && key != v1alpha1.LabelScaleSetNamespace && hasAnyPrefix(key, excludedPrefixes)
	})
	return merged
}

// Annotations returns the union of the annotation sets, later ones winning.
func Annotations(sets ...map[string]string) map[string]string {
	merged := map[string]string{}
	for _, set := range sets {
		maps.Copy(merged, set)
	}
	return merged
}

// ScaleSetOf returns the scale set that an object's labels name: see ScaleSetLabels.
func ScaleSetOf(object client.Object) types.NamespacedName {
	labels := object.GetLabels()
	return types.NamespacedName{Namespace: labels[v1alpha1.LabelScaleSetNamespace], Name: labels[v1alpha1.LabelScaleSetName]}
}

// ScaleSetLabels mark an object as one of the scale set's, in the given role.
func ScaleSetLabels(set *v1alpha1.AutoscalingRunnerSet, component string) map[string]string {
	return map[string]string{
		v1alpha1.LabelPartOf:            v1alpha1.PartOfScaleSet,
		v1alpha1.LabelComponent:         component,
		v1alpha1.LabelScaleSetName:      set.Name,
		v1alpha1.LabelScaleSetNamespace: set.Namespace,
	}
}

var notInLabelValue = regexp.MustCompile(`[^A-Za-z0-9_.-]`)

// LabelValue makes a text a valid label value the way ARC does: 58 characters and "-trim" where it is too long, without
// punctuation at its ends. Characters that no label may have, which ARC leaves in, become underscores.
func LabelValue(text string) string {
	value := notInLabelValue.ReplaceAllString(text, "_")
	if len(value) > maxName {
		value = strings.Trim(value[:58], "-_.") + "-trim"
	}
	return strings.Trim(value, "-_.")
}

// Metadata returns labels and annotations of a ResourceMeta that may be nil.
func Metadata(meta *v1alpha1.ResourceMeta) (labels, annotations map[string]string) {
	if meta == nil {
		return nil, nil
	}
	return meta.Labels, meta.Annotations
}

func hasAnyPrefix(key string, prefixes []string) bool {
	for _, prefix := range prefixes {
		if prefix != "" && strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}
