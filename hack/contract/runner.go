package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
)

const (
	// A runner that is refused ends within seconds; one that listens after refusedWithin is not.
	refusedWithin = 90 * time.Second
	// looks is the time between two looks at the runner's record while it runs.
	looks = 5 * time.Second
	// At most this much of what the runner prints is kept.
	keptOutput = 64 << 10
)

// runnerRun is what was seen of a runner's program.
type runnerRun struct {
	exitCode int // -1 while it runs
	output   tail
	record   actions.RunnerReference
}

// tail keeps the end of what is written to it.
type tail struct{ kept []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	t.kept = bytes.Clone(t.kept[max(0, len(t.kept)-keptOutput):])
	return len(p), nil
}

// runRunner starts the runner's program, and looks whether it ends by itself.
func runRunner(ctx context.Context, c *contract) (string, error) {
	switch {
	case c.jit == nil:
		return "", &skippedError{"there is no runner"}
	case c.settings.runner == "":
		return "", &skippedError{"-runner DIRECTORY starts one, of an old version"}
	}
	ran, err := c.startRunner(ctx)
	if err != nil {
		return "", err
	}
	c.ran = ran
	said := ran.lastLine()
	switch {
	case ran.exitCode < 0:
		return "", otherwise("the runner listens after %s; it says %q", refusedWithin, said)
	case !strings.Contains(strings.ToLower(string(ran.output.kept)), "deprecated"):
		return "", otherwise("it ends with exit code %d and does not say that its version is deprecated, but %q",
			ran.exitCode, said)
	}
	return fmt.Sprintf("exit code %d, %q", ran.exitCode, said), nil
}

func (c *contract) startRunner(ctx context.Context) (*runnerRun, error) {
	limited, cancel := context.WithTimeout(ctx, refusedWithin)
	defer cancel()
	ran := &runnerRun{exitCode: -1}
	command := exec.CommandContext(limited, filepath.Join(c.settings.runner, "run.sh"))
	command.Dir = c.settings.runner
	command.Env = append(slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "GITHUB_") // the token is none of its business
	}), "ACTIONS_RUNNER_INPUT_JITCONFIG="+c.jit.EncodedJITConfig, "ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE=1")
	command.Stdout, command.Stderr = &ran.output, &ran.output
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGTERM) } // it and its children
	command.WaitDelay = 10 * time.Second
	if err := command.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	look := time.NewTicker(looks)
	defer look.Stop()
	for {
		select {
		case err := <-ended:
			c.lookAtRecord(context.WithoutCancel(ctx), ran)
			if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
				return nil, err
			} else if limited.Err() == nil {
				ran.exitCode = 0
				if ok {
					ran.exitCode = exit.ExitCode()
				}
			}
			return ran, ctx.Err()
		case <-look.C:
			c.lookAtRecord(ctx, ran)
		}
	}
}

// lookAtRecord remembers the runner's record, as long as GitHub has one.
func (c *contract) lookAtRecord(ctx context.Context, ran *runnerRun) {
	if record, err := c.client.GetRunner(ctx, c.runner.ID); err == nil && (record.Version != "" || ran.record.ID == 0) {
		ran.record = *record
	}
}

// lastLine is the last line that the runner printed.
func (r *runnerRun) lastLine() string {
	lines := strings.Split(strings.TrimSpace(string(r.output.kept)), "\n")
	return lines[len(lines)-1]
}
