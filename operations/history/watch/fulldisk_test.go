package watch_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/operations/history/ledger"
)

// smallDisk names the environment variable with the directory over which a process that has its own mounts lays a small
// file system.
const smallDisk = "HARRIER_TEST_SMALL_DISK"

// TestAFullDiskIsWaitedFor has the ledger on a file system that is really full: SQLite writes a part of what it wants to
// and is refused the rest. The test begins itself again, as a process that may mount one.
func TestAFullDiskIsWaitedFor(t *testing.T) {
	if directory := os.Getenv(smallDisk); directory != "" {
		waitForRoom(t, directory)
		return
	}
	again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAFullDiskIsWaitedFor$", "-test.v")
	again.Env = append(os.Environ(), smallDisk+"="+t.TempDir())
	again.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := again.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		t.Fatal("the system allows no user namespaces, which make test turns on: sysctl " +
			"kernel.apparmor_restrict_unprivileged_userns=0")
	}
	if err != nil || !bytes.Contains(out, []byte("--- PASS: TestAFullDiskIsWaitedFor")) {
		t.Fatalf("%v\n%s", err, out)
	}
}

// waitForRoom fills the disk under a ledger, has jobs run and the program start again, and makes room.
func waitForRoom(t *testing.T, directory string) {
	if err := syscall.Mount("ledger", directory, "tmpfs", 0, "size=4m"); err != nil {
		t.Fatal(err)
	}
	file, ballast := filepath.Join(directory, "ledger.db"), filepath.Join(directory, "ballast")
	r := record(t, file)
	r.running(0)
	r.after(time.Second)
	fill(t, ballast)
	const jobs = 50
	for number := range jobs {
		r.running(number)
	}
	for range 10 { // each task is refused
		r.after(time.Minute)
	}
	if written := r.jobs(); len(written) != 1 {
		t.Errorf("%d jobs are read from a full disk that had room for one", len(written))
	}
	if again, err := ledger.Open(t.Context(), file); err == nil { // what a program does that is started meanwhile
		_ = again.Close()
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	r.after(30 * time.Second) // the longest pause of a task that has failed
	if written := r.jobs(); len(written) != jobs {
		t.Errorf("%d of %d jobs are written within 30 s after there was room", len(written), jobs)
	}
	gaps, err := r.Ledger.Gaps(t.Context(), ledger.Filter{})
	if err != nil || len(gaps.Rows) > 0 {
		t.Errorf("gaps are %v, %v: nothing was missed", gaps, err)
	}
	after := record(t, file)
	after.after(time.Second)
	if written := after.jobs(); len(written) != jobs {
		t.Errorf("the next program finds %d of %d jobs", len(written), jobs)
	}
}

// fill writes a file until there is no room, a page at a time.
func fill(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	page := make([]byte, os.Getpagesize())
	for err == nil {
		_, err = file.Write(page)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}
