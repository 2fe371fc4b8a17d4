package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/harrier-ci/harrier/internal/fakegithub"
)

const (
	// maxStepLog bounds the kept output of a hook, in bytes. maxSummary is GitHub's limit for the summary of a step.
	maxStepLog = 64 << 10
	maxSummary = 1 << 20
	// cancelGrace is the time that a process of a canceled job has after SIGINT: 7.5 s, and 2.5 s after SIGTERM.
	cancelGrace = 10 * time.Second
)

// Each hook has the variable with its path, the name of its step, and its name in the real runner's log.
var (
	startedHook   = hook{"ACTIONS_RUNNER_HOOK_JOB_STARTED", "Set up runner", "job started hook"}
	completedHook = hook{"ACTIONS_RUNNER_HOOK_JOB_COMPLETED", "Complete runner", "job completed hook"}
)

type hook struct{ variable, step, called string }

// in returns a function that runs the hook with a job's files in the work folder, nil without a hook.
func (h hook) in(work string) fakegithub.JobHook {
	script := os.Getenv(h.variable)
	if script == "" {
		return nil
	}
	return func(ctx context.Context, environment map[string]string) fakegithub.Step {
		step := fakegithub.Step{
			Name: h.step,
			Log:  fmt.Sprintf("A %s has been configured by the self-hosted runner administrator\n", h.called),
		}
		output, summary, err := callScript(ctx, script, work, environment)
		step.Log += output
		step.Summary = summary
		if err != nil {
			log.Printf("%s: %v", h.step, err)
			step.Log += fmt.Sprintf("##[error]%v\n", err)
			step.Failed = true
		}
		return step
	}
}

// callScript calls a script as actions/runner does (Runner.Worker/Handlers/ScriptHandler.cs): with bash if there is
// one, else sh, and -e for both; in the workspace; with the variables of the runner, of the workflow run and of the
// runner's context. Its failure fails the job.
func callScript(
	ctx context.Context, script, work string, environment map[string]string,
) (output, summary string, err error) {
	if filepath.Ext(script) != ".sh" {
		return "", "", fmt.Errorf("%s is not a valid path to a script. Make sure it ends in '.sh', '.ps1' or '.js'",
			script)
	}
	if _, err := os.Stat(script); err != nil {
		return "", "", errors.New("File doesn't exist") //nolint:staticcheck // the real runner's words
	}
	shell, err := exec.LookPath("bash")
	if err != nil {
		if shell, err = exec.LookPath("sh"); err != nil {
			return "", "", err
		}
	}
	workspace, temporary := filepath.Join(work, "repository", "repository"), filepath.Join(work, "_temp")
	for _, folder := range []string{workspace, filepath.Join(temporary, "_runner_file_commands")} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return "", "", err
		}
	}
	summaries, err := os.CreateTemp(filepath.Join(temporary, "_runner_file_commands"), "step_summary_")
	if err != nil {
		return "", "", err
	}
	defer summaries.Close()
	command := exec.CommandContext(ctx, shell, "-e", script)
	command.Dir = workspace
	command.Env = append(os.Environ(), "GITHUB_WORKSPACE="+workspace, "GITHUB_STEP_SUMMARY="+summaries.Name(),
		"RUNNER_OS=Linux", "RUNNER_TEMP="+temporary, "RUNNER_WORKSPACE="+filepath.Dir(workspace))
	for name, value := range environment {
		command.Env = append(command.Env, name+"="+value)
	}
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGINT) }
	command.WaitDelay = cancelGrace
	var printed bytes.Buffer
	command.Stdout = io.MultiWriter(&printed, os.Stdout) // for whoever looks at the running job
	command.Stderr = command.Stdout
	err = command.Run()
	if exited, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("Process completed with exit code %d.", exited.ExitCode()) //nolint:revive,staticcheck // the real runner's words
	}
	if ctx.Err() != nil && command.ProcessState != nil && command.ProcessState.Success() {
		err = nil // the script has ended by itself when it was asked to
	}
	text, failed := io.ReadAll(io.LimitReader(summaries, maxSummary))
	return string(printed.Bytes()[:min(printed.Len(), maxStepLog)]), string(text), errors.Join(err, failed)
}
