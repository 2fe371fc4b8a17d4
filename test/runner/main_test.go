package main

import (
	"context"
	"os"
	"testing"

	"github.com/harrier-ci/harrier/internal/fakegithub"
)

func TestRunWithoutUsableConfig(t *testing.T) {
	for _, config := range []string{"", "nonsense"} {
		t.Setenv("ACTIONS_RUNNER_INPUT_JITCONFIG", config)
		if code, err := run(context.Background()); code != fakegithub.ExitBadCommand || err == nil {
			t.Errorf("with %q: code %d, error %v", config, code, err)
		}
		if _, set := os.LookupEnv("ACTIONS_RUNNER_INPUT_JITCONFIG"); set && config != "" {
			t.Error("the JIT config is still in the environment")
		}
	}
}
