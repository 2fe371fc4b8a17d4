package kube_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

type budgets = []policyv1.PodDisruptionBudget

// budget returns a budget that allows no eviction, unless it is changed.
func budget(
	name string, selector *metav1.LabelSelector, change ...func(*policyv1.PodDisruptionBudgetSpec),
) policyv1.PodDisruptionBudget {
	b := policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}}
	b.Spec = policyv1.PodDisruptionBudgetSpec{
		MinAvailable: new(intstr.FromInt32(math.MaxInt32)),
		Selector:     selector,
	}
	for _, c := range change {
		c(&b.Spec)
	}
	return b
}

// selecting returns a selector of labels, which are keys and values in turn.
func selecting(pairs ...string) *metav1.LabelSelector {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{}}
	for i := 0; i < len(pairs); i += 2 {
		selector.MatchLabels[pairs[i]] = pairs[i+1]
	}
	return selector
}

// matching returns a selector with one expression, which has no values.
func matching(key string, operator metav1.LabelSelectorOperator) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: operator}}}
}

func TestBudgetsProtectWhatIsAskedFor(t *testing.T) {
	set := func(protect v1alpha1.RunnerProtection) *v1alpha1.AutoscalingRunnerSet {
		s := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "set"}}
		s.Spec.Template.Labels = map[string]string{"tier": "ci", v1alpha1.LabelRunnerBusy: "true"}
		s.Spec.ProtectRunners = protect
		return s
	}
	ofSet := []string{v1alpha1.LabelScaleSetName, "set", v1alpha1.LabelScaleSetNamespace, "team"}
	former := budget("set-gha-rs-runners", selecting(append(ofSet, v1alpha1.LabelRunnerBusy, "true")...))
	busy := budget("set-gha-rs-runners", selecting(ofSet...))
	busy.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{
		Key: v1alpha1.LabelRunnerBusy, Operator: metav1.LabelSelectorOpIn, Values: []string{"true", "unknown"}}}
	busy.Labels = map[string]string{v1alpha1.LabelPartOf: "gha-rs"}
	notBusy := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: v1alpha1.LabelRunnerBusy, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"true"}}}}
	all := budget("set-gha-rs-runners", selecting(ofSet...))
	weak := func(s *policyv1.PodDisruptionBudgetSpec) { s.MinAvailable = new(intstr.FromInt32(1)) }
	for title, test := range map[string]struct {
		protect v1alpha1.RunnerProtection
		budgets budgets
		reason  string
		named   string
	}{
		"the chart's":                 {"", budgets{busy}, "", ""},
		"a former chart's":            {"", budgets{former}, "", ""},
		"none":                        {"", nil, v1alpha1.ReasonNoDisruptionBudget, "namespace team"},
		"none, and none is asked for": {v1alpha1.ProtectNoRunners, nil, "", ""},
		"two, and none is asked for": {
			v1alpha1.ProtectNoRunners, budgets{busy, budget("ops", selecting())}, "", "",
		},
		"another set's beside it": {
			"", budgets{busy, budget("b", selecting(v1alpha1.LabelScaleSetName, "set-b"))}, "", "",
		},
		"one by the template's labels": {
			"", budgets{budget("ops", selecting("tier", "ci")), busy}, v1alpha1.ReasonSeveralDisruptionBudgets,
			"ops beside set-gha-rs-runners",
		},
		"one for all pods": {
			"", budgets{busy, budget("ops", selecting())}, v1alpha1.ReasonSeveralDisruptionBudgets, "ops beside",
		},
		"one for no pods": {"", budgets{busy, budget("ops", nil)}, "", ""},
		"one for the jobs of a repository": {
			"", budgets{busy, budget("ops", selecting(v1alpha1.LabelJobRepository, "acme_web"))},
			v1alpha1.ReasonSeveralDisruptionBudgets, "ops",
		},
		"one for what isn't busy": {
			"", budgets{busy, budget("ops", matching(v1alpha1.LabelRunnerBusy, metav1.LabelSelectorOpDoesNotExist))},
			"", "",
		},
		"one for what isn't known to be busy": {
			"", budgets{busy, budget("ops", notBusy)}, v1alpha1.ReasonSeveralDisruptionBudgets, "ops beside",
		},
		"one with a selector that can't be": {"", budgets{busy, budget("ops", matching("a", "Is"))}, "", ""},
		"one that allows evictions": {
			"", budgets{budget("ops", selecting("tier", "ci"), weak)}, v1alpha1.ReasonDisruptionBudgetTooWeak, "ops",
		},
		"one that allows those of unready": {
			"",
			budgets{
				budget("ops", selecting("tier", "ci"), func(s *policyv1.PodDisruptionBudgetSpec) {
					s.UnhealthyPodEvictionPolicy = new(policyv1.AlwaysAllow)
				}),
			},
			v1alpha1.ReasonDisruptionBudgetTooWeak, "ops",
		},
		"one of the user's that allows none": {"", budgets{budget(
			"ops", selecting("tier", "ci"),
			func(s *policyv1.PodDisruptionBudgetSpec) {
				s.MinAvailable, s.MaxUnavailable = nil, new(intstr.FromString("0%"))
			},
		)}, "", ""},
		"the chart's for all": {v1alpha1.ProtectAllRunners, budgets{all}, "", ""},
		"one for busy ones, all are asked for": {
			v1alpha1.ProtectAllRunners, budgets{busy}, v1alpha1.ReasonNoDisruptionBudget, "covers the runners,",
		},
	} {
		reason, message := kube.Unprotected(set(test.protect), test.budgets)
		if reason != test.reason || !strings.Contains(message, test.named) || (reason == "") != (message == "") {
			t.Errorf("%s: %q, %q; want %q with %q", title, reason, message, test.reason, test.named)
		}
	}
}

// Whoever may create budgets decides the number of budgets, but not the length of a condition.
func TestManyForeignBudgetsAreCounted(t *testing.T) {
	set := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "set"}}
	var budgets []policyv1.PodDisruptionBudget
	for i := range 100 {
		budgets = append(budgets, policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%d-%s", i, strings.Repeat("x", 240))},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}},
		})
	}
	if _, message := kube.Unprotected(set, budgets); len(message) > 2000 || !strings.Contains(message, "and 96 more") {
		t.Errorf("%d bytes: %.200s", len(message), message)
	}
}
