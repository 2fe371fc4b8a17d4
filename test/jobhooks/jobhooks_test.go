// Package jobhooks tests the scripts that runners call at the start and the end of a job (feedback.jobLog,
// feedback.debugHold), in each shell of the machine, on recorded control groups.
package jobhooks

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/charts"
)

// The runner may call a script with any of shells. It prefers bash, and each ends at the first command that fails.
var shells = [][]string{{"bash", "-e"}, {"dash", "-e"}, {"busybox", "sh", "-e"}}

// inEachShell runs a test in each installed shell; sh is everywhere.
func inEachShell(t *testing.T, test func(t *testing.T, h *hooks)) {
	t.Helper()
	ran := 0
	for _, shell := range append(shells, []string{"sh", "-e"}) {
		if _, err := exec.LookPath(shell[0]); err != nil {
			continue
		}
		ran++
		t.Run(shell[0], func(t *testing.T) { test(t, newHooks(t, shell)) })
	}
	if ran == 0 {
		t.Fatal("there is no shell")
	}
}

// hooks are the scripts as a pod has them, with the cluster's data.
type hooks struct {
	*testing.T
	shell                           []string
	directory, termination, summary string
	env                             []string
}

func newHooks(t *testing.T, shell []string) *hooks {
	t.Helper()
	directory := t.TempDir()
	h := &hooks{T: t, shell: shell, directory: filepath.Join(directory, "hooks"),
		termination: filepath.Join(directory, "termination"), summary: filepath.Join(directory, "summary")}
	chart, err := charts.Files(charts.ScaleSet)
	if err != nil {
		t.Fatal(err)
	}
	scripts, err := fs.Sub(chart, "hooks")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(h.directory, scripts); err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string]string{
		"pod": "set-abc-runner-x7k2p", "namespace": "arc-runners", "scale-set": "set", "job-log": "true", "debug-hold": "0",
		"phases": "queued=1800000000 assigned=1800000002 created=1800000003 registered=1800000003 placed=1800000010 imagePulled=1800000040 containerUp=1800000040 started=1800000042",
	} {
		h.write(file, content)
	}
	h.env = append(os.Environ(), "ACTIONS_RUNNER_NODE_NAME=worker-3", "RUNNER_WORKSPACE=/", "RUNNER_TEMP="+directory,
		"PROC="+absolute(t, "proc"),
		"TERMINATION_LOG="+h.termination, "GITHUB_STEP_SUMMARY="+h.summary, "DOCKER_HOST=",
		"ACTIONS_RUNNER_CONTAINER_HOOKS=")
	return h
}

func absolute(t *testing.T, file string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func (h *hooks) write(file, content string) {
	h.Helper()
	if err := os.WriteFile(filepath.Join(h.directory, file), []byte(content), 0o600); err != nil {
		h.Fatal(err)
	}
}

func (h *hooks) read(file string) string {
	h.Helper()
	content, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		h.Fatal(err)
	}
	return string(content)
}

// command returns the runner's call of a script.
func (h *hooks) command(script string, env ...string) *exec.Cmd {
	command := exec.CommandContext(h.Context(), h.shell[0],
		append(slices.Clone(h.shell[1:]), filepath.Join(h.directory, script))...)
	command.Env = append(slices.Clone(h.env), env...)
	return command
}

// run calls a script as the runner does and returns its output. A hook that fails would fail the job.
func (h *hooks) run(script string, env ...string) string {
	h.Helper()
	command := h.command(script, env...)
	var printed bytes.Buffer
	command.Stdout, command.Stderr = &printed, &printed
	if err := command.Run(); err != nil {
		h.Errorf("%s fails the job: %v: %s", script, err, printed.String())
	}
	return printed.String()
}

