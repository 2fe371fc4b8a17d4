package watch

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/podstatus"
	"github.com/harrier-ci/harrier/operations/doctor/diagnosis"
	"github.com/harrier-ci/harrier/operations/doctor/snapshot"
	"github.com/harrier-ci/harrier/operations/finding"
)

// Need is a thing that a node must have for a pod.
type Need struct {
	// Kind is Request or Label, Name the name of a resource or label, and What its amount or its values.
	Kind, Name, What string
}

// The kinds of needs.
const (
	Request = "request"
	Label   = "label"
)

// maxNeeds bounds what is told of a pod: a template may ask for any number of labels.
const maxNeeds = 20

// limitOf returns what keeps a set from running more jobs and, if pods wait for nodes, what the oldest of these pods
// asks of a node. It sorts the objects of the set as the doctor wants them: the runner set in use comes first.
func limitOf(seen *snapshot.Set) (limit *finding.Finding, needs []Need) {
	slices.SortStableFunc(seen.RunnerSets, func(a, b v1alpha1.EphemeralRunnerSet) int {
		return b.CreationTimestamp.Compare(a.CreationTimestamp.Time)
	})
	slices.SortFunc(seen.Pods, func(a, b corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	for i := range seen.Pods {
		if reason, _ := podstatus.WhyUnplaced(&seen.Pods[i]); reason != "" {
			needs = needsOf(&seen.Pods[i].Spec)
			break
		}
	}
	return diagnosis.Foremost(seen), needs
}

// needsOf returns what the scheduler compares with nodes: requests, and the labels that a node must have.
func needsOf(spec *corev1.PodSpec) (needs []Need) {
	resources := map[corev1.ResourceName]bool{}
	for _, container := range slices.Concat(spec.InitContainers, spec.Containers) {
		for name := range container.Resources.Requests {
			resources[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(resources)) {
		if requested := requests(spec, name); !requested.IsZero() {
			needs = append(needs, Need{Request, string(name), requested.String()})
		}
	}
	for _, label := range slices.Sorted(maps.Keys(spec.NodeSelector)) {
		needs = append(needs, Need{Label, label, spec.NodeSelector[label]})
	}
	if affinity := spec.Affinity; affinity != nil && affinity.NodeAffinity != nil &&
		affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		needs = append(needs, termsOf(affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution)...)
	}
	return needs[:min(len(needs), maxNeeds)]
}

// termsOf returns the labels of an affinity. A node has to suit one term of several, and that wholly.
func termsOf(selector *corev1.NodeSelector) (needs []Need) {
	for i, term := range selector.NodeSelectorTerms {
		for _, expression := range slices.Concat(term.MatchExpressions, term.MatchFields) {
			what := string(expression.Operator)
			if len(expression.Values) > 0 {
				what += " " + strings.Join(expression.Values, ", ")
			}
			if len(selector.NodeSelectorTerms) > 1 {
				what += fmt.Sprintf(" (choice %d of %d)", i+1, len(selector.NodeSelectorTerms))
			}
			needs = append(needs, Need{Label, expression.Key, what})
		}
	}
	return needs
}
