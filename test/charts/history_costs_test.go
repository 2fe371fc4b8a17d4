package charts

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// flagOf returns the JSON of one of the ledger's flags, nil if it doesn't have the flag.
func flagOf(t *testing.T, name string, values ...string) (value any) {
	t.Helper()
	set := historyOf(t, render(t, controller, append([]string{ledger}, values...)...))
	for _, argument := range set.Spec.Template.Spec.Containers[0].Args {
		if text, is := strings.CutPrefix(argument, "--"+name+"="); is {
			if err := json.Unmarshal([]byte(text), &value); err != nil {
				t.Fatalf("%s: %v", argument, err)
			}
		}
	}
	return value
}

// Rules and budgets reach the ledger as they are, with numbers as numbers; an object stays what it was, and nothing is said
// of prices by default.
func TestTheLedgersPricesAndBudgets(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"prices", "budgets", "price-cpu-hour"} {
		check(t, "by default "+flag, flagOf(t, flag), any(nil))
	}
	check(t, "prices of an object", flagOf(t, "prices", "history: {prices: {cpuHour: 0.031}}"), any(nil))
	check(t, "price of an object", flagOf(t, "price-cpu-hour", "history: {prices: {cpuHour: 0.031}}"), any(0.031))
	const rules = `history:
  prices:
    - nodeLabels: {node.kubernetes.io/instance-type: [g5.xlarge, g5.2xlarge], cloud.google.com/gke-spot: true, gone: null}
      cpuHour: 0.04
      gibHour: "0.005"
      resourceHours: {nvidia.com/gpu: 0.9, amd.com/gpu: 0}
    - {nodeLabels: {karpenter.sh/capacity-type: spot}, cpuHour: 0.012, gibHour: null}
    - {cpuHour: 0.031}
  budgets:
    - {repository: acme/web, perMonth: 500}
    - {namespace: team-web, perMonth: "1000.5"}
`
	type m = map[string]any
	if diff := cmp.Diff([]any{
		m{"nodeLabels": m{"node.kubernetes.io/instance-type": []any{"g5.xlarge", "g5.2xlarge"}, "cloud.google.com/gke-spot": true},
			"cpuHour": 0.04, "gibHour": 0.005, "resourceHours": m{"nvidia.com/gpu": 0.9, "amd.com/gpu": 0.0}},
		m{"nodeLabels": m{"karpenter.sh/capacity-type": "spot"}, "cpuHour": 0.012}, m{"cpuHour": 0.031},
	}, flagOf(t, "prices", rules)); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]any{m{"repository": "acme/web", "perMonth": 500.0}, m{"namespace": "team-web", "perMonth": 1000.5}},
		flagOf(t, "budgets", rules)); diff != "" {
		t.Errorf("budgets (-want +got):\n%s", diff)
	}
}

func TestPricesAndBudgetsThatCannotBe(t *testing.T) {
	t.Parallel()
	const budget = "prices: {cpuHour: 1}, budgets: "
	for values, want := range map[string]string{
		"prices: [{}]": "history.prices[0] has no price", "prices: [{cpuHour: 1}, {nodeLabels: {a: b}}]": "history.prices[1] has no price",
		"prices: [{resourceHours: {pods.kubernetes.io/x: 1}}]": "history.prices[0].resourceHours has pods.kubernetes.io/x",
		"prices: [{resourceHours: {cpu: 1}}]":                  "resourceHours", "prices: [{cpuHour: -1}]": "cpuHour",
		"prices: [{cpuHours: 1}]": "cpuHours", "prices: [{cpuHour: 1, nodeLabels: {a: [1]}}]": "nodeLabels",
		"prices: [{cpuHour: 1, nodeLabels: {a: []}}]": "nodeLabels", "prices: [{cpuHour: 1, nodeLabels: {'a b': c}}]": "nodeLabels",
		"prices: [1]": "prices", "prices: 1": "prices",
		"budgets: [{namespace: a, perMonth: 1}]":                              "history.budgets needs history.prices",
		budget + "[{perMonth: 1}]":                                            "history.budgets[0] must have either",
		budget + "[{namespace: a, repository: a/b, perMonth: 1}]":             "history.budgets[0] must have either",
		budget + "[{namespace: a, perMonth: 0}]":                              "history.budgets[0].perMonth",
		budget + "[{namespace: a}]":                                           "perMonth",
		budget + "[{namespace: a, perMonth: 1}, {namespace: a, perMonth: 2}]": "history.budgets[1] is the second budget of a",
		budget + "[{repository: a, perMonth: 1}]":                             "repository",
		budget + "[{namespace: A, perMonth: 1}]":                              "namespace",
	} {
		checkContains(t, refusal(t, controller, "history: {enabled: true, "+values+"}"), want)
	}
	const labels = "history: {enabled: true, prices: [{cpuHour: 1}, {nodeLabels: {a: b}, cpuHour: 1}]}"
	for _, narrow := range []string{"flags: {watchSingleNamespace: arc-runners}",
		"{rbac: {clusterRoles: false}, crds: {install: false}, flags: {watchSingleNamespace: arc-runners}}"} {
		checkContains(t, refusal(t, controller, labels, narrow), "history.prices[1].nodeLabels")
	}
}