func TestStartSaysWhereAndAfterWhichWait(t *testing.T) {
	inEachShell(t, func(t *testing.T, h *hooks) {
		want := "Scale set: arc-runners/set\nPod: set-abc-runner-x7k2p\nNode: worker-3\n" +
			"Wait: 42 s: assigned 2 s, created 1 s, registered 0 s, placed 7 s, imagePulled 30 s, containerUp 0 s, " +
			"started 2 s\n"
		if diff := cmp.Diff(want, h.run("started.sh")); diff != "" {
			t.Errorf("printed (-want +got):\n%s", diff)
		}
		h.write("phases", "created=1800000000 registered=1800000003")
		if got := h.run("started.sh"); !strings.Contains(got,
			"Wait: 3 s since the runner was created: registered 3 s\n") {
			t.Errorf("before the job's times are known it printed\n%s", got)
		}
	})
}

func TestEndSaysWhatWasUsed(t *testing.T) {
	for version, want := range map[string]struct{ printed, line string }{
		"v2": {
			"Memory: peak 2.0 GiB of 2.0 GiB\nOOM kills: 2\n" +
				"::warning title=Out of memory::processes of this job were killed 2 times because its container " +
				"reached its memory limit of 2.0 GiB: let it use less, or ask for a higher limit of the runner " +
				"container in scale set arc-runners/set\nCPU: 312.0 s used, throttled for 45.0 s, in 25 % of the " +
				"periods\n::warning title=CPU limit reached::the job was throttled in 25 % of the time in which it " +
				"was at work, because its container reached its CPU limit: it would be faster with a higher limit of " +
				"the runner container in scale set arc-runners/set\nNetwork: 3.0 GiB received, 50.0 MiB sent\nDisk: " +
				"100.0 MiB written, 2.0 GiB read; 60.0 GiB of 100.0 GiB free in /\n",
			`{"usage":1,"peakMemoryBytes":2147483648,"memoryLimitBytes":2147483648,"oomKills":2,"cpuMicroseconds":312000000,"throttledMicroseconds":45000000,"cpuPeriods":4000,"throttledPeriods":1000}` + "\n",
		},
		"v1": {
			"Memory: peak 1.0 GiB, no limit\nOOM kills: 0\nCPU: 61.2 s used\nNetwork: 3.0 GiB received, 50.0 MiB " +
				"sent\nDisk: 2.0 MiB written, 1.0 MiB read; 60.0 GiB of 100.0 GiB free in /\n",
			`{"usage":1,"peakMemoryBytes":1073741824,"oomKills":0,"cpuMicroseconds":61234567,"throttledMicroseconds":0,"cpuPeriods":0,"throttledPeriods":0}` + "\n",
		},
	} {
		t.Run(version, func(t *testing.T) {
			inEachShell(t, func(t *testing.T, h *hooks) {
				// without the wait
				_, printed, _ := strings.Cut(h.run("completed.sh", "CGROUP="+absolute(t, version), h.disk(60)), "\n")
				if diff := cmp.Diff(want.printed, printed); diff != "" {
					t.Errorf("printed (-want +got):\n%s", diff)
				}
				if got := h.read(h.termination); got != want.line {
					t.Errorf("termination message %s, want %s", got, want.line)
				}
				if summary := h.read(h.summary); !strings.Contains(summary, "\n| CPU | ") ||
					!strings.Contains(summary, "`arc-runners/set` on node `worker-3`") {
					t.Errorf("summary\n%s", summary)
				}
			})
		})
	}
}

