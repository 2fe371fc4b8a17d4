package process_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/harrier-ci/harrier/internal/testkube/process"
)

// start runs a script and returns with the first line that it writes, which means that it is ready.
func start(t *testing.T, script string) (*process.Process, string) {
	t.Helper()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command("sh", "-c", script)
	command.Stdout = writer
	started, err := process.Start(command)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = started.Stop(0) })
	line, err := bufio.NewReader(reader).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return started, strings.TrimSpace(line)
}

func TestExitCodeIsThatOfAShell(t *testing.T) {
	for script, want := range map[string]int{"exit 0": 0, "exit 7": 7, "kill -KILL $$": 137} {
		started, _ := start(t, "echo; "+script)
		if got := started.ExitCode(); got != want {
			t.Errorf("%s: got %d, want %d", script, got, want)
		}
	}
}

func TestStopGivesTheProgramItsGraceAndNoMore(t *testing.T) {
	polite, _ := start(t, "trap 'exit 3' TERM; echo; while :; do sleep 0.01; done")
	stubborn, _ := start(t, "trap '' TERM; echo; while :; do sleep 0.01; done")
	if err := stubborn.Stop(100 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if got := stubborn.ExitCode(); got != 137 {
		t.Errorf("a program that ignores SIGTERM ended with %d, want 137", got)
	}
	if err := polite.Stop(time.Minute); err != nil {
		t.Fatal(err)
	}
	if got := polite.ExitCode(); got != 3 {
		t.Errorf("a program that handles SIGTERM ended with %d, want 3", got)
	}
}

func TestStopReachesWhatTheProgramHasStarted(t *testing.T) {
	started, line := start(t, "sleep 600 & echo $!; wait")
	child, err := strconv.Atoi(line)
	if err != nil {
		t.Fatal(err)
	}
	if err := started.Stop(0); err != nil {
		t.Fatal(err)
	}
	NewWithT(t).Eventually(func() bool { return running(child) }, "30s").Should(BeFalse(),
		"process %d outlived its parent", child)
}

// running reports whether a process runs. A zombie that has yet to be reaped by this machine's init counts as ended.
func running(pid int) bool {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return syscall.Kill(pid, 0) == nil
	}
	return !strings.Contains(string(status), ") Z ")
}

// TestMain turns the test binary into the program that a test pauses, which writes on threads other than its first.
func TestMain(m *testing.M) {
	if path := os.Getenv("HARRIER_WRITE_TO"); path != "" {
		writeForever(path)
	}
	os.Exit(m.Run())
}

func writeForever(path string) {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	for range 4 {
		go func() {
			for {
				_, _ = file.WriteString(".")
			}
		}()
	}
	fmt.Println("writing")
	select {}
}

// The signal stops a program's threads one after the other, and the others keep running for milliseconds.
func TestAPausedProgramDoesNothing(t *testing.T) {
	written := filepath.Join(t.TempDir(), "written")
	started, _ := start(t, "exec env HARRIER_WRITE_TO="+written+" "+os.Args[0])
	for range 20 {
		if err := started.Pause(); err != nil {
			t.Fatal(err)
		}
		before := size(t, written)
		for range 1000 {
			if after := size(t, written); after != before {
				t.Fatalf("it wrote %d bytes after it was paused", after-before)
			}
		}
		if err := started.Resume(); err != nil {
			t.Fatal(err)
		}
		NewWithT(t).Eventually(func() int64 { return size(t, written) }, "30s", "1ms").
			Should(BeNumerically(">", before))
	}
}

func TestPausingAProgramThatHasEndedIsNoError(t *testing.T) {
	started, _ := start(t, "echo")
	started.ExitCode()
	if err := started.Pause(); err != nil {
		t.Error(err)
	}
}

// size returns the size of a file, 0 if it does not exist yet.
func size(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func TestAProgramThatIsNotThereIsAnError(t *testing.T) {
	if _, err := process.Start(exec.Command("/nowhere/at/all")); err == nil {
		t.Error("got no error")
	}
}
