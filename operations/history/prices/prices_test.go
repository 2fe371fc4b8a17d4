package prices_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/operations/history/prices"
)

const (
	kind     = "node.kubernetes.io/instance-type"
	capacity = "karpenter.sh/capacity-type"
	pool     = "example.com/pool"
)

// TestTheFirstRuleThatFitsPrices has for each machine the price of a CPU of the rule that fits, 0 if none is known.
func TestTheFirstRuleThatFitsPrices(t *testing.T) {
	rules, err := prices.Parse(`[
		{nodeLabels: {node.kubernetes.io/instance-type: [g5.xlarge, g5.2xlarge]}, cpuHour: 1, resourceHours: {nvidia.com/gpu: 9}},
		{nodeLabels: {cloud.google.com/gke-spot: true}, cpuHour: 2},
		{nodeLabels: {karpenter.sh/capacity-type: spot, kubernetes.io/arch: arm64}, cpuHour: 3},
		{nodeLabels: {karpenter.sh/capacity-type: spot}, cpuHour: 4},
		{nodeLabels: {example.com/pool: big}, cpuHour: 5},
		{cpuHour: 6, resourceHours: {example.com/fpga: 0}}]`)
	if err != nil {
		t.Fatal(err)
	}
	text := func(pairs ...string) string {
		labels := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			labels[pairs[i]] = pairs[i+1]
		}
		return rules.NodeLabels(labels)
	}
	before := prices.Rules{}.NodeLabels(map[string]string{kind: "m7i.large", capacity: "on-demand"})
	for _, test := range []struct {
		about, labels, kind, resources string
		want                           float64
	}{
		{"a GPU", text(kind, "g5.xlarge"), "", "nvidia.com/gpu=1", 1},
		{"a GPU node without a GPU", text(kind, "g5.2xlarge"), "", "", 1},
		{"a GPU without a price", text(kind, "p5.48xlarge"), "", "nvidia.com/gpu=8", 0},
		{"another resource there", text(kind, "g5.xlarge"), "", "amd.com/gpu=1", 0},
		{"one that costs nothing besides", text(kind, "f1"), "", "example.com/fpga=1", 6},
		{"one with a price, one without", text(kind, "f1"), "", "example.com/fpga=1,nvidia.com/gpu=1", 0},
		{"a label that YAML has as true", text(kind, "n2", "cloud.google.com/gke-spot", "true"), "", "", 2},
		{"both labels", text(kind, "m7g", capacity, "spot", "kubernetes.io/arch", "arm64"), "", "", 3},
		{"one of them", text(kind, "m7i", capacity, "spot", "kubernetes.io/arch", "amd64"), "", "", 4},
		{"a label that a rule names", text(kind, "m7i", pool, "big"), "", "", 5},
		{"no rule but the last", text(kind, "m7i", capacity, "on-demand", pool, "small"), "", "", 6},
		{"a node without labels", text(), "", "", 6},
		{"a node that nobody saw", "", "", "", 0},
		{"a row of before whose type is enough", "", "g5.xlarge", "", 1},
		{"a row of before whose type is not enough", "", "m7i", "", 0},
		{"a label that nobody looked for", before, "m7i.large", "", 0},
		{"text of others", "a|b;c", "", "", 0},
		{"resources of others", text(kind, "m7i"), "", "a|b=1", 0},
	} {
		machine, _ := prices.MachineOf(test.labels, test.kind, test.resources)
		got := 0.0
		if price := prices.NewLookup(rules).Of(machine); price != nil {
			got = price.CPUHour
		}
		if got != test.want {
			t.Errorf("%s: the price is %v, want %v", test.about, got, test.want)
		}
	}
}

// TestLabelsHaveALimit: a node with labels that don't fit keeps the well-known ones, or its type.
func TestLabelsHaveALimit(t *testing.T) {
	long := strings.Repeat("x", 63)
	var rules prices.Rules
	labels := map[string]string{kind: "m7i", capacity: "spot"}
	for i := range 8 {
		name := fmt.Sprintf("%s.example.com/pool-%d", long, i)
		rules = append(rules, prices.Rule{NodeLabels: map[string]prices.Values{name: {"a"}}, CPUHour: 1})
		labels[name] = long
	}
	if got := rules.NodeLabels(labels); got != kind+"=m7i,"+capacity+"=spot" {
		t.Errorf("they are %q", got)
	}
	for _, name := range []string{"kubernetes.io/arch", "eks.amazonaws.com/capacityType", "cloud.google.com/gke-spot",
		"cloud.google.com/gke-preemptible", "cloud.google.com/gke-provisioning", "kubernetes.azure.com/scalesetpriority", capacity} {
		labels[name] = long
	}
	if got := rules.NodeLabels(labels); got != "?,"+kind+"=m7i" {
		t.Errorf("then they are %q", got)
	}
}

