package kube

import (
	"fmt"
	"math"
	"strings"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

func TestBudgetsProtectWhatIsAskedFor(t *testing.T) {
	set := func(protect v1alpha1.RunnerProtection) *v1alpha1.AutoscalingRunnerSet {
		s := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "set"}}
		s.Spec.Template.Labels = map[string]string{"tier": "ci", v1alpha1.LabelRunnerBusy: "true"}
		s.Spec.ProtectRunners = protect
		return s
	}
	never := new(intstr.FromInt32(math.MaxInt32))
	budget := func(name string, selector *metav1.LabelSelector, change ...func(*policyv1.PodDisruptionBudgetSpec)) policyv1.PodDisruptionBudget {
		b := policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}}
		b.Spec = policyv1.PodDisruptionBudgetSpec{MinAvailable: never, Selector: selector}
		for _, c := range change {
			c(&b.Spec)
		}
		return b
	}
	labels := func(pairs ...string) *metav1.LabelSelector {
		selector := &metav1.LabelSelector{MatchLabels: map[string]string{}}
		for i := 0; i < len(pairs); i += 2 {
			selector.MatchLabels[pairs[i]] = pairs[i+1]
		}
		return selector
	}
	ofSet := []string{v1alpha1.LabelScaleSetName, "set", v1alpha1.LabelScaleSetNamespace, "team"}
	busy := budget("set-gha-rs-runners", labels(append(ofSet, v1alpha1.LabelRunnerBusy, "true")...))
	busy.Labels = map[string]string{v1alpha1.LabelPartOf: "gha-rs"}
	all := budget("set-gha-rs-runners", labels(ofSet...))
	weak := func(s *policyv1.PodDisruptionBudgetSpec) { s.MinAvailable = new(intstr.FromInt32(1)) }
	for title, test := range map[string]struct {
		protect v1alpha1.RunnerProtection
		budgets []policyv1.PodDisruptionBudget
		reason  string
		named   string
	}{
		"the chart's":                       {"", []policyv1.PodDisruptionBudget{busy}, "", ""},
		"none":                              {"", nil, v1alpha1.ReasonNoDisruptionBudget, "namespace team"},
		"none, and none is asked for":       {v1alpha1.ProtectNoRunners, nil, "", ""},
		"two, and none is asked for":        {v1alpha1.ProtectNoRunners, []policyv1.PodDisruptionBudget{busy, budget("ops", labels())}, "", ""},
		"another set's beside it":           {"", []policyv1.PodDisruptionBudget{busy, budget("b", labels(v1alpha1.LabelScaleSetName, "set-b"))}, "", ""},
		"one by the template's labels":      {"", []policyv1.PodDisruptionBudget{budget("ops", labels("tier", "ci")), busy}, v1alpha1.ReasonSeveralDisruptionBudgets, "ops beside set-gha-rs-runners"},
		"one for all pods":                  {"", []policyv1.PodDisruptionBudget{busy, budget("ops", labels())}, v1alpha1.ReasonSeveralDisruptionBudgets, "ops beside"},
		"one for no pods":                   {"", []policyv1.PodDisruptionBudget{busy, budget("ops", nil)}, "", ""},
		"one for the jobs of a repository":  {"", []policyv1.PodDisruptionBudget{busy, budget("ops", labels(v1alpha1.LabelJobRepository, "acme_web"))}, v1alpha1.ReasonSeveralDisruptionBudgets, "ops"},
		"one for what isn't busy":           {"", []policyv1.PodDisruptionBudget{busy, budget("ops", &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: v1alpha1.LabelRunnerBusy, Operator: metav1.LabelSelectorOpDoesNotExist}}})}, "", ""},
		"one with a selector that can't be": {"", []policyv1.PodDisruptionBudget{busy, budget("ops", &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Is"}}})}, "", ""},
		"one that allows evictions":         {"", []policyv1.PodDisruptionBudget{budget("ops", labels("tier", "ci"), weak)}, v1alpha1.ReasonDisruptionBudgetTooWeak, "ops"},
		"one that allows those of unready":  {"", []policyv1.PodDisruptionBudget{budget("ops", labels("tier", "ci"), func(s *policyv1.PodDisruptionBudgetSpec) { s.UnhealthyPodEvictionPolicy = new(policyv1.AlwaysAllow) })}, v1alpha1.ReasonDisruptionBudgetTooWeak, "ops"},
		"one of the user's that allows none": {"", []policyv1.PodDisruptionBudget{budget("ops", labels("tier", "ci"), func(s *policyv1.PodDisruptionBudgetSpec) {
			s.MinAvailable, s.MaxUnavailable = nil, new(intstr.FromString("0%"))
		})}, "", ""},
		"the chart's for all":                  {v1alpha1.ProtectAllRunners, []policyv1.PodDisruptionBudget{all}, "", ""},
		"one for busy ones, all are asked for": {v1alpha1.ProtectAllRunners, []policyv1.PodDisruptionBudget{busy}, v1alpha1.ReasonNoDisruptionBudget, "covers the runners,"},
	} {
		reason, message := Unprotected(set(test.protect), test.budgets)
		if reason != test.reason || !strings.Contains(message, test.named) || (reason == "") != (message == "") {
			t.Errorf("%s: %q, %q; want %q with %q", title, reason, message, test.reason, test.named)
		}
	}
}

// Whoever may create budgets decides how many there are, not how long a condition is.
func TestManyForeignBudgetsAreCounted(t *testing.T) {
	set := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "set"}}
	var budgets []policyv1.PodDisruptionBudget
	for i := range 100 {
		budgets = append(budgets, policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%d-%s", i, strings.Repeat("x", 240))}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}},
		})
	}
	if _, message := Unprotected(set, budgets); len(message) > 2000 || !strings.Contains(message, "and 96 more") {
		t.Errorf("%d bytes: %.200s", len(message), message)
	}
}
