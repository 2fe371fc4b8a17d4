package main

import (
	"context"
	"errors"
	"fmt"
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

func TestSurroundingsThatAreMissingAreNamed(t *testing.T) {
	t.Setenv("DOCKER_HOST", "unix:///nowhere")
	t.Setenv("PATH", t.TempDir())
	if err := needDocker(); err == nil {
		t.Error("there is no docker, and nobody says so")
	}
	t.Setenv("ACTIONS_RUNNER_CONTAINER_HOOKS", t.TempDir()+"/index.js")
	if err := callHook(t.Context()); err == nil {
		t.Error("there is no hook, and nobody says so")
	}
	if err := needWork(t.TempDir()); err != nil {
		t.Errorf("a folder that can be written: %v", err)
	}
	if err := needWork("/proc/self"); !errors.Is(err, errUnwritable) {
		t.Errorf("a folder that nobody can write: %v", err)
	}
	for _, content := range []string{"", "not a certificate"} {
		file := t.TempDir() + "/ca.crt"
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := clientTrusting(file); err == nil {
			t.Errorf("%q was taken for a certificate", content)
		}
	}
}

func TestToolsAreLeftToTheNextRunner(t *testing.T) {
	folder := t.TempDir()
	for range 2 {
		if err := useTools(t.Context(), folder); err != nil {
			t.Fatal(err)
		}
	}
	content, err := os.ReadFile(folder + "/users")
	if err != nil {
		t.Fatal(err)
	}
	var host string
	var first, second int
	if _, err := fmt.Sscanf(string(content), "%s %d\n%s %d\n", &host, &first, &host, &second); err != nil {
		t.Fatalf("%v in %q", err, content)
	}
	if first < int(toolDownload.Milliseconds()) || second >= first {
		t.Errorf("the first runner took %d ms, the second one %d", first, second)
	}
	if err := useTools(t.Context(), "/proc/self"); err == nil {
		t.Error("nobody says that the folder can't be written")
	}
}

// SIGTERM reaches the runner from 2.299 on, and only where the start script traps it.
func TestWhichVersionsHearSignals(t *testing.T) {
	for _, test := range []struct {
		version, trap string
		set, want     bool
	}{{"", "", false, true}, {"2.337.0", "1", true, true}, {"2.337.0", "", true, false}, {"2.299.0", "", false, true},
		{"2.298.2", "1", true, false}} {
		t.Setenv("RUNNER_VERSION", test.version)
		t.Setenv("RUNNER_MANUALLY_TRAP_SIG", test.trap)
		if !test.set {
			if err := os.Unsetenv("RUNNER_MANUALLY_TRAP_SIG"); err != nil {
				t.Fatal(err)
			}
		}
		if got := trapsSignals(); got != test.want {
			t.Errorf("%+v: %t", test, got)
		}
	}
}

func TestWhileAJobRunsThereIsAWorker(t *testing.T) {
	before, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.WriteFile("/proc/self/comm", before, 0o600) }()
	for works, want := range map[bool]string{true: "Runner.Worker\n", false: "run.sh\n"} {
		showWorker(works)
		if name, err := os.ReadFile("/proc/self/comm"); err != nil || string(name) != want {
			t.Errorf("the process is called %q, %v; want %q", name, err, want)
		}
	}
}
