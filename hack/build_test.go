// Package hack_test tests the scripts in this directory, with a stand-in for the go command.
package hack_test

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// standIn plays the go command: three packages are stale, one is compiled, and the rest waits until somebody reads from
// the pipe.
const standIn = `#!/usr/bin/env bash
case "$1" in
  list) printf 'a\nb\nc\n' ;;
  build)
    echo a >&2
    [ -z "${FAIL:-}" ] || { echo 'b.go:1: no such thing' >&2; exit 1; }
    echo go on >"$PIPE"
    printf 'b\nc\n' >&2
    echo linked >"$4"
    ;;
esac
`

// build prepares a call of build.sh that writes output in a directory of its own, in which go is the stand-in.
func build(t *testing.T, more ...string) (command *exec.Cmd, output, pipe string) {
	t.Helper()
	directory := t.TempDir()
	if err := os.WriteFile(filepath.Join(directory, "go"), []byte(standIn), 0o755); err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs("build.sh")
	if err != nil {
		t.Fatal(err)
	}
	output, pipe = filepath.Join(directory, "program"), filepath.Join(directory, "pipe")
	if printed, err := exec.CommandContext(t.Context(), "mkfifo", pipe).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, printed)
	}
	command = exec.CommandContext(t.Context(), script, "the program", output, ".")
	command.Dir = directory
	command.Env = append(append(os.Environ(), "PATH="+directory+":"+os.Getenv("PATH"), "PIPE="+
		pipe, "HARRIER_PROGRESS_SECONDS=0"), more...)
	return command, output, pipe
}

func TestABuildSaysHowFarItIs(t *testing.T) {
	command, output, pipe := build(t)
	progress, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	const want = "the program: 1 of 3 packages compiled, "
	said, seen := []string{}, false
	for lines := bufio.NewScanner(progress); lines.Scan(); {
		said = append(said, lines.Text())
		if seen || !strings.HasPrefix(lines.Text(), want) {
			continue
		}
		seen = true
		if _, err := os.ReadFile(pipe); err != nil { // lets the build go on
			t.Fatal(err)
		}
	}
	if err := command.Wait(); err != nil || !seen {
		t.Fatalf("%v; want a line that begins with %q among %q", err, want, said)
	}
	if content, err := os.ReadFile(output); err != nil || string(content) != "linked\n" {
		t.Errorf("output is %q, %v", content, err)
	}
}

func TestAFailedBuildShowsTheCompilersWords(t *testing.T) {
	command, _, _ := build(t, "FAIL=yes")
	var said bytes.Buffer
	command.Stderr = &said
	if err := command.Run(); err == nil {
		t.Error("no error")
	}
	for _, want := range []string{"b.go:1: no such thing", "the program can't be built in " + command.Dir} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("said %q, want %q in it", said.String(), want)
		}
	}
}
