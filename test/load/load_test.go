package load

import (
	"flag"
	"os"
	"testing"

	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

var flags = register(flag.CommandLine)

func TestMain(m *testing.M) {
	flag.Parse()
	options := rig.ClusterOptions()
	options.AsShipped = true
	os.Exit(testkube.Main(m, options))
}

// TestLoad runs the scenario of the flags, logs and stores the figures, and fails if one exceeds a budget that does not
// depend on the machine.
func TestLoad(t *testing.T) {
	scenario, known := scenarios[flags.scenario]
	if !known {
		t.Fatalf("scenario %q is unknown", flags.scenario)
	}
	jobs := scenario.jobs
	if flags.jobs > 0 {
		jobs = flags.jobs
	}
	result := scenario.run(t, testkube.Shared(t), flags, jobs)
	t.Logf("\n%s", result)
	if flags.jsonPath != "" {
		if err := result.write(flags.jsonPath); err != nil {
			t.Error(err)
		}
	}
	for _, exceeded := range budgetsOf(flags.scenario).exceeded(result) {
		t.Error(exceeded)
	}
}
