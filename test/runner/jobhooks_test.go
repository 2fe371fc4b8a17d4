package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/harrier-ci/harrier/internal/fakegithub"
)

// step returns the step of a hook that is this script.
func step(t *testing.T, ctx context.Context, content string) fakegithub.Step {
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
	got := step(t, t.Context(), "echo attempt $GITHUB_RUN_ATTEMPT in $PWD; echo '| x |' >>$GITHUB_STEP_SUMMARY; echo told >&2\n")
	if got.Failed || got.Summary != "| x |\n" || !strings.Contains(got.Log, "attempt 2 in ") ||
		!strings.Contains(got.Log, "/repository/repository\ntold\n") {
		t.Errorf("%+v", got)
	}
	if got := step(t, t.Context(), "false\necho and on\n"); !got.Failed || strings.Contains(got.Log, "and on") ||
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
	go func() {
		defer cancel()
		for ctx.Err() == nil {
			if _, err := os.Stat(began); err == nil {
				return
			}
		}
	}()
	got := step(t, ctx, "trap 'echo asked; exit 0' INT\ntouch "+began+"\nwhile :; do :; done\n")
	if got.Failed || !strings.Contains(got.Log, "asked\n") {
		t.Errorf("%+v", got)
	}
}
