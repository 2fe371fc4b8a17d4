package kube

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// Unprotected returns the cause if the PodDisruptionBudgets of a scale set's namespace don't protect its runners as its
// spec asks for: a reason, and a message with the next step. Both are empty if the budgets protect them, or if no
// protection is asked for.
func Unprotected(set *v1alpha1.AutoscalingRunnerSet, budgets []policyv1.PodDisruptionBudget) (reason, message string) {
	const busy, every = "runners that run a job", "runners"
	var pods []labels.Set
	who := busy
	switch cmp.Or(set.Spec.ProtectRunners, v1alpha1.ProtectBusyRunners) {
	case v1alpha1.ProtectNoRunners:
		return "", ""
	case v1alpha1.ProtectAllRunners:
		pods, who = append(pods, runnerPodLabels(set)), every
	}
	for _, busy := range []string{v1alpha1.RunnerBusy, v1alpha1.RunnerMayBeBusy} {
		pod := runnerPodLabels(set)
		pod[v1alpha1.LabelRunnerBusy] = busy
		pods = append(pods, pod)
	}
	for _, pod := range pods {
		covering := slices.DeleteFunc(slices.Clone(budgets), func(b policyv1.PodDisruptionBudget) bool {
			return !covers(&b, pod)
		})
		switch isNew := pod[v1alpha1.LabelRunnerBusy] == v1alpha1.RunnerMayBeBusy; {
		case isNew && len(covering) < 2:
			// An earlier chart's budget, or a user's, covers no pod before its job is reported, and that isn't said.
		case len(covering) == 0:
			return v1alpha1.ReasonNoDisruptionBudget, fmt.Sprintf("no PodDisruptionBudget of namespace %s covers "+
				"the %s, so that whoever drains a node evicts them: helm upgrade the scale set, whose chart "+
				"contains it, or set protectRunners: None", set.Namespace, who)
		case len(covering) > 1:
			ours, others := nameBudgets(covering)
			return v1alpha1.ReasonSeveralDisruptionBudgets, fmt.Sprintf("more than one PodDisruptionBudget covers "+
				"the set's runners, so that the API server answers each eviction of one with an error (500) and "+
				"drains fail: %s beside %s; delete it or make it select other pods, or set protectRunners: None to "+
				"keep it", others, ours)
		case allowsEvictions(&covering[0]):
			return v1alpha1.ReasonDisruptionBudgetTooWeak, fmt.Sprintf("PodDisruptionBudget %s covers the %s and "+
				"may allow their eviction: helm upgrade the scale set, whose chart contains one that doesn't, and "+
				"delete this one; or set protectRunners: None to keep it", covering[0].Name, who)
		}
	}
	return "", ""
}

// runnerPodLabels returns the labels of a pod of the set whose runner is idle.
func runnerPodLabels(set *v1alpha1.AutoscalingRunnerSet) labels.Set {
	runner, _ := Metadata(set.Spec.EphemeralRunnerMetadata)
	runnerSet, _ := Metadata(set.Spec.EphemeralRunnerSetMetadata)
	own := ScaleSetLabels(set, v1alpha1.ComponentRunner)
	pod := Labels(
		nil, runner, runnerSet, set.Labels, ScopeLabels(set.Spec.GitHubConfigUrl), own, set.Spec.Template.Labels,
		map[string]string{
			v1alpha1.LabelScaleSetName:      set.Name,
			v1alpha1.LabelScaleSetNamespace: set.Namespace,
			v1alpha1.LabelRunner:            "True",
		},
	)
	delete(pod, v1alpha1.LabelRunnerBusy)
	return pod
}

// jobLabels are those whose values only a job decides: a budget may select by any of them.
var jobLabels = []string{v1alpha1.LabelJobID, v1alpha1.LabelJobRepository, v1alpha1.LabelJobRunID}

// covers reports whether a budget selects a pod with these labels, or may when the pod has a job.
func covers(budget *policyv1.PodDisruptionBudget, pod labels.Set) bool {
	selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
	if err != nil {
		return false // the API server doesn't take such a selector
	}
	requirements, selectable := selector.Requirements()
	return selectable && !slices.ContainsFunc(requirements, func(r labels.Requirement) bool {
		ofJob := slices.Contains(jobLabels, r.Key()) && pod[v1alpha1.LabelRunnerBusy] == v1alpha1.RunnerBusy
		return !ofJob && !r.Matches(pod)
	})
}

// allowsEvictions reports whether a budget may ever allow that one of its pods is evicted. That of the scale set's
// chart asks for more available pods than there can be.
func allowsEvictions(budget *policyv1.PodDisruptionBudget) bool {
	spec := &budget.Spec
	if policy := spec.UnhealthyPodEvictionPolicy; policy != nil && *policy == policyv1.AlwaysAllow {
		return true
	}
	none := func(value *intstr.IntOrString, number int32, percentage string) bool {
		return value != nil && ((value.Type == intstr.Int && value.IntVal == number) ||
			(value.Type == intstr.String && value.StrVal == percentage))
	}
	return !none(spec.MinAvailable, math.MaxInt32, "100%") && !none(spec.MaxUnavailable, 0, "0%")
}

// nameBudgets returns the name of the budget of a scale set's chart, or of the first if there is none, and the names of
// the others.
func nameBudgets(budgets []policyv1.PodDisruptionBudget) (ours, others string) {
	const named = 3
	first := max(0, slices.IndexFunc(budgets, func(b policyv1.PodDisruptionBudget) bool {
		return b.Labels[v1alpha1.LabelPartOf] == partOfChart
	}))
	var names []string
	for i := range budgets {
		if i != first {
			names = append(names, budgets[i].Name)
		}
	}
	others = strings.Join(names[:min(named, len(names))], ", ")
	if more := len(names) - named; more > 0 {
		others += fmt.Sprintf(" and %d more", more)
	}
	return budgets[first].Name, others
}

// partOfChart is the value of LabelPartOf on the objects of a scale set's chart.
const partOfChart = "gha-rs"