func TestEndSaysHowFullTheClaimsAre(t *testing.T) {
	inEachShell(t, func(t *testing.T, h *hooks) {
		h.write("volumes", "cache /cache\ndocker /var/lib/my docker\n\nodd\n")
		printed := h.run("completed.sh", "CGROUP="+absolute(t, "v2"), h.disk(60))
		for _, want := range []string{"Volume cache: 40.0 GiB of 100.0 GiB used in /cache\n",
			"Volume docker: 40.0 GiB of 100.0 GiB used in /var/lib/my docker\n"} {
			if !strings.Contains(printed, want) {
				t.Errorf("no %q in\n%s", want, printed)
			}
		}
		usage, volumes, _ := strings.Cut(h.read(h.termination), "\n")
		if want := `{"volume":1,"name":"cache","bytes":107374182400,"usedBytes":42949672960}` + "\n" +
			`{"volume":1,"name":"docker","bytes":107374182400,"usedBytes":42949672960}` + "\n"; volumes != want ||
			!strings.HasPrefix(usage, `{"usage":1,`) {
			t.Errorf("left %s\n%s, want\n%s", usage, volumes, want)
		}
		if got := h.run("completed.sh", "CGROUP=/nowhere", h.disk(0)); !strings.Contains(got,
			"::warning title=Volume full::less than 1 % of the volume cache of scale set arc-runners/set, in /cache, is free\n") {
			t.Errorf("a full volume is not told:\n%s", got)
		}
	})
}

func TestADiskWithLessThanOnePercentFreeIsFull(t *testing.T) {
	inEachShell(t, func(t *testing.T, h *hooks) {
		const warning = "::warning title=Disk full::less than 1 % of the disk with / is free\n"
		for free, full := range map[int]bool{0: true, 1: false} {
			if got := h.run("completed.sh", "CGROUP=/nowhere", h.disk(free)); strings.Contains(got, warning) != full {
				t.Errorf("with %d %% free it printed\n%s", free, got)
			}
		}
	})
}

// Whatever is missing or forged, the job goes on, and no forged text is run.
func TestHooksFailNoJob(t *testing.T) {
	inEachShell(t, func(t *testing.T, h *hooks) {
		touched := filepath.Join(h.directory, "touched")
		h.write("phases", "queued=$(touch "+touched+") assigned=a[$(touch "+touched+
			")] created=08 started=99999999999999999999 \n::error::x *")
		nowhere := []string{
			"CGROUP=/nowhere", "PROC=/nowhere", "TERMINATION_LOG=/nowhere/x", "GITHUB_STEP_SUMMARY=/nowhere/x",
			"RUNNER_WORKSPACE=/nowhere",
		}
		printed := h.run("started.sh", nowhere...) + h.run("completed.sh", nowhere...)
		if _, err := os.Stat(touched); err == nil || strings.Contains(printed, "error") {
			t.Errorf("what somebody wrote on the pod was run, or printed:\n%s", printed)
		}
		for _, script := range []string{"common.sh", "usage.sh"} {
			if err := os.Remove(filepath.Join(h.directory, script)); err != nil {
				t.Fatal(err)
			}
			h.run("completed.sh", nowhere...)
		}
		h.run("started.sh", nowhere...)
	})
}

// A disk that does not answer costs a second, and the figures that need it. A process that waits for it keeps no pipe
// of the runner open.
func TestADiskThatHangsDelaysNoJob(t *testing.T) {
	inEachShell(t, func(t *testing.T, h *hooks) {
		hang := h.hangingFile()
		for name, env := range map[string]string{
			"asked": h.tool("df", "exec sleep 60"), "message": "TERMINATION_LOG=" + hang, "summary": "GITHUB_STEP_SUMMARY=" + hang,
		} {
			began := time.Now()
			printed := h.run("started.sh", env) + h.run("completed.sh", "CGROUP="+absolute(t, "v1"), env)
			if took := time.Since(began); took > 30*time.Second { // a second, on a busy machine
				t.Errorf("%s: start and end of the job took %s", name, took)
			}
			for _, want := range []string{"Node: worker-3\n", "Wait: 42 s", "Memory: peak 1.0 GiB", "CPU: 61.2 s used",
				"Network: 3.0 GiB received"} {
				if !strings.Contains(printed, want) {
					t.Errorf("%s: no %q in\n%s", name, want, printed)
				}
			}
		}
	})
}

// disk returns the variable for a disk of 100 GiB, however full that of the machine is.
func (h *hooks) disk(freePercent int) string {
	h.Helper()
	const percent = 1 << 20 // KiB
	return h.tool("df", fmt.Sprintf("echo Filesystem 1024-blocks Used Available Capacity Mounted on\n"+
		"echo /dev/sda1 %d %d %d %d%% /", 100*percent, (100-freePercent)*percent, freePercent*percent, 100-freePercent))
}

