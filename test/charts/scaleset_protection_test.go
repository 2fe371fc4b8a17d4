package charts

import (
	"slices"
	"strings"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// podLabels returns labels of a pod that belongs to a set, as the manager gives them to it, with others.
func podLabels(set v1alpha1.AutoscalingRunnerSet, others ...string) labels.Set {
	pod := labels.Set{
		"actions.github.com/scale-set-name":      set.Name,
		"actions.github.com/scale-set-namespace": set.Namespace,
	}
	for i := 0; i < len(others); i += 2 {
		pod[others[i]] = others[i+1]
	}
	return pod
}

// Each value of protectRunners covers the pods that it names, whatever the set is called, and the pods of no other set.
func TestBudgetCoversWhatItShould(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "linux_x64", "a.b", "7", strings.Repeat("a", 45)} {
		values := "runnerScaleSetName: " + `"` + name + `"`
		set := runnerSet(t, scaleSet, values)
		pods := map[string]labels.Set{
			"busy":      podLabels(set, "actions.github.com/runner-busy", "true", "actions-ephemeral-runner", "True"),
			"new":       podLabels(set, "actions.github.com/runner-busy", "unknown", "actions-ephemeral-runner", "True"),
			"idle":      podLabels(set, "actions-ephemeral-runner", "True", "app.kubernetes.io/component", "runner"),
			"job's":     podLabels(set, "actions.github.com/runner-busy", "true", "runner-pod", "a"),
			"listener":  podLabels(set, "app.kubernetes.io/component", "runner-scale-set-listener"),
			"another's": podLabels(v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Name + "-b"}}, "actions.github.com/runner-busy", "true"),
			"elsewhere": podLabels(v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: set.Name}}, "actions.github.com/runner-busy", "true"),
		}
		for protect, want := range map[string][]string{"": {"busy", "job's", "new"}, "Busy": {"busy", "job's", "new"},
			"All": {"busy", "idle", "job's", "new"}} {
			budget := one[policyv1.PodDisruptionBudget](t,
				render(t, scaleSet, minimal, values, "protectRunners: "+`"`+protect+`"`), "poddisruptionbudget.yaml")
			selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
			if err != nil {
				t.Fatal(err)
			}
			var covered []string
			for kind, pod := range pods {
				if selector.Matches(pod) {
					covered = append(covered, kind)
				}
			}
			slices.Sort(covered)
			check(t, "covered with "+protect+" of "+name, covered, want)
			check(t, "budget", budget.Spec.MinAvailable, new(intstr.FromInt32(2147483647)))
			check(t, "namespace", budget.Namespace, set.Namespace)
			if len(budget.Name) > 63 {
				t.Errorf("the name %s has %d characters", budget.Name, len(budget.Name))
			}
		}
	}
}

// A user without the right to create budgets, or with an own one, turns the chart's off: then no right on budgets is
// needed.
func TestNoBudgetNeedsNoRight(t *testing.T) {
	t.Parallel()
	rendered := render(t, scaleSet, minimal, "protectRunners: None")
	check(t, "budgets", len(rendered["poddisruptionbudget.yaml"]), 0)
	for _, file := range []string{"manager_role.yaml", "manager_pod_metadata_role.yaml"} {
		for _, rule := range one[rbacv1.Role](t, rendered, file).Rules {
			if slices.Contains(rule.APIGroups, "policy") {
				t.Errorf("%s: %v", file, rule)
			}
		}
	}
	marks := one[rbacv1.Role](t, rendered, "manager_pod_metadata_role.yaml").Rules
	check(t, "pods are marked all the same", marks,
		[]rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"patch"}}})
	check(t, "field", runnerSet(t, scaleSet, "protectRunners: None").Spec.ProtectRunners, v1alpha1.ProtectNoRunners)
}

func TestJobProtectionIsPassedOn(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{"null": "", `""`: "", "true": "true", `"true"`: "true", "false": "false",
		"6h": "6h", "1h30m": "1h30m"} {
		check(t, "jobProtection: "+value, runnerSet(t, scaleSet, "jobProtection: "+value).Spec.JobProtection, want)
	}
	for _, value := range []string{"yes please", "5", "6", "1d", "-5m"} {
		checkContains(t, refusal(t, scaleSet, minimal, "jobProtection: "+value), "jobProtection")
	}
	checkContains(t, refusal(t, scaleSet, minimal, "protectRunners: busy"), "protectRunners")
}

func TestCapacityIsPassedOn(t *testing.T) {
	t.Parallel()
	placement := v1alpha1.CapacityPlacement
	for value, want := range map[string]*v1alpha1.CapacitySpec{
		"null":                      nil,
		"{}":                        nil,
		"{mode: null}":              nil,
		`{mode: ""}`:                nil,
		"{mode: Placement}":         {Mode: placement},
		"{mode: Static}":            {Mode: v1alpha1.CapacityStatic},
		"{placementTimeout: 1h30m}": {PlacementTimeout: &metav1.Duration{Duration: 90 * time.Minute}},
		"{mode: Placement, placementTimeout: 30s}": {Mode: placement, PlacementTimeout: &metav1.Duration{Duration: 30 * time.Second}},
	} {
		check(t, "capacity: "+value, runnerSet(t, scaleSet, "capacity: "+value).Spec.Capacity, want)
	}
	for _, value := range []string{"Placement", "{mode: placement}", "{mode: 5}", "{placementTimeout: 5}",
		"{placementTimeout: 1d}", "{timeout: 5m}"} {
		checkContains(t, refusal(t, scaleSet, minimal, "capacity: "+value), "capacity")
	}
}
