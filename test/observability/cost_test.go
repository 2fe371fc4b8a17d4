package observability

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/test/prometheus"
)

// expected is a query's right answer at a time, in promtool's form.
type expected struct {
	Expr    string   `json:"expr"`
	At      string   `json:"eval_time"`
	Samples []sample `json:"exp_samples"`
}

type sample struct {
	Labels string  `json:"labels"`
	Value  float64 `json:"value"`
}

// costs are the answers to the page's queries, in their order, rounded to millionths: at 45 minutes the costs of an
// hour, after three hours those until then, at 45 minutes the cores in use.
var costs = []expected{
	{At: "45m", Samples: []sample{
		{`{label_actions_github_com_job_repository="acme_api"}`, 1.5*0.03 + 2*0.004},
		{`{label_actions_github_com_job_repository="acme_web"}`, 2*0.03 + 4*0.004},
	}},
	{At: "180m", Samples: []sample{
		{`{label_actions_github_com_job_repository="acme_api"}`, (1.5*0.03 + 2*0.004) / 2},
		{`{label_actions_github_com_job_repository="acme_web"}`, 2*0.03 + 4*0.004 + 4*0.06 + 8*0.008},
	}},
	{At: "45m", Samples: []sample{{`{label_actions_github_com_job_repository="acme_web"}`, 1.5}}},
}

// The page's queries of costs give the right sums, computed by Prometheus itself. Pods come and go, containers have
// neighbors, nodes have prices of their own, and two exporters know a pod's labels.
func TestCostsPerRepositoryAreRight(t *testing.T) {
	promtool := prometheus.Find(t, "promtool")
	queries := regexp.MustCompile("(?s)```promql\n(.*?)```").FindAllSubmatch(read(t, docs+"/observability.md"), -1)
	if len(queries) != len(costs) {
		t.Fatalf("%d queries on the page, want %d", len(queries), len(costs))
	}
	file := map[string]any{}
	if err := yaml.Unmarshal(read(t, "testdata/cost.yaml"), &file); err != nil {
		t.Fatal(err)
	}
	for i := range costs {
		costs[i].Expr = "round(" + string(queries[i][1]) + ", 0.000001)"
	}
	file["tests"].([]any)[0].(map[string]any)["promql_expr_test"] = costs
	content, err := yaml.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "cost.yaml")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if output, err := exec.CommandContext(t.Context(), promtool, "test", "rules", path).CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s", err, output)
	}
}