// tool returns the variable with which a script finds a program of that name first.
func (h *hooks) tool(name, script string) string {
	h.Helper()
	bin := h.TempDir()
	if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		h.Fatal(err)
	}
	return "PATH=" + bin + ":" + os.Getenv("PATH")
}

// hangingFile returns a file whose opening lasts until the end of the test.
func (h *hooks) hangingFile() string {
	h.Helper()
	file := filepath.Join(h.TempDir(), "hang")
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() {
		reader, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			h.Error(err)
			return
		}
		_ = reader.Close()
	})
	return file
}

// The documented tools are enough, and nothing but the job's folder and the termination message is written.
func TestHooksNeedFewTools(t *testing.T) {
	tools := t.TempDir()
	for _, tool := range []string{"date", "df", "sleep"} {
		path, err := exec.LookPath(tool)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(tools, tool)); err != nil {
			t.Fatal(err)
		}
	}
	inEachShell(t, func(t *testing.T, h *hooks) {
		printed := h.run("completed.sh", "CGROUP="+absolute(t, "v2"), "PATH="+tools, "TMPDIR=/nowhere")
		for _, want := range []string{"Memory: ", "CPU: ", "Network: ", "Disk: 100.0 MiB written, 2.0 GiB read; "} {
			if !strings.Contains(printed, want) {
				t.Errorf("no %q in\n%s", want, printed)
			}
		}
		if !strings.Contains(h.read(h.summary), "\n| Disk | ") || h.read(h.termination) == "" {
			t.Errorf("summary\n%s\ntermination message %s", h.read(h.summary), h.read(h.termination))
		}
	})
}

func TestOnlyAnAttemptThatAPersonBeganWithDebugLoggingIsHeld(t *testing.T) {
	inEachShell(t, func(t *testing.T, h *hooks) {
		h.write("job-log", "false")
		h.write("debug-hold", "3600")
		for _, env := range [][]string{
			{"RUNNER_DEBUG=", "GITHUB_RUN_ATTEMPT=2"}, {"RUNNER_DEBUG=1", "GITHUB_RUN_ATTEMPT=1"}, {"RUNNER_DEBUG=1", "GITHUB_RUN_ATTEMPT="},
			{"RUNNER_DEBUG=1", "GITHUB_RUN_ATTEMPT=2", "GITHUB_TRIGGERING_ACTOR=acme-runners[bot]"},
		} {
			if got := h.run("completed.sh", env...); got != "" {
				t.Errorf("%v: printed\n%s", env, got)
			}
		}
		if err := os.WriteFile(filepath.Join(filepath.Dir(h.termination), "end-hold"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		got := h.run("completed.sh", "RUNNER_DEBUG=1", "GITHUB_RUN_ATTEMPT=2", "GITHUB_TRIGGERING_ACTOR=octocat")
		if want := "kubectl exec -it --namespace arc-runners set-abc-runner-x7k2p -c " +
			"runner -- sh"; !strings.Contains(got, want) {
			t.Errorf("printed\n%s\nwant %s", got, want)
		}
	})
}

// A run that is canceled ends the hold of its job: the runner sends SIGINT.
func TestCancellationEndsTheHold(t *testing.T) {
	inEachShell(t, func(t *testing.T, h *hooks) {
		h.write("job-log", "false")
		h.write("debug-hold", "3600")
		command := h.command("completed.sh", "RUNNER_DEBUG=1", "GITHUB_RUN_ATTEMPT=2")
		output, err := command.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		canceled := false
		for lines := bufio.NewScanner(output); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "To end it earlier: ") {
				canceled = true
				if err := command.Process.Signal(syscall.SIGINT); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := command.Wait(); err != nil || !canceled {
			t.Errorf("the hook has ended with %v, canceled %t", err, canceled)
		}
	})
}
