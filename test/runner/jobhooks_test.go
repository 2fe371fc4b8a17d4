package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/harrier-ci/harrier/internal/fakegithub"
)

// step returns the step of a hook with this script.
func step(ctx context.Context, t *testing.T, content string) fakegithub.Step {
	t.Helper()
	script := filepath.Join(t.TempDir(), "hook.sh")
	if err := os.WriteFile(script, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(startedHook.variable, script)
	return startedHook.in(t.TempDir())(ctx, map[string]string{"GITHUB_RUN_ATTEMPT": "2"})
}

func TestHooksAreCalledAsTheRealRunnerDoes(t *testing.T) {
	t.Setenv(startedHook.variable, "")
	if startedHook.in("") != nil {
		t.Error("there is a step without a hook")
	}
	got := step(t.Context(), t,
		"echo attempt $GITHUB_RUN_ATTEMPT in $PWD; echo '| x |' >>$GITHUB_STEP_SUMMARY; echo told >&2\n")
	if got.Failed || got.Summary != "| x |\n" || !strings.Contains(got.Log, "attempt 2 in ") ||
		!strings.Contains(got.Log, "/repository/repository\ntold\n") {
		t.Errorf("%+v", got)
	}
	if got := step(t.Context(), t, "false\necho and on\n"); !got.Failed || strings.Contains(got.Log, "and on") ||
		!strings.Contains(got.Log, "exit code 1") {
		t.Errorf("a script that fails: %+v", got)
	}
	t.Setenv(startedHook.variable, "/nowhere/hook.sh")
	if got := startedHook.in(t.TempDir())(t.Context(), nil); !got.Failed {
		t.Errorf("a script that isn't there: %+v", got)
	}
}

// The job is canceled while its hook is at work.
func TestHooksAreAskedToEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	began := filepath.Join(t.TempDir(), "began")
	if err := syscall.Mkfifo(began, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer cancel()
		if _, err := os.ReadFile(began); err != nil {
			t.Error(err)
		}
	}()
	got := step(ctx, t, "trap 'echo asked; exit 0' INT\necho >"+began+"\nwhile :; do :; done\n")
	if got.Failed || !strings.Contains(got.Log, "asked\n") {
		t.Errorf("%+v", got)
	}
}