func TestExtendedResourcesAreThoseWithADomain(t *testing.T) {
	got := prices.ExtendedResources(map[string]int64{"nvidia.com/gpu": 2, "cpu": 4, "hugepages-2Mi": 1, "example.com/none": 0,
		"pods.kubernetes.io/x": 1, "example.com/fpga": 5_000_000})
	if got != "example.com/fpga=1000000,nvidia.com/gpu=2" {
		t.Errorf("they are %q", got)
	}
	many := map[string]int64{}
	for i := range 9 {
		many[fmt.Sprint("example.com/", i)] = 1
	}
	machine, _ := prices.MachineOf("", "", prices.ExtendedResources(many))
	if price := prices.NewLookup(prices.Rules{{CPUHour: 1}}).Of(machine); price != nil {
		t.Errorf("more of them than are kept cost %+v", price)
	}
}

func TestWhatCannotBeIsRefusedWithItsPath(t *testing.T) {
	for text, path := range map[string]string{
		`[{}]`: "prices[0]", `[{cpuHour: 1}, {nodeLabels: {a: b}}]`: "prices[1]", `[{cpuHour: -1}]`: "prices[0].cpuHour",
		`[{cpuHour: 1e13}]`: "prices[0].cpuHour", `[{resourceHours: {cpu: 1}}]`: "prices[0].resourceHours",
		`[{resourceHours: {nvidia.com/gpu: -1}}]`:                          "prices[0].resourceHours.nvidia.com/gpu",
		`[{cpuHour: 1, nodeLabels: {a: []}}]`:                              "prices[0].nodeLabels.a",
		`[{cpuHour: 1, nodeLabels: {a: "b c"}}]`:                           "prices[0].nodeLabels.a",
		`[{cpuHour: 1, nodeLabels: {"a b": c}}]`:                           "prices[0].nodeLabels",
		`[` + strings.Repeat(`{cpuHour: 1},`, 201) + `]`:                   "prices",
		`[{cpuHour: 1, nodeLabels: {a: b}}]` + strings.Repeat(" ", 70_000): "prices",
	} {
		_, err := prices.Parse(text)
		if wrong, is := errors.AsType[*prices.ParseError](err); !is || wrong.Path != path {
			t.Errorf("%.60s gives %v, want the path %s", text, err, path)
		}
	}
	for text, path := range map[string]string{
		`[{perMonth: 1}]`: "budgets[0]", `[{repository: a/b, namespace: c, perMonth: 1}]`: "budgets[0]",
		`[{repository: a/b}]`: "budgets[0].perMonth", `[{repository: a/b, perMonth: -1}]`: "budgets[0].perMonth",
		`[{repository: a/b, perMonth: 1}, {repository: a/b, perMonth: 2}]`: "budgets[1]",
		`[` + strings.Repeat(`{},`, 201) + `]`:                             "budgets",
	} {
		_, err := prices.ParseBudgets(text)
		if wrong, is := errors.AsType[*prices.ParseError](err); !is || wrong.Path != path {
			t.Errorf("%.60s gives %v, want the path %s", text, err, path)
		}
	}
	for _, text := range []string{"{}", "[1]", "[{cpuHours: 1}]", "[{cpuHour: x}]", "[{nodeLabels: {a: 1}, cpuHour: 1}]", "a: [", "\x00"} {
		if rules, err := prices.Parse(text); err == nil {
			t.Errorf("%q gives %+v", text, rules)
		}
	}
}

func TestAMonthIsUTCs(t *testing.T) {
	east := time.FixedZone("", 14*3600)
	for moment, want := range map[time.Time]string{
		time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC):           "2026-03-01 2026-04-01",
		time.Date(2026, 3, 1, 13, 0, 0, 0, east):              "2026-02-01 2026-03-01",
		time.Date(2026, 12, 31, 23, 59, 59, 0, time.UTC):      "2026-12-01 2027-01-01",
		time.Date(2028, 2, 29, 12, 0, 0, 0, time.UTC).Local(): "2028-02-01 2028-03-01",
	} {
		from, to := prices.Month(moment)
		if diff := cmp.Diff(want, from.Format(time.DateOnly+" ")+to.Format(time.DateOnly)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", moment, diff)
		}
	}
}

// What a job costs is what it requests, at the price of its machine.
func TestTheCostOfAJob(t *testing.T) {
	rules, err := prices.Parse(`[{nodeLabels: {karpenter.sh/capacity-type: spot}, cpuHour: 1, gibHour: 0.5, resourceHours: {nvidia.com/gpu: 9}},
		{cpuHour: 2}]`)
	if err != nil {
		t.Fatal(err)
	}
	spot := rules.NodeLabels(map[string]string{kind: "g5", capacity: "spot"})
	for _, test := range []struct {
		of   prices.Requests
		want float64 // 0: unknown
	}{
		{prices.Requests{NodeLabels: spot, CPUs: 2, GiB: 4}, 2},
		{prices.Requests{NodeLabels: spot, ExtendedResources: "nvidia.com/gpu=2", CPUs: 2, GiB: 4}, 11},
		{prices.Requests{NodeLabels: spot, ExtendedResources: "amd.com/gpu=1", CPUs: 2}, 0},
		{prices.Requests{CPUs: 2}, 0},
	} {
		got := rules.CostOf(test.of, 0.5)
		if (got == nil) != (test.want == 0) || got != nil && *got != test.want {
			t.Errorf("%+v costs %v, want %v", test.of, got, test.want)
		}
	}
}
